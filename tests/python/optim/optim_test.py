#!/usr/bin/python3
"""Offloaded optimizers as programs use them: groups, schedules, closures, clipping, state_dict, delay, and what is refused."""
import copy
import os
import pickle
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # support.py
from support import MIB, engine_or_skip, main, skip

import torch

import terrace.torch
from optimizers import gradients, parameters, train, ulps
from terrace.torch.errors import OffloadError

PLACES = ({"threads": 1}, {"threads": 3}, {"tier": "nvme", "nvme_bytes": 64 * MIB, "staging": "16MiB"})
torch.set_num_threads(1)


def network(seed=1, dtype=torch.float32):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(20, 300), torch.nn.ReLU(), torch.nn.Linear(300, 7)).to(dtype)


def loss_of(model, seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(8, 20, generator=generator).to(next(model.parameters()).dtype)
    return model(x).float().pow(2).mean()


def run(model, optimizer, steps, begin=0):
    for seed in range(begin, begin + steps):
        optimizer.zero_grad()
        loss_of(model, seed).backward()
        optimizer.step()
    return model


class OptimizerTest(unittest.TestCase):
    def assert_same(self, ours, theirs):
        for number, pair in enumerate(zip(ours.parameters(), theirs.parameters())):
            self.assertLessEqual(ulps(*pair), 1, f"parameter {number}")

    def plain(self, name="AdamW", steps=6, seed=1, **arguments):
        model = network(seed)
        optimizer = getattr(torch.optim, name)(model.parameters(), foreach=False, **arguments)
        return run(model, optimizer, steps), optimizer

    def ours(self, name="AdamW", steps=6, seed=1, **arguments):
        model = network(seed)
        optimizer = getattr(terrace.torch, name)(model.parameters(), **arguments)
        self.addCleanup(optimizer.close)
        return run(model, optimizer, steps), optimizer


class Training(OptimizerTest):
    def test_EveryPlaceGivesTheSame(self):
        expected, _ = self.plain()
        for place in PLACES:
            model, optimizer = self.ours(**place)
            self.assert_same(model, expected)
            self.assertIn("NVMe" if "tier" in place else "DRAM", optimizer.statistics()["path"])

    def test_GroupsKeepTheirOwnSettings(self):
        def groups(model):
            return [{"params": model[0].parameters(), "lr": 1e-2, "weight_decay": 0},
                    {"params": model[2].parameters(), "betas": (.5, .9)}]
        one, other = network(), network()
        self.addCleanup((ours := terrace.torch.AdamW(groups(one))).close)
        run(one, ours, 5)
        run(other, torch.optim.AdamW(groups(other), foreach=False), 5)
        self.assert_same(one, other)

    def test_AGroupMayBeAddedLater(self):
        results = []
        for make in (terrace.torch.Adam, torch.optim.Adam):
            model = network()
            optimizer = make(model[0].parameters(), lr=1e-2)
            run(model, optimizer, 2)
            optimizer.add_param_group({"params": model[2].parameters(), "lr": 1e-3})
            results.append(run(model, optimizer, 3, begin=2))
        self.assert_same(*results)

    def test_SchedulersAndClosuresWork(self):
        results = []
        for make in (terrace.torch.SGD, torch.optim.SGD):
            model = network()
            optimizer = make(model.parameters(), lr=.1, momentum=.9)
            schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 5)
            for seed in range(5):
                def closure():
                    optimizer.zero_grad()
                    loss = loss_of(model, seed)
                    loss.backward()
                    return loss
                self.assertGreater(float(optimizer.step(closure)), 0)
                schedule.step()
            results.append(model)
        self.assert_same(*results)

    def test_GradientsAreAccumulatedAndClipped(self):
        results = []
        for make in (terrace.torch.AdamW, torch.optim.AdamW):
            model = network()
            optimizer = make(model.parameters())
            for seed in range(4):
                optimizer.zero_grad()
                for part in range(3):
                    (loss_of(model, 10 * seed + part) / 3).backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), .05)
                optimizer.step()
            results.append(model)
        self.assert_same(*results)

    def test_AParameterWithoutAGradientStaysAndItsCountToo(self):
        results = []
        for make in (terrace.torch.Adam, torch.optim.Adam):
            given = parameters()
            optimizer = make(given)
            for step in range(6):
                for number, (parameter, gradient) in enumerate(zip(given, gradients(step))):
                    parameter.grad = gradient if (step + number) % 3 else None
                optimizer.step()
            results.append((given, optimizer))
        for pair in zip(results[0][0], results[1][0]):
            self.assertLessEqual(ulps(*pair), 1)
        self.assertEqual([float(s["step"]) for s in results[0][1].state_dict()["state"].values()],
                         [float(s["step"]) for s in results[1][1].state_dict()["state"].values()])

    def test_AnEmptyParameterIsNoTrouble(self):
        given = [torch.nn.Parameter(torch.zeros(0)), torch.nn.Parameter(torch.ones(3))]
        optimizer = terrace.torch.AdamW(given)
        for parameter in given:
            parameter.grad = torch.ones_like(parameter)
        optimizer.step()
        self.assertLess(float(given[1].detach().max()), 1)

    def test_ParametersThatAreNotContiguousGoThroughCopies(self):
        for place in PLACES[1:]:
            results = []
            for make, more in ((terrace.torch.AdamW, place), (torch.optim.AdamW, {"foreach": False})):
                torch.manual_seed(2)
                model = torch.nn.Sequential(torch.nn.Conv2d(3, 32, 3), torch.nn.Conv2d(32, 7, 3)).to(
                    memory_format=torch.channels_last)
                optimizer = make([*model.parameters()], **more)
                for seed in range(4):
                    optimizer.zero_grad()
                    torch.manual_seed(seed)
                    model(torch.randn(2, 3, 9, 9)).pow(2).mean().backward()
                    optimizer.step()
                results.append(model)
            self.assert_same(*results)

    def test_ABackwardThroughAChangedParameterIsNoticed(self):
        model, optimizer = self.ours(steps=1)
        loss = loss_of(model, 1)
        optimizer.step()
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
            loss.backward()

    def test_GradScalerWorksWhereItIs(self):
        make = getattr(torch.amp, "GradScaler", None)
        if make is None:
            skip("this PyTorch has no GradScaler for CPUs")
        model, optimizer = self.ours(steps=0)
        scaler = make("cpu", init_scale=2.)
        before = [p.detach().clone() for p in model.parameters()]
        scaler.scale(loss_of(model, 0)).backward()
        scaler.step(optimizer)
        scaler.update()
        self.assertFalse(torch.equal(before[0], next(model.parameters())))


class StateDict(OptimizerTest):
    def test_PyTorchGoesOnWithWhatWeSaved(self):
        for name, arguments in (("AdamW", {"amsgrad": True}), ("Adam", {"weight_decay": .1}),
                                ("SGD", {"lr": .1, "momentum": .9, "nesterov": True})):
            expected, _ = self.plain(name, 8, **arguments)
            model, ours = self.ours(name, 4, **arguments)
            theirs = getattr(torch.optim, name)(model.parameters(), foreach=False, **arguments)
            theirs.load_state_dict(ours.state_dict())
            self.assert_same(run(model, theirs, 4, begin=4), expected)

    def test_WeGoOnWithWhatPyTorchSaved(self):
        for place in PLACES[1:]:
            for name, arguments in (("AdamW", {"amsgrad": True}), ("SGD", {"lr": .1, "momentum": .9})):
                expected, _ = self.plain(name, 8, **arguments)
                model, theirs = self.plain(name, 4, **arguments)
                ours = getattr(terrace.torch, name)(model.parameters(), **arguments, **place)
                self.addCleanup(ours.close)
                ours.load_state_dict(copy.deepcopy(theirs.state_dict()))
                self.assert_same(run(model, ours, 4, begin=4), expected)

    def test_TheGroupsSettingsComeAlong(self):
        _, ours = self.ours(lr=3e-3, betas=(.8, .9))
        _, other = self.ours()
        other.load_state_dict(ours.state_dict())
        self.assertEqual((other.param_groups[0]["lr"], other.param_groups[0]["betas"]), (3e-3, (.8, .9)))

    def test_MasterWeightsComeAlong(self):
        models = [network(dtype=torch.bfloat16) for _ in range(2)]
        whole, half = (terrace.torch.AdamW(model.parameters()) for model in models)
        run(models[0], whole, 8)
        run(models[1], half, 4)
        again = terrace.torch.AdamW(models[1].parameters(), tier="nvme", nvme_bytes=64 * MIB)
        again.load_state_dict(half.state_dict())
        run(models[1], again, 4, begin=4)
        for number, state in whole.state_dict()["state"].items():
            self.assertTrue(torch.equal(state["master_param"], again.state_dict()["state"][number]["master_param"]))
        for optimizer in (whole, half, again):
            optimizer.close()

    def test_PyTorchTakesABf16ModelsStatesAndWeTakeItsOwn(self):
        model = network(dtype=torch.bfloat16)
        ours = terrace.torch.AdamW(model.parameters())
        run(model, ours, 3)
        theirs = torch.optim.AdamW(model.parameters())
        theirs.load_state_dict(ours.state_dict())
        run(model, theirs, 2)
        ours.load_state_dict(theirs.state_dict())
        run(model, ours, 2)
        self.assertEqual(float(ours.state_dict()["state"][0]["step"]), 7)
        ours.close()

    def test_WhatDoesNotFitIsRefusedAndChangesNothing(self):
        model, ours = self.ours()
        saved = ours.state_dict()
        broken = copy.deepcopy(saved)
        broken["state"][2].pop("exp_avg_sq")
        broken["param_groups"][0]["lr"] = 7.
        with self.assertRaisesRegex(ValueError, r"parameter 2 of group 0.*'exp_avg_sq'"):
            ours.load_state_dict(broken)
        with self.assertRaises(ValueError):
            ours.load_state_dict({**saved, "param_groups": []})
        self.assertEqual(ours.param_groups[0]["lr"], 1e-3)
        self.assertTrue(torch.equal(ours.state_dict()["state"][2]["exp_avg_sq"], saved["state"][2]["exp_avg_sq"]))

    def test_NoStateStaysBehindInPython(self):
        _, ours = self.ours()
        ours.state_dict()
        self.assertEqual(len(ours.state), 0)


class Delayed(OptimizerTest):
    def test_AnUpdateComesOneStepLater(self):
        for place in PLACES[1:]:
            given, expected = parameters(), parameters()
            late = terrace.torch.AdamW(given, delay=1, **place)
            plain = torch.optim.AdamW(expected, foreach=False)
            for step in range(5):
                for parameter, gradient in zip(given, gradients(step)):
                    parameter.grad = gradient
                late.step()
                for parameter in given:
                    parameter.grad.fill_(float("nan"))  # is the program's again
                for pair in zip(given, expected):
                    self.assertLessEqual(ulps(*pair), 1, f"step {step}")
                train(plain, expected, 1, begin=step)
            late.synchronize()
            for pair in zip(given, expected):
                self.assertLessEqual(ulps(*pair), 1)
            late.close()

    def test_StateDictHasTheLastUpdate(self):
        model, late = self.ours(delay=1)
        self.assertEqual(float(late.state_dict()["state"][0]["step"]), 6)
        self.assertGreater(late.statistics()["steps"], 0)

    def test_AProgramMayEndWithAnUpdateUnderWay(self):
        code = ("import support, torch, terrace.torch\n"
                "p = torch.nn.Parameter(torch.ones(30_000_000)); p.grad = torch.ones_like(p)\n"
                "terrace.torch.AdamW([p], delay=1, threads=1).step()\n")
        subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).resolve().parents[1], timeout=60, check=True)

    def test_AChangeMeanwhileIsRefusedAndAfterSynchronizeTaken(self):
        model, late = self.ours(delay=1, steps=2)
        late.synchronize()
        with torch.no_grad():
            model[0].weight.zero_()
        run(model, late, 1)
        late.synchronize()
        self.assertLess(float(model[0].weight.detach().abs().max()), 2e-3)
        run(model, late, 1)
        with torch.no_grad():
            model[0].weight.zero_()
        with self.assertRaisesRegex(RuntimeError, r"\[300, 20\] was changed.*synchronize\(\)"):
            late.step()


@unittest.skipUnless(torch.cuda.is_available(), "PyTorch finds no GPU")
class OnAGpu(OptimizerTest):
    def test_ParametersOfAGpuGetWhatThoseOfTheHostGet(self):
        for dtype in (torch.float32, torch.bfloat16):
            for place in (*PLACES, {"delay": 1}):
                host, device = parameters(dtype), [torch.nn.Parameter(p.detach().cuda()) for p in parameters(dtype)]
                one, other = terrace.torch.AdamW(device, **place), terrace.torch.AdamW(host)
                for step in range(5):
                    for pair in zip(device, host, gradients(step)):
                        pair[0].grad, pair[1].grad = pair[2].to(dtype).cuda(), pair[2].to(dtype)
                    one.step()
                    other.step()
                    for parameter in device:
                        parameter.grad = None
                one.synchronize()
                for pair in zip(device, host):
                    self.assertTrue(torch.equal(pair[0].detach().cpu().nan_to_num(), pair[1].detach().nan_to_num()))
                saved = one.state_dict()["state"][0]["exp_avg"]
                self.assertEqual(saved.device.type, "cuda")
                one.close()
                other.close()


class Refusals(OptimizerTest):
    def refused(self, error, text, name="AdamW", given=None, **arguments):
        with self.assertRaisesRegex(error, text):
            getattr(terrace.torch, name)(parameters() if given is None else given, **arguments)

    def test_ArgumentsByName(self):
        self.refused(ValueError, "tier: 'disk'.*'dram', 'nvme'", tier="disk")
        self.refused(ValueError, "delay: 2", delay=2)
        self.refused(ValueError, "threads: 300", threads=300)
        self.refused(ValueError, "staging: 1.0 MiB", staging="1MiB")
        self.refused(ValueError, "directory: '/nowhere'", tier="nvme", directory="/nowhere")
        self.refused(OffloadError, "/nowhere.*No such file", tier="nvme", directory="/nowhere", nvme_bytes="64M")
        self.refused(ValueError, "momentum", name="SGD", lr=.1)
        self.refused(ValueError, "[Ll]earning rate", lr=-1.)

    def test_Parameters(self):
        self.refused(TypeError, "parameter 0 of group 0 is torch.float64", given=[torch.zeros(3, dtype=torch.float64)])

    def test_AParameterThatBecameAnother(self):
        for change in (lambda p: p[:100].clone(), lambda p: p.bfloat16()):
            model, optimizer = self.ours(steps=1)
            weight = model[0].weight
            weight.grad = None
            weight.data = change(weight.data)
            weight.grad = torch.ones_like(weight)
            with self.assertRaisesRegex(RuntimeError, r"parameter 0 .* has states for shape \[300, 20\]"):
                optimizer.step()

    def test_SparseGradients(self):
        table = torch.nn.Embedding(9, 3, sparse=True)
        optimizer = terrace.torch.Adam(table.parameters())
        table(torch.tensor([1])).sum().backward()
        with self.assertRaisesRegex(RuntimeError, "sparse"):
            optimizer.step()

    def test_Copies(self):
        _, optimizer = self.ours(steps=1)
        for way in (copy.deepcopy, pickle.dumps):
            with self.assertRaisesRegex(TypeError, "state_dict"):
                way(optimizer)

    def test_StepsAfterClose(self):
        model, optimizer = self.ours(steps=1)
        optimizer.close()
        with self.assertRaisesRegex(OffloadError, "were closed"):
            optimizer.step()

    def test_AForkedChildIsToldAndTheParentGoesOn(self):
        model, optimizer = self.ours(steps=2)
        child = os.fork()
        if child == 0:
            try:
                optimizer.step()
            except OffloadError as error:
                os._exit(0 if "parent process" in str(error) else 2)
            os._exit(3)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        expected, _ = self.plain(steps=4)
        self.assert_same(run(model, optimizer, 2, begin=2), expected)


class Faults(OptimizerTest):
    def faulty(self, fault, sizes=(300_000, 10, 400_000), **arguments):
        os.environ["TERRACE_FAULT"] = fault
        self.addCleanup(os.environ.pop, "TERRACE_FAULT", None)
        given = [torch.nn.Parameter(torch.ones(n)) for n in sizes]
        optimizer = terrace.torch.AdamW(given, tier="nvme", nvme_bytes="64M", **arguments)
        self.addCleanup(optimizer.close)
        return given, optimizer

    def step(self, given, optimizer):
        for parameter in given:
            parameter.grad = torch.ones_like(parameter)
        optimizer.step()

    def test_AFlippedBitNamesTheParameterAndWhatWasDone(self):
        for delay in (0, 1):
            given, optimizer = self.faulty("corrupt:3", delay=delay)
            self.step(given, optimizer)
            optimizer.synchronize()
            before = given[2].detach().clone()
            with self.assertRaisesRegex(RuntimeError, r"parameter 2 of group 0, shape \[400000\], cannot be updated, "
                                        r"EBADMSG.*3 parameters 2 were updated and parameter 2 .* in its first 224272 "
                                        r"elements; the others are as they were"):
                self.step(given, optimizer)
                optimizer.synchronize()
            self.assertTrue(torch.equal(given[2][224272:], before[224272:]))
            self.assertFalse(torch.equal(given[2][:224272], before[:224272]))

    def test_StatesThatCannotBeReadLeaveParametersAsTheyWere(self):
        given, optimizer = self.faulty("read:1:EIO")
        self.step(given, optimizer)
        before = [p.detach().clone() for p in given]
        with self.assertRaisesRegex(OffloadError, "parameter 0 of group 0.*EIO.* 0 were updated;"):
            self.step(given, optimizer)
        for pair in zip(given, before):
            self.assertTrue(torch.equal(*pair))
        with self.assertRaisesRegex(OffloadError, "the states of parameter 0 .* cannot be read"):
            optimizer.state_dict()

    def test_LoadingAnEarlierStateMendsIt(self):
        given, optimizer = self.faulty("corrupt:7")
        self.step(given, optimizer)
        saved = optimizer.state_dict()  # five reads; a step has three
        weights = [p.detach().clone() for p in given]
        with self.assertRaisesRegex(OffloadError, "Load an earlier state_dict"):
            self.step(given, optimizer)
        with torch.no_grad():
            for parameter, value in zip(given, weights):
                parameter.copy_(value)
        optimizer.load_state_dict(saved)
        self.step(given, optimizer)
        expected = [torch.nn.Parameter(torch.ones_like(p)) for p in given]
        plain = torch.optim.AdamW(expected, foreach=False)
        for _ in range(2):
            self.step(expected, plain)
        for pair in zip(given, expected):
            self.assertLessEqual(ulps(*pair), 1)

    def test_AFullDriveNamesTheParameter(self):
        given, optimizer = self.faulty("reserve:2:ENOSPC")
        with self.assertRaisesRegex(OffloadError, "parameter 0 of group 0.*no room"):
            self.step(given, optimizer)
        self.assertTrue(all(torch.equal(p, torch.ones_like(p)) for p in given))

    def test_AWriteThatFailsIsSaidAndNothingIsLost(self):
        given, optimizer = self.faulty("write:1:EIO")
        with self.assertLogs("terrace", "WARNING") as said:
            for _ in range(3):
                self.step(given, optimizer)
        self.assertEqual(len(said.output), 1, said.output)
        self.assertIn("stay in DRAM", said.output[0])
        expected = [torch.nn.Parameter(torch.ones_like(p)) for p in given]
        plain = torch.optim.AdamW(expected, foreach=False)
        for _ in range(3):
            self.step(expected, plain)
        for pair in zip(given, expected):
            self.assertLessEqual(ulps(*pair), 1)


if __name__ == "__main__":
    engine_or_skip()
    main()
