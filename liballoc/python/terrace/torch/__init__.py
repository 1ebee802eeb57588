"""Saved tensors of PyTorch in host memory and on NVMe: offload(), offload_module(), OffloadError; and optimizers whose
states are there: AdamW, Adam, SGD.

Works with PyTorch 1.13 to the present 2.x. The guides are docs/offload.md and docs/optimizer.md.
"""
from .errors import OffloadError
from .module import offload_module
from .optim import SGD, Adam, AdamW
from .session import offload

__all__ = ["OffloadError", "offload", "offload_module", "Adam", "AdamW", "SGD"]
