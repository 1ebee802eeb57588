#!/usr/bin/python3
"""README's train.py: steps of a training whose activations are 192 MiB; prints what it has learned, to the last bit.

    train.py [STEPS]     3; 0: until it is ended
"""
import itertools
import sys

import torch

LAYERS, NUMBERS = 24, 1 << 20


def step(weights, data):
    """Of the two tensors of each layer backward wants both."""
    kept = data
    for weight in weights:
        kept = torch.relu(kept * weight)
    loss = kept.mean()
    loss.backward()
    with torch.no_grad():
        for weight in weights:
            weight -= 0.01 * weight.grad
            weight.grad = None
    return loss.item()


def main(steps=3):
    torch.manual_seed(1)
    data = torch.rand(NUMBERS)
    weights = [torch.full((1,), 1.0 - number / 1000, requires_grad=True) for number in range(LAYERS)]
    for _ in itertools.islice(itertools.count(), steps or None):
        loss = step(weights, data)
    print(loss.hex(), *(weight.item().hex() for weight in weights))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
