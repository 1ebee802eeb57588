"""terrace.torch.plan: what becomes of each segment's saved tensors, decided before training (plan.py)."""
