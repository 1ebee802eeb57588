"""Optimizers whose states are in DRAM or on NVMe: AdamW, Adam, SGD. docs/optimizer.md is the guide."""
from .adam import Adam, AdamW
from .sgd import SGD

__all__ = ["Adam", "AdamW", "SGD"]
