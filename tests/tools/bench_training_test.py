#!/usr/bin/python3
"""`terrace bench training`: what it runs when nothing is asked for, what it refuses, and the U-Net that it trains."""
import contextlib
import io
import json
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

BENCH = Path(__file__).resolve().parents[2] / "tools/bench"
sys.path[:0] = [str(BENCH), str(BENCH / "workloads")]

import training

MODELS = ("densenet121", "relu_cnn", "squeezenet", "transformer", "unet")


def models_or_skip():
    try:
        import models
    except ImportError as error:
        print(f"SKIP: {sys.executable} has no PyTorch with torchvision ({error})")
        raise unittest.SkipTest(str(error)) from None
    return models


class OfTheArguments(unittest.TestCase):
    def refusal_of(self, *words):
        text = io.StringIO()
        with contextlib.redirect_stderr(text), self.assertRaises(SystemExit) as stopped:
            training.parse_arguments(words)
        self.assertEqual(stopped.exception.code, 2)
        return text.getvalue()

    def test_WhatRunsWhenNothingIsAskedFor(self):
        for words, models, fractions in (([], ["densenet121", "transformer", "unet"], [80, 60, 40, 25]),
                                         (["--quick"], ["densenet121", "transformer", "unet"], [60]),
                                         (["--sparse"], ["relu_cnn", "squeezenet"], [60]),
                                         (["--tiers"], ["relu_cnn", "squeezenet"], [60]),
                                         (["--model", "unet", "--fractions", "25%"], ["unet"], [25])):
            arguments = training.parse_arguments(words)
            self.assertEqual((arguments.models, arguments.fractions), (models, fractions), words)

    def test_StepsCountFromTheFifthOnWherePlansAreCompared(self):
        for words, steps, warm_up, policies in (([], 10, 4, []), (["--steps", "6"], 6, 4, []), (["--steps", "3"], 3, 1, []),
                                                (["--phases"], 8, 4, []), (["--policies", "g10,joint"], 10, 4, ["g10", "joint"]),
                                                (["--warm-up", "2"], 10, 2, []), (["--sparse"], 5, 1, None),
                                                (["--tiers", "--steps", "8"], 8, 1, None), (["--no-limit"], 5, 1, None)):
            arguments = training.parse_arguments(words)
            self.assertEqual((arguments.steps, arguments.warm_up, arguments.policies), (steps, warm_up, policies), words)

    def test_PhasesRunProgramsOfTheirOwn(self):
        arguments = training.parse_arguments(["--phases"])
        self.assertEqual((arguments.models, arguments.fractions), (["unet", "gan"], [60, 40]))
        for model in training.PHASES:
            arguments = training.parse_arguments(["--phases", "--models", model, "--quick"])
            self.assertTrue(training.program_of(model, arguments).is_file(), model)
            self.assertEqual(training.workload_of(model, arguments)[-2:], ["--steps", "8"])
        self.assertEqual(training.program_of("unet", training.parse_arguments([])).name, "train.py")

    def test_EveryModelHasItsSizesShortAndInFull(self):
        self.assertEqual(sorted(training.FULL), sorted(training.QUICK))
        for words in (["--models", "unet"], ["--models", "unet", "--quick"]):
            arguments = training.parse_arguments(words)
            self.assertEqual(training.workload_of("unet", arguments)[:2], ["--model", "unet"])

    def test_AnUnknownModelIsRefusedWithThoseThatThereAre(self):
        refusal = self.refusal_of("--models", "unet", "alexnet")
        for name in ("'alexnet'", *MODELS):
            self.assertIn(name, refusal)

    def test_WhatCannotBeMeantIsRefusedByName(self):
        self.assertIn("--timeout must be at least 1 second", self.refusal_of("--timeout", "0"))
        self.assertIn("--steps must be at least 2", self.refusal_of("--steps", "1"))
        self.assertIn("leave out --sparse", self.refusal_of("--tiers", "--sparse"))
        self.assertIn("of terrace bench tiers", self.refusal_of("--nvm", "/dev/shm"))
        self.assertIn("of terrace bench tiers", self.refusal_of("--sparse", "--nvm-rate", "2G"))
        self.assertIn("name one on persistent memory", self.refusal_of("--tiers", "--nvm", "/nonexistent"))
        self.assertIn("leave out --sparse", self.refusal_of("--phases", "--sparse"))
        self.assertIn("leave out --sparse", self.refusal_of("--policies", "g10", "--tiers"))
        self.assertIn("'gan'", self.refusal_of("--models", "gan"))
        self.assertIn("--warm-up 10 leaves none of 10 steps", self.refusal_of("--warm-up", "10"))
        self.assertIn("/nonexistent is not a directory", self.refusal_of("--pool", "/nonexistent"))


class OfTheWorkload(unittest.TestCase):
    def setUp(self):
        models_or_skip()

    def run_with(self, *words):
        import train
        with mock.patch.object(sys, "argv", ["train.py", *words]):
            return train.main()

    def refusal_of(self, *words):
        text = io.StringIO()
        with contextlib.redirect_stderr(text), self.assertRaises(SystemExit) as stopped:
            self.run_with(*words)
        self.assertEqual(stopped.exception.code, 2)
        return text.getvalue()

    def trained(self, *words):
        with tempfile.TemporaryDirectory() as scratch, contextlib.redirect_stdout(io.StringIO()):
            result = Path(scratch, "result.json")
            self.run_with("--model", "unet", "--batch", "1", "--size", "32", "--steps", "2", "--threads", "1", "--json", str(result), *words)
            return json.loads(result.read_text(encoding="utf-8"))

    def test_AnUnknownModelIsRefusedWithThoseThatThereAre(self):
        refusal = self.refusal_of("--model", "alexnet")
        for name in ("'alexnet'", *MODELS):
            self.assertIn(name, refusal)

    def test_ASizeThatTheUNetCannotHalveIsRefused(self):
        self.assertIn("--size 100 is not a multiple of 16", self.refusal_of("--model", "unet", "--size", "100"))

    def test_TheUNetGivesTheSameBitsTwiceAndOthersFromAnotherSeed(self):
        first, again, other = self.trained(), self.trained(), self.trained("--seed", "1")
        self.assertEqual([step["loss"] for step in first["steps"]], [step["loss"] for step in again["steps"]])
        self.assertEqual(first["state_sha256"], again["state_sha256"])
        self.assertNotEqual(first["state_sha256"], other["state_sha256"])


class OfThePhases(unittest.TestCase):
    SMALL = {"phases": ["--model", "unet", "--batch", "4", "--size", "32", "--batches", "1", "--evaluations", "1"],
             "gan": ["--batch", "2", "--size", "32", "--width", "4"]}

    def setUp(self):
        models_or_skip()

    def result_of(self, name, *words):
        program = __import__(name)
        with tempfile.TemporaryDirectory() as scratch, contextlib.redirect_stdout(io.StringIO()) as said:
            result = Path(scratch, "result.json")
            line = [f"{name}.py", *self.SMALL[name], "--steps", "2", "--threads", "1", "--json", str(result), *words]
            with mock.patch.object(sys, "argv", line):
                program.main()
            self.assertEqual(sum(text.startswith("step ") for text in said.getvalue().splitlines()), 2)
            return json.loads(result.read_text(encoding="utf-8"))

    def test_EqualSeedsGiveEqualBitsAndOthersDoNot(self):
        for name in self.SMALL:
            first, again, other = self.result_of(name), self.result_of(name), self.result_of(name, "--seed", "1")
            self.assertEqual([step["loss"] for step in first["steps"]], [step["loss"] for step in again["steps"]], name)
            self.assertEqual(first["state_sha256"], again["state_sha256"], name)
            self.assertNotEqual(first["state_sha256"], other["state_sha256"], name)

    def test_PartsOfAStepAreItsSeconds(self):
        for name, parts in (("phases", {"train": 1, "last batch": 1, "evaluate": 1}), ("gan", {"discriminator": 1, "generator": 1})):
            for step in self.result_of(name)["steps"]:
                self.assertEqual({part: len(seconds) for part, seconds in step["phases"].items()}, parts)
                self.assertAlmostEqual(step["seconds"], sum(map(sum, step["phases"].values())))

    def test_AnEvaluationChangesNoParameterAndTrainingDoes(self):
        import phases
        with mock.patch.object(sys, "argv", ["phases.py", *self.SMALL["phases"]]):
            program = phases.Program(phases.parse_arguments())
        program.model.eval()
        before, saved = phases.state_hash(program.model), []
        with models_or_skip().torch.autograd.graph.saved_tensors_hooks(saved.append, lambda packed: packed):
            program.evaluate(4)
        self.assertEqual((phases.state_hash(program.model), saved), (before, []))
        program.train(2)
        self.assertNotEqual(phases.state_hash(program.model), before)

    def test_AStepOfTheGanUpdatesEachNetworkInItsTurn(self):
        import gan
        from train import state_hash
        with mock.patch.object(sys, "argv", ["gan.py", *self.SMALL["gan"]]):
            program = gan.Program(gan.parse_arguments())

        def parameters():
            return [[value.clone() for value in network.parameters()] for network in (program.makes, program.judges)]

        def changed(before):
            return [any(not one.equal(other) for one, other in zip(*pair)) for pair in zip(before, parameters())]
        before = parameters()
        program.judge()
        self.assertEqual(changed(before), [False, True])
        self.assertTrue(all(value.grad is None for value in program.makes.parameters()))  # nothing was kept to go back through it
        before = parameters()
        program.deceive()
        self.assertEqual(changed(before), [True, False])
        state = state_hash(program.networks)
        program.step()
        self.assertNotEqual(state_hash(program.networks), state)

    def test_CropsAreOfTheirSizeAtPlacesOfTheirOwn(self):
        import gan
        with mock.patch.object(sys, "argv", ["gan.py", *self.SMALL["gan"]]):
            program = gan.Program(gan.parse_arguments())
        crops = program.crops()
        self.assertEqual(tuple(crops.shape), (2, 3, 32, 32))
        self.assertEqual(tuple(program.made().shape), (2, 3, 32, 32))
        self.assertFalse(crops[0].equal(crops[1]))

    def test_WhatCannotRunIsRefusedByName(self):
        import gan
        import phases
        for program, words, why in ((phases, ["--batch", "3"], "--batch 3: the last batch"), (phases, ["--size", "100"], "multiple of 16"),
                                    (gan, ["--size", "48"], "--size 48 is no power of two")):
            text = io.StringIO()
            with contextlib.redirect_stderr(text), mock.patch.object(sys, "argv", ["x", *words]), self.assertRaises(SystemExit):
                program.parse_arguments()
            self.assertIn(why, text.getvalue())


class OfTheUNet(unittest.TestCase):
    """Its sizes are the paper's (figure 1) at half the width, but for padding and batch norm."""

    def setUp(self):
        self.models = models_or_skip()
        self.torch = self.models.torch
        self.torch.manual_seed(0)
        self.batch, self.size, self.build, self.data = self.models.MODELS["unet"]

    def test_ItHasTheLevelsOfThePaper(self):
        convolutions = [module for module in self.build(32, 0).modules() if isinstance(module, self.torch.nn.Conv2d)]
        self.assertEqual([(layer.in_channels, layer.out_channels) for layer in convolutions], [
            (1, 32), (32, 32), (32, 64), (64, 64), (64, 128), (128, 128), (128, 256), (256, 256), (256, 512), (512, 512),
            (512, 256), (256, 256), (256, 128), (128, 128), (128, 64), (64, 64), (64, 32), (32, 32), (32, 2)])

    def test_ItScoresEveryPixel(self):
        images, masks = self.data(2, 48)
        self.assertEqual((images.shape, masks.shape), ((2, 1, 48, 48), (2, 48, 48)))
        self.assertEqual(self.build(48, 0)(images).shape, (masks.numel(), 2))
        self.assertEqual(self.size % self.models.UNET_MULTIPLE, 0)

    def test_ScoresStandInTheOrderOfThePixels(self):
        net, images = self.build(32, 0), self.data(2, 32)[0]
        net.head.register_forward_hook(lambda module, given, out: maps.append(out))
        maps = []
        scores = net(images)
        for sample, row, column in ((0, 0, 0), (0, 3, 30), (1, 17, 5)):
            self.assertEqual(scores[(sample * 32 + row) * 32 + column].tolist(), maps[0][sample, :, row, column].tolist())

    def test_ItsFirstActivationsAreUsedLast(self):
        saved, used = [], []
        images, _ = self.data(2, 16)

        def pack(tensor):
            saved.append(tensor.data_ptr())
            return len(saved) - 1, tensor

        def unpack(packed):
            used.append(packed[0])
            return packed[1]

        net = self.build(16, 0)
        with self.torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            scores = net(images)
        scores.sum().backward()
        self.assertEqual({saved[index] for index in used[-2:]}, {images.data_ptr(), net.down[0][0].weight.data_ptr()})


if __name__ == "__main__":
    unittest.main()
