"""What differs between the versions of PyTorch, from 1.13 to the present 2.x, decided by what is there.

storage_of(tensor)          its untyped storage; the same StorageImpl has the same _cdata
raw_stream(index)           the address of the current stream of a CUDA device
in_backward()               whether this thread runs a backward pass now
at_backward_end(function)   calls it once the backward pass that this thread is in has ended
dispatch_modes()            how many modes (make_fx's, fake tensors') see what this thread computes
jit_trace()                 torch.jit.trace's of this thread, or None
unobserved()                a context with neither
not_to_be_compiled()        torch.compile leaves this package's functions as they are
is_input_of_checkpoint()    whether what is being saved now is an input of torch.utils.checkpoint's
innermost_hooks(True)       the pair of saved-tensor hooks that applies in this thread, or None. None in place of the
                            function where PyTorch does not say it
"""
import contextlib
import sys

import torch
import torch.utils.checkpoint

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


_PACKAGE = __file__.rpartition("/")[0]
_CHECKPOINTS = torch.utils.checkpoint.CheckpointFunction.forward.__code__.co_filename


def is_input_of_checkpoint():
    """By the function that has PyTorch save it, the innermost that is not of this package: a checkpoint of either kind saves its
    inputs from PyTorch's checkpoint.py, and its function's tensors are saved from elsewhere. `forward` there is the body
    of checkpoint_sequential()'s last segment, which is no checkpoint. With use_reentrant=False, 1.13 does not save the
    inputs but holds them."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return frame is not None and frame.f_code.co_filename == _CHECKPOINTS and frame.f_code.co_name != "forward"


dispatch_modes, jit_trace = torch._C._len_torch_dispatch_stack, torch._C._get_tracing_state


@contextlib.contextmanager
def unobserved():
    from torch.utils._python_dispatch import _pop_mode_temporarily  # PyTorch's own, and seldom needed
    trace = jit_trace()
    torch._C._set_tracing_state(None)
    try:
        with contextlib.ExitStack() as modes:
            while dispatch_modes():
                modes.enter_context(_pop_mode_temporarily())
            yield
    finally:
        torch._C._set_tracing_state(trace)


innermost_hooks = getattr(torch._C._autograd, "_top_saved_tensors_default_hooks", None)


def not_to_be_compiled():
    """Compiled autograd would have Dynamo trace the hooks, which cannot be: they call the engine."""
    global _told_dynamo
    rules = sys.modules.get("torch._dynamo.trace_rules")  # once something is compiled
    if not _told_dynamo and hasattr(rules, "add"):
        _told_dynamo = True
        rules.add(__package__.partition(".")[0])


_told_dynamo = False
