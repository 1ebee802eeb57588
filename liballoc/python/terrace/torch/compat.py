"""What differs between the versions of PyTorch, from 1.13 to the present 2.x, decided by what is there.

storage_of(tensor)          its untyped storage; the same StorageImpl has the same _cdata
raw_stream(index)           the address of the current stream of a CUDA device
in_backward()               whether this thread runs a backward pass now
at_backward_end(function)   calls it once the backward pass that this thread is in has ended
"""
import torch

if hasattr(torch.Tensor, "untyped_storage"):  # since 2.0
    storage_of = torch.Tensor.untyped_storage
else:
    storage_of = torch.Tensor._storage

if hasattr(torch._C, "_cuda_getCurrentRawStream"):
    raw_stream = torch._C._cuda_getCurrentRawStream
else:

    def raw_stream(index):
        return torch.cuda.current_stream(index).cuda_stream


def at_backward_end(function):
    """Raises RuntimeError when this thread is in no backward pass. Not called when the pass fails."""
    torch.autograd.Variable._execution_engine.queue_callback(function)


if hasattr(torch._C, "_current_graph_task_id"):  # since 2.0

    def in_backward():
        return torch._C._current_graph_task_id() != -1

else:

    def in_backward():
        try:  # the engine takes a callback during a backward pass only
            at_backward_end(_nothing)
        except RuntimeError:
            return False
        return True


def _nothing():
    pass


if hasattr(torch.cuda, "is_current_stream_capturing"):
    is_capturing = torch.cuda.is_current_stream_capturing
else:

    def is_capturing():
        return False
