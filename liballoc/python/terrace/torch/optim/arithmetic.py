"""How the PyTorch in use rounds in its for-loop Adam, found by trying: versions and builds differ in two places.

The first moment moves by lerp since 2.0 and was decayed and added to before. Whether the second moment's sum is
rounded once with its product or twice is up to the compiler that built PyTorch (gcc fuses them unless it is told
not to). Everything else has been the same since 1.13 (tests/python/optim/optim_exact_test.py).
"""
import ctypes
import functools
import itertools

import torch

from ... import library
from .states import States, make_config

_ELEMENTS = 256  # several vectors of any processor
_NEWEST = library.LERP | library.FUSED_SQUARE


def _torchs(parameter, gradients):
    parameter = torch.nn.Parameter(parameter.clone())
    optimizer = torch.optim.Adam([parameter], foreach=False)
    for parameter.grad in gradients:
        optimizer.step()
    return parameter.detach()


def _ours(parameter, gradients, flags):
    parameter = parameter.clone()
    states = States(make_config("dram", None, None, None, 1, None, None))
    number = states.add(_ELEMENTS, 2)
    rule = library.OptimizerRule(size=ctypes.sizeof(library.OptimizerRule), kind=library.ADAM, flags=flags, lr=1e-3,
                                 beta1=.9, beta2=.999, eps=1e-8)
    for step, gradient in enumerate(gradients, 1):
        update = library.OptimizerUpdate(size=ctypes.sizeof(library.OptimizerUpdate), id=number,
                                         parameter=parameter.data_ptr(), gradient=gradient.data_ptr(), step=step,
                                         rule=ctypes.pointer(rule))
        states.step((library.OptimizerUpdate * 1)(update))
    states.close()
    return parameter


@functools.lru_cache(maxsize=None)
def flags():
    """The flags of an Adam that rounds as this PyTorch's; the newest's where none does."""
    generator = torch.Generator().manual_seed(1)
    values = [torch.randn(_ELEMENTS, generator=generator) for _ in range(9)]
    expected = _torchs(values[0], values[1:])
    for chosen in itertools.product((library.LERP, 0), (library.FUSED_SQUARE, 0)):
        if torch.equal(_ours(values[0], values[1:], sum(chosen)), expected):
            return sum(chosen)
    return _NEWEST
