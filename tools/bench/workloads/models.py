"""The networks that the benchmarks and the end-to-end tests train, each with the data it is fed.

Three kinds, because they load memory in different ways:

densenet121   many activations of 1 to 64 MiB, kept for the backward pass and read in reverse order
transformer   a language model over a TransformerEncoder: fewer and larger tensors, dropout masks, a wide head
relu_cnn      a plain stack of convolutions and ReLUs; half of every activation is zero

Everything is stock PyTorch and torchvision. Data is random but drawn from the seed, so that two runs see the
same bytes.
"""
import math

import torch
import torchvision
from torch import nn

CLASSES = 10
VOCABULARY = 8192


class LanguageModel(nn.Module):
    """Embedding, sinusoidal positions, nn.TransformerEncoder with a causal mask, linear head."""

    def __init__(self, length, width, layers, heads):
        super().__init__()
        self.width = width
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.register_buffer("positions", sinusoids(length, width))
        self.register_buffer("mask", torch.full((length, length), -math.inf).triu(1))
        layer = nn.TransformerEncoderLayer(width, heads, dim_feedforward=2 * width, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers)
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, tokens):
        hidden = self.embedding(tokens) * math.sqrt(self.width) + self.positions
        return self.head(self.encoder(hidden, self.mask)).flatten(0, 1)


def sinusoids(length, width):
    position = torch.arange(length).unsqueeze(1)
    rate = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
    table = torch.zeros(length, width)
    table[:, 0::2] = torch.sin(position * rate)
    table[:, 1::2] = torch.cos(position * rate)
    return table


def relu_cnn():
    stages, channels = [], 3
    for out in (64, 128, 256):
        for _ in range(3):
            stages += [nn.Conv2d(channels, out, 3, padding=1, bias=False), nn.BatchNorm2d(out), nn.ReLU()]
            channels = out
        stages.append(nn.MaxPool2d(2))
    return nn.Sequential(*stages, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, CLASSES))


def images(samples, size):
    return torch.randn(samples, 3, size, size), torch.randint(0, CLASSES, (samples,))


def token_sequences(samples, size):
    tokens = torch.randint(0, VOCABULARY, (samples, size + 1))
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


# name: (default batch, default size, builds the model from (size, layers), builds the data from (samples, size))
MODELS = {
    "densenet121": (64, 128, lambda size, layers: torchvision.models.densenet121(num_classes=CLASSES), images),
    "transformer": (16, 256, lambda size, layers: LanguageModel(size, 512, layers, 8), token_sequences),
    "relu_cnn": (32, 96, lambda size, layers: relu_cnn(), images),
}
