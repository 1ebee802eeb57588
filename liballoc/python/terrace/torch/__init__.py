"""Saved tensors of PyTorch in host memory and on NVMe: offload(), offload_module(), OffloadError, and what is said about
single tensors and blocks: keep(), mark_keep(), mark_offload(); and optimizers whose states are there: AdamW, Adam, SGD.

Works with PyTorch 1.13 to the present 2.x. The guides are docs/offload.md and docs/optimizer.md.
"""
from .deepspeed import from_deepspeed
from .errors import OffloadError
from .module import gradient_checkpointing_enable, offload_module
from .optim import SGD, Adam, AdamW
from .plans.plan import Plan, plan
from .policy import keep, mark_keep, mark_offload
from .session import offload

__all__ = ["OffloadError", "offload", "offload_module", "gradient_checkpointing_enable", "keep", "mark_keep", "mark_offload",
           "from_deepspeed", "plan", "Plan", "Adam", "AdamW", "SGD"]
