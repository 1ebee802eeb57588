"""The networks that the benchmarks and the end-to-end tests train, each with the data it is fed.

Five kinds, because they load memory in different ways:

densenet121   many activations of 1 to 64 MiB, kept for the backward pass and read in reverse order
transformer   a language model over a TransformerEncoder: fewer and larger tensors, dropout masks, a wide head
unet          skip connections: the first activations, among the largest, are used again where the forward pass ends
relu_cnn      a plain stack of convolutions, batch norms and ReLUs; half of what a ReLU leaves is zero, of the rest nothing
squeezenet    convolutions and ReLUs alone: nearly all that is kept for the backward pass is half zeros

Everything is stock PyTorch and torchvision. Data is random but drawn from the seed, so that two runs see the
same bytes.
"""
import math

import torch
import torchvision
from torch import nn

CLASSES = 10
VOCABULARY = 8192
UNET_LEVELS = 4
UNET_MULTIPLE = 2**UNET_LEVELS  # of the images' edge: it is halved at each level


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


class UNet(nn.Module):
    """Ronneberger, Fischer, Brox 2015 (arXiv:1505.04597), figure 1: four levels down, four up, and at each level up
    the activations of the same level down are concatenated.

        images  1w ------------------------ 1w  scores of each pixel
                   2w ------------------ 2w
                      4w ------------ 4w
                         8w ------ 8w
                             16w

    As is usual since, convolutions are padded, so that the scores have the images' size, and each has its batch norm;
    w is 32, the paper's 64 needs four times the arithmetic for twice the activations."""

    def __init__(self, width=32):
        super().__init__()
        widths = [width << level for level in range(UNET_LEVELS)]
        self.down = nn.ModuleList(two_convolutions(*channels) for channels in zip([1, *widths], widths))
        self.bottom = two_convolutions(widths[-1], 2 * widths[-1])
        self.grow = nn.ModuleList(nn.ConvTranspose2d(2 * out, out, 2, stride=2) for out in reversed(widths))
        self.up = nn.ModuleList(two_convolutions(2 * out, out) for out in reversed(widths))
        self.head = nn.Conv2d(width, 2, 1)

    def forward(self, hidden):
        skips = []
        for down in self.down:
            skips.append(down(hidden))
            hidden = nn.functional.max_pool2d(skips[-1], 2)
        hidden = self.bottom(hidden)
        for grow, up in zip(self.grow, self.up):
            hidden = up(torch.cat([skips.pop(), grow(hidden)], 1))
        return self.head(hidden).permute(0, 2, 3, 1).flatten(0, 2)  # one row a pixel, as its target is one number


def two_convolutions(channels, out):
    stages = []
    for given in (channels, out):
        stages += [nn.Conv2d(given, out, 3, padding=1, bias=False), nn.BatchNorm2d(out), nn.ReLU()]
    return nn.Sequential(*stages)


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


def discs_in_noise(samples, size):
    """Grey images with a bright disc each, and for every pixel whether it lies inside."""
    down, across, radius = torch.rand(3, samples, 1, 1) * size
    edge = torch.arange(size)
    inside = (edge.unsqueeze(1) - down).square() + (edge - across).square() < (radius / 2).square()
    return inside.unsqueeze(1) + torch.randn(samples, 1, size, size), inside.long()


def token_sequences(samples, size):
    tokens = torch.randint(0, VOCABULARY, (samples, size + 1))
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


# name: (default batch, default size, builds the model from (size, layers), builds the data from (samples, size))
MODELS = {
    "densenet121": (64, 128, lambda size, layers: torchvision.models.densenet121(num_classes=CLASSES), images),
    "transformer": (16, 256, lambda size, layers: LanguageModel(size, 512, layers, 8), token_sequences),
    "unet": (8, 256, lambda size, layers: UNet(), discs_in_noise),
    "relu_cnn": (32, 96, lambda size, layers: relu_cnn(), images),
    "squeezenet": (64, 160, lambda size, layers: torchvision.models.squeezenet1_0(num_classes=CLASSES), images),
}
