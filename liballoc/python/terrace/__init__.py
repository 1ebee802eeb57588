"""Terrace for Python: more memory for a training job than its GPU has.

    import terrace.torch

    with terrace.torch.offload(budget="8GiB"):
        loss = model(batch)
    loss.backward()

This package needs neither PyTorch nor a GPU to be imported. What it does is done by libterrace_gpu.so, which
terrace/library.py finds. The guide is docs/offload.md.
"""
import importlib

__all__ = ["torch"]


def __getattr__(name):
    if name == "torch":  # at first use: importing PyTorch takes seconds
        return importlib.import_module("terrace.torch")
    raise AttributeError(f"module 'terrace' has no attribute {name!r}")
