#!/usr/bin/python3
"""Trains one network of tools/bench/workloads in three epochs: four steps (then three), a last batch of half the
size, and three evaluations without gradients. `phases.py MODEL BATCH EDGE`; record_events.c records what it allocates.
"""
import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[4] / "tools/bench/workloads"))
from models import MODELS  # noqa: E402

name, batch, edge = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
torch.manual_seed(0)
torch.set_num_threads(2)
make_model, make_data = MODELS[name][2:4]
model = make_model(edge, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
criterion = torch.nn.CrossEntropyLoss()


def train(samples):
    inputs, targets = make_data(samples, edge)
    optimizer.zero_grad(set_to_none=True)
    criterion(model(inputs), targets.flatten()).backward()
    optimizer.step()


def evaluate():
    with torch.no_grad():
        inputs, targets = make_data(batch, edge)
        criterion(model(inputs), targets.flatten()).item()


for steps in (4, 3, 3):
    model.train()
    for _ in range(steps):
        train(batch)
    train(batch // 2)
    model.eval()
    for _ in range(3):
        evaluate()
