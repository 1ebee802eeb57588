"""What the tests of the hooks let autograd save: a small network, and a function that saves what it is given."""
import torch


def mlp():
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64), torch.nn.GELU(),
                               torch.nn.Linear(64, 8))


def batch():
    torch.manual_seed(4)
    return torch.randn(16, 32)


class Capture(torch.autograd.Function):
    """Saves what it is given, and keeps what it gets back."""

    got = None

    @staticmethod
    def forward(context, *tensors):
        context.save_for_backward(*tensors)
        return sum(t.detach().real.float().sum() for t in tensors)

    @staticmethod
    def backward(context, gradient):
        Capture.got = context.saved_tensors
        return tuple(torch.zeros_like(t) for t in Capture.got)


def round_trip(session, *tensors):
    with session:
        out = Capture.apply(*tensors)
    out.backward()
    got, Capture.got = Capture.got, None
    return got


def result(tensor):
    """A tensor as operations make them: not a leaf, with a gradient to compute."""
    return tensor.clone().requires_grad_().clone()


def backward(loss):
    loss.backward()
    return loss
