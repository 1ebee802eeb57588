"""The networks that the benchmarks of the GPU side train, and one training step.

blocks     a residual stack of MLPs: almost all memory is activations, ten times the width for each token and
           block; 0.8 x width operations for each saved byte of 16 bits. Runs on a processor, too.
attention  the same with causal self-attention over a long sequence in front of each MLP; needs a PyTorch with
           scaled_dot_product_attention, so that no attention matrix is kept.

timed      layers that take set times forward and backward and save a tensor of a set size each: what decides between two
           orders of the same copies, without the processor's noise.

Everything random is drawn from the seed, on the device, so that all contenders see the same bytes. The loss is
the mean square of the output: no head, whose logits would be the largest tensor of all.
"""
import contextlib
import hashlib
import time

import torch
from torch import nn
from torch.nn import functional


class Mlp(nn.Module):
    def __init__(self, width, length):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, tokens):
        return tokens + self.down(functional.gelu(self.up(self.norm(tokens))))


class Attention(nn.Module):
    def __init__(self, width, length):
        super().__init__()
        self.length, self.heads = length, max(1, width // 128)
        self.norm, self.mlp = nn.LayerNorm(width), Mlp(width, length)
        self.query_key_value, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, tokens):
        rows, width = tokens.shape
        shape = (rows // self.length, self.length, 3, self.heads, width // self.heads)
        query, key, value = self.query_key_value(self.norm(tokens)).view(shape).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.mlp(tokens + self.out(mixed.transpose(1, 2).reshape(rows, width)))


class TimedLayer(torch.autograd.Function):
    """Saves `elements` numbers that depend on its weight, and takes so many seconds each way, in which nothing is computed."""

    @staticmethod
    def forward(ctx, tokens, weight, elements, forward_seconds, backward_seconds):
        time.sleep(forward_seconds)
        ctx.seconds = backward_seconds
        ctx.save_for_backward(torch.arange(elements, dtype=tokens.dtype).remainder_(251).mul_(weight.detach()))
        return tokens + weight

    @staticmethod
    def backward(ctx, gradient):
        (saved,) = ctx.saved_tensors
        time.sleep(ctx.seconds)
        return gradient, (gradient.sum() * saved.mean()).reshape(1), None, None, None


class Timed(nn.Module):
    """`layers`: elements, seconds forward, seconds backward of each."""

    def __init__(self, layers):
        super().__init__()
        self.layers = layers
        self.weights = nn.ParameterList(nn.Parameter(torch.rand(1)) for _ in layers)

    def forward(self, tokens):
        for weight, layer in zip(self.weights, self.layers):
            tokens = TimedLayer.apply(tokens, weight, *layer)
        return tokens


BLOCKS = {"blocks": Mlp, "attention": Attention}
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


class Stack(nn.Module):
    """`blocks` is what checkpointing wraps, one by one."""

    def __init__(self, kind, width, length, depth):
        super().__init__()
        self.blocks = nn.ModuleList(BLOCKS[kind](width, length) for _ in range(depth))

    def forward(self, tokens):
        for block in self.blocks:
            tokens = block(tokens)
        return tokens


def reason_not_to_run(kind):
    if kind == "attention" and not hasattr(functional, "scaled_dot_product_attention"):
        return f"PyTorch {torch.__version__} has no scaled_dot_product_attention: take --network blocks"
    return None


def build(network, device):
    """`network`: kind, width, length, depth, batch, dtype, seed. Returns (model, inputs, optimizer)."""
    torch.manual_seed(network["seed"])
    if network["kind"] == "timed":
        model = Timed(network["layers"])
        return model, torch.rand(4), torch.optim.SGD(model.parameters(), lr=1e-3)
    dtype = DTYPES[network["dtype"]]
    with device if hasattr(device, "__enter__") else contextlib.nullcontext():  # a context since PyTorch 2.0
        model = Stack(network["kind"], network["width"], network["length"], network["depth"])
    model = model.to(device, dtype)
    inputs = torch.randn(network["batch"] * network["length"], network["width"], dtype=dtype, device=device)
    return model, inputs, torch.optim.SGD(model.parameters(), lr=1e-3)


def loss_of(output):
    return output.float().square().mean()


def state_hash(model):
    """Over all parameters, to the last bit, whatever their type."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
