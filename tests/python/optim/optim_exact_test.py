#!/usr/bin/python3
"""The offloaded optimizers compute what PyTorch's for-loop implementations do, over 1000 steps, element by element."""
import os
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # support.py
from support import engine_or_skip, main

import torch

import terrace.torch
from optimizers import hard_values, parameters, train, ulps
from terrace.torch.optim import arithmetic

STEPS = int(os.environ.get("TERRACE_TEST_STEPS", 1000))
torch.set_num_threads(1)  # with several, PyTorch's own vectors begin elsewhere


class Exact(unittest.TestCase):
    def same(self, name, steps=STEPS, **arguments):
        ours, theirs = parameters(), parameters()
        one = getattr(terrace.torch, name)(ours, threads=2, **arguments)
        other = getattr(torch.optim, name)(theirs, foreach=False, **arguments)
        train(one, ours, steps)
        train(other, theirs, steps)
        for number, pair in enumerate(zip(ours, theirs)):
            self.assertLessEqual(ulps(*pair), 0, f"parameter {number}")
        saved, expected = one.state_dict()["state"], other.state_dict()["state"]
        for number, state in expected.items():
            for key, value in state.items():
                if key != "step":
                    self.assertLessEqual(ulps(saved[number][key], value), 0, f"{key} of parameter {number}")
        one.close()

    def test_AdamW(self):
        self.same("AdamW", lr=3e-3, weight_decay=.1)

    def test_AdamWThatMaximizesWithAmsgrad(self):
        self.same("AdamW", lr=1e-3, amsgrad=True, maximize=True, betas=(.8, .95))

    def test_AdamWithWeightDecayInTheGradient(self):
        self.same("Adam", lr=1e-3, weight_decay=.01, eps=1e-6)

    def test_AFirstMomentThatHardlyRemembers(self):
        self.same("Adam", steps=200, lr=1e-3, betas=(.3, .9))

    def test_SgdWithMomentum(self):
        self.same("SGD", lr=1e-2, momentum=.9)

    def test_SgdWithEverything(self):
        self.same("SGD", lr=1e-2, momentum=.8, weight_decay=.01, nesterov=True, maximize=True)

    def test_SgdWithDampening(self):
        self.same("SGD", steps=200, lr=1e-2, momentum=.8, dampening=.3)

    def test_NarrowParametersFollowTheirMasterWeights(self):
        for dtype in (torch.bfloat16, torch.float16):
            ours = parameters(dtype)
            theirs = [torch.nn.Parameter(p.detach().float()) for p in ours]
            one, other = terrace.torch.AdamW(ours, lr=1e-3), torch.optim.AdamW(theirs, lr=1e-3, foreach=False)
            train(one, ours, 100, dtype)
            train(other, theirs, 100, dtype)
            for narrow, wide in zip(ours, theirs):
                self.assertTrue(torch.equal(narrow.nan_to_num(), wide.to(dtype).nan_to_num()))
            state = one.state_dict()["state"]
            for number, wide in enumerate(theirs):
                self.assertEqual(ulps(state[number]["master_param"], wide), 0)

    def test_InfinityAndNanSpreadAsInPyTorch(self):
        ours, theirs = parameters(), parameters()
        one, other = terrace.torch.AdamW(ours, amsgrad=True), torch.optim.AdamW(theirs, amsgrad=True, foreach=False)
        for step in range(4):
            for pair in zip(ours, theirs):
                gradient = hard_values(pair[0].shape, step)
                gradient.view(-1)[::5] = (float("inf"), float("nan"), -float("inf"), 3e38)[step]
                for parameter in pair:
                    parameter.grad = gradient.clone()
            one.step()
            other.step()
        for pair in zip(ours, theirs):
            self.assertTrue(bool(pair[1].isnan().any()))
            self.assertLessEqual(ulps(*pair), 1)

    def test_ThisPyTorchsRoundingIsKnown(self):
        parameter = hard_values((256,), 1).normal_()
        gradients = [torch.randn(256) for _ in range(8)]
        self.assertTrue(torch.equal(arithmetic._ours(parameter, gradients, arithmetic.flags()),
                                    arithmetic._torchs(parameter, gradients)))


if __name__ == "__main__":
    engine_or_skip()
    main()
