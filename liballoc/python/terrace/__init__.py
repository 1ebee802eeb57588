"""Terrace for Python: more memory for a training job than its GPU has.

    import terrace.torch

    with terrace.torch.offload(budget="8GiB"):
        loss = model(batch)
    loss.backward()

    terrace.mark()      # a step begins here: sharpens what Terrace learns of it (marks.py)

This package needs neither PyTorch nor a GPU to be imported. What terrace.torch does is done by
libterrace_gpu.so, which terrace/library.py finds. The guide is docs/offload.md.
"""
import importlib

from terrace.marks import mark

__all__ = ["mark", "torch"]


def __getattr__(name):
    if name == "torch":  # at first use: importing PyTorch takes seconds
        return importlib.import_module("terrace.torch")
    raise AttributeError(f"module 'terrace' has no attribute {name!r}")
