"""Saved tensors of PyTorch in host memory and on NVMe: offload(), offload_module(), OffloadError.

Works with PyTorch 1.13 to the present 2.x. docs/offload.md is the guide.
"""
from .errors import OffloadError
from .module import offload_module
from .session import offload

__all__ = ["OffloadError", "offload", "offload_module"]
