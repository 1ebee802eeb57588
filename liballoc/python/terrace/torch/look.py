"""Looks at a tensor that is saved: whether it may be offloaded, and where its bytes lie.

The same is in C (native/saves.c), which is used where the build has it: most of the cost of a save is a dozen attributes
of a tensor. tests/python/hooks/look_test.py holds both to one answer.

What takes least comes first: a tensor that is too small, and no view of another, is left alone before its storage is
asked for. Whether a view is too small is known later, since the tensor that it is a view of may be stored already.
"""
import torch

from .. import library
from ..library import (ELEMENT_BF16, ELEMENT_F8E4M3, ELEMENT_F8E5M2, ELEMENT_F16, ELEMENT_F32, ELEMENT_F64,
                       ELEMENT_U16, ELEMENT_U32, ELEMENT_U64, ELEMENT_U8)
from .compat import storage_of

ELEMENTS = {torch.bool: ELEMENT_U8, torch.uint8: ELEMENT_U8, torch.int8: ELEMENT_U8, torch.int16: ELEMENT_U16,
            torch.int32: ELEMENT_U32, torch.int64: ELEMENT_U64, torch.float16: ELEMENT_F16,
            torch.bfloat16: ELEMENT_BF16, torch.float32: ELEMENT_F32, torch.float64: ELEMENT_F64,
            torch.complex64: ELEMENT_F32, torch.complex128: ELEMENT_F64}
for _name, _element in (("float8_e4m3fn", ELEMENT_F8E4M3), ("float8_e5m2", ELEMENT_F8E5M2), ("uint16", ELEMENT_U16),
                        ("uint32", ELEMENT_U32), ("uint64", ELEMENT_U64)):
    if hasattr(torch, _name):  # since 2.1, 2.3
        ELEMENTS[getattr(torch, _name)] = _element

COMPLEX = 256
KINDS = {dtype: torch.empty(0, dtype=dtype).element_size() | (COMPLEX if dtype.is_complex else 0) for dtype in ELEMENTS}


def look_for(device, least_bytes):
    """look(tensor), of a plain torch.Tensor, for a session whose tensors are on `device`: None, it is left alone, or
    (root, storage, address, geometry, begin, end).

    root: whose version counter the tensor has, itself or what it is a view of. address: of the storage. geometry: size,
    stride, offset in the storage, type, bits (1, the elements are to be conjugated, 2, negated, when they are read).
    begin, end: bytes in the storage. Any thread.
    """
    rules = (device, torch.strided, KINDS, storage_of, least_bytes)
    native = library.native()
    return in_python(rules) if native is None else native.look_for(rules)


def in_python(rules):
    device, layout, kinds, storage_of_tensor, least_bytes = rules

    def look(tensor):
        kind = kinds.get(tensor.dtype)
        if tensor.layout is not layout or tensor.device != device or kind is None or tensor.is_nested:
            return None
        root, itemsize, elements, contiguous = tensor._base, kind & 255, tensor.numel(), tensor.is_contiguous()
        if root is None and contiguous and elements * itemsize < least_bytes:
            return None
        if tensor.requires_grad and tensor.is_leaf:
            return None
        if root is None:
            root = tensor
        elif type(root) is not type(tensor) or (root.requires_grad and root.is_leaf):
            return None  # a view of a parameter
        try:
            storage = storage_of_tensor(tensor)
            address = storage.data_ptr()
        except RuntimeError:  # a wrapper of vmap or grad, or a tensor of another kind; NotImplementedError is one
            return None
        if not address:
            return None
        size, stride, offset = tensor.size(), tensor.stride(), tensor.storage_offset()
        bits = (kind >= COMPLEX and tensor.is_conj()) | tensor.is_neg() << 1
        begin = offset * itemsize
        span = elements * itemsize if contiguous else span_bytes((size, stride), itemsize)
        return root, storage, address, (size, stride, offset, tensor.dtype, bits), begin, begin + span

    return look


def span_bytes(geometry, itemsize):
    """From the first element to the end of the last."""
    last = 0
    for size, stride in zip(*geometry[:2]):
        if size == 0:
            return 0
        last += (size - 1) * stride
    return (last + 1) * itemsize
