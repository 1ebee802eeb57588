#!/usr/bin/python3
"""The callbacks, told what Trainer, Lightning and accelerate document that they tell, by doubles of the three: the packages
themselves are not in Debian."""
import sys
import types
import unittest
from unittest import mock
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # support.py
from support import OnReference, assert_same, gradients, main
import torch

from terrace.torch import callbacks

SETTINGS = {"budget": "64M", "device": "cpu", "min_bytes": 1, "limit": None, "keep_last": 0}


def network():
    return torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 16), torch.nn.Tanh())


class Callbacks(OnReference):
    def setUp(self):
        super().setUp()
        self.model, self.batch = network(), torch.randn(8, 16)
        self.expected = gradients(self.model, lambda model: self.step(model))

    def step(self, model):
        loss = model(self.batch).square().mean()
        loss.backward()
        return loss

    def test_TrainerTrainsWithIt(self):
        """As transformers' CallbackHandler does: each event by name, to every callback, with the model among the rest."""
        callback, logs = callbacks.TrainerCallback(**SETTINGS), {"loss": 1.0}

        def tell(event, **rest):
            getattr(callback, event)(None, None, None, model=self.model, optimizer=None, **rest)

        for event in ("on_init_end", "on_train_begin", "on_epoch_begin", "on_step_begin"):
            tell(event)
        assert_same(self, gradients(self.model, self.step), self.expected)
        for event, rest in (("on_step_end", {}), ("on_log", {"logs": logs}), ("on_train_end", {})):
            tell(event, **rest)
        self.assertGreater(logs["terrace/offloaded"], 0)
        self.assertEqual(logs["loss"], 1.0)
        stored = self.reference.counts["stored"]
        self.step(self.model)
        self.assertEqual(self.reference.counts["stored"], stored)  # it has ended
        with self.assertRaises(AttributeError):
            callback.state_dict  # noqa: B018

    def lightning(self):
        module = types.ModuleType("lightning.pytorch")
        module.Callback = type("Callback", (), {})
        with mock.patch.dict(sys.modules, {"lightning": types.ModuleType("lightning"), "lightning.pytorch": module}):
            return callbacks.lightning_callback(**SETTINGS)

    def fit_one_batch(self, callback, fails=False):
        """Lightning's order: batch start, training_step, before backward, backward, batch end; or an exception."""
        logged = {}
        module = types.SimpleNamespace(log_dict=logged.update)
        self.model.zero_grad(set_to_none=True)
        callback.on_train_batch_start(None, module, self.batch, 0)
        if fails:
            callback.on_exception(None, module, RuntimeError())
            return logged
        loss = self.model(self.batch).square().mean()
        callback.on_before_backward(None, module, loss)
        loss.backward()
        callback.on_train_batch_end(None, module, None, self.batch, 0)
        assert_same(self, [loss.detach(), *(p.grad for p in self.model.parameters())], self.expected)
        return logged

    def test_LightningTrainsWithIt(self):
        callback = self.lightning()
        for _ in range(2):
            logged = self.fit_one_batch(callback)
        self.assertGreater(logged["terrace/offloaded"], 0)
        self.assertTrue(all(isinstance(value, int) for value in logged.values()))

    def test_AFailedStepLeavesNoHooksBehind(self):
        self.fit_one_batch(self.lightning(), fails=True)
        self.step(self.model)
        self.assertEqual(self.reference.counts["stored"], 0)

    def test_AcceleratesModelIsUnwrapped(self):
        wrapped = torch.nn.Sequential(self.model)
        accelerator = types.SimpleNamespace(unwrap_model=lambda model: model[0])
        handle = callbacks.offload_prepared(accelerator, wrapped, **SETTINGS)
        assert_same(self, gradients(self.model, lambda _: self.step(wrapped)), self.expected)
        self.assertGreater(handle.session.metrics()["terrace/offloaded"], 0)
        handle.remove()


if __name__ == "__main__":
    main()
