"""What the tests of the optimizers share: parameters with values that are hard, and gradients that follow from a number."""
import torch

TINY = torch.finfo(torch.float32).tiny
SHAPES = ((1,), (17,), (5, 67), (4099,))  # less than a vector, a part of one, a bias, several and a rest


def hard_values(shape, seed, scale=1.0):
    """Normal and very unlike magnitudes, exact zeros of both signs, denormals."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(shape, generator=generator)
    values *= torch.pow(10., torch.randint(-12, 4, shape, generator=generator).float()) * scale
    kind = torch.rand(shape, generator=generator)
    values[kind < .02] = 0.
    values[(kind > .02) & (kind < .04)] = -0.
    denormal = (kind > .04) & (kind < .06)
    values[denormal] = (values.sign() * TINY * torch.rand(shape, generator=generator))[denormal]
    return values


def parameters(dtype=torch.float32, shapes=SHAPES):
    return [torch.nn.Parameter(hard_values(shape, 7 + number).to(dtype)) for number, shape in enumerate(shapes)]


def gradients(step, dtype=torch.float32, shapes=SHAPES):
    return [hard_values(shape, 1000 * step + number, .01 if step % 7 else 1.).to(dtype)
            for number, shape in enumerate(shapes)]


def train(optimizer, given, steps, dtype=torch.float32, begin=0):
    """Steps with the gradients of their numbers, which have no more digits than `dtype` has."""
    shapes = [p.shape for p in given]
    for step in range(begin, begin + steps):
        for parameter, gradient in zip(given, gradients(step, dtype, shapes)):
            parameter.grad = gradient.to(parameter.dtype)
        optimizer.step()


def ulps(one, other):
    """The largest distance of two float32 tensors in representable numbers; NaN equals NaN."""
    both = torch.stack((one, other)).detach().contiguous()
    bits = both.view(torch.int32).long()
    ordered = torch.where(bits < 0, -(bits & 0x7fffffff), bits)
    ordered = torch.where(both.isnan(), torch.zeros_like(ordered) + 2**31, ordered)
    return int((ordered[0] - ordered[1]).abs().max())
