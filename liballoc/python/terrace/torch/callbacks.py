"""Offload for those who do not write the training loop themselves: Hugging Face's Trainer, Lightning, accelerate.

    Trainer(model, args, callbacks=[terrace.torch.callbacks.TrainerCallback(budget="16GiB")])
    lightning.Trainer(callbacks=[terrace.torch.callbacks.lightning_callback(budget="16GiB")])
    handle = terrace.torch.callbacks.offload_prepared(accelerator, model, budget="16GiB")

The settings are those of terrace.torch.offload. Each has `session`, whose metrics() are numbers by name. None of the three
packages is needed to import this.
"""
from __future__ import annotations

from typing import Any

from .module import ModuleHandle, gradient_checkpointing_enable, offload_module
from .session import offload


class TrainerCallback:
    """What transformers.Trainer takes among its callbacks: offloads while it trains, and adds metrics to its logs.

    Where the Trainer's gradient_checkpointing_kwargs have "offload": True, the inputs of the checkpoints are what is offloaded, and
    transformers' own offload of them is switched off: module.py, gradient_checkpointing_enable().

    It is no subclass of transformers.TrainerCallback, so that transformers need not be there; every event that the Trainer
    tells of and that means nothing here is answered.
    """

    def __init__(self, **settings: Any) -> None:
        self._settings = settings
        self._handle: ModuleHandle | None = None
        self.session: offload | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **rest: Any) -> None:
        checkpoints = getattr(args, "gradient_checkpointing", False) and args.gradient_checkpointing_kwargs
        if checkpoints and checkpoints.get("offload"):
            self._handle = gradient_checkpointing_enable(model, checkpoints, **self._settings)
        else:
            self._handle = offload_module(model, **self._settings)
        self.session = self._handle.session

    def on_train_end(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        if self._handle is not None:
            self._handle.remove()

    def on_log(self, args: Any, state: Any, control: Any, logs: dict | None = None, **rest: Any) -> None:
        if logs is not None and self.session is not None:
            logs.update(self.session.metrics())

    def __getattr__(self, name: str) -> Any:
        if name.startswith("on_"):
            return lambda *arguments, **keywords: None
        raise AttributeError(name)


def lightning_callback(**settings: Any) -> Any:
    """A callback for Lightning's Trainer. A training step does not call the module, so the block is around the step: from
    the batch's start until its first backward pass. ImportError without Lightning."""
    try:
        from lightning.pytorch import Callback
    except ImportError:
        from pytorch_lightning import Callback

    class Offload(Callback):
        def __init__(self) -> None:
            self.session = offload(**settings)
            self._inside = False

        def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
            self.session.__enter__()
            self._inside = True

        def _leave(self) -> None:
            if self._inside:
                self._inside = False
                self.session.__exit__(None, None, None)

        def on_before_backward(self, trainer: Any, pl_module: Any, loss: Any) -> None:
            self._leave()

        def on_train_batch_end(self, trainer: Any, pl_module: Any, *rest: Any) -> None:
            self._leave()
            pl_module.log_dict(self.session.metrics())

        def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
            self._leave()

    return Offload()


def offload_prepared(accelerator: Any, model: Any, **settings: Any) -> ModuleHandle:
    """offload_module() of what accelerator.prepare() returned, under whatever it wrapped around the model. Log with
    accelerator.log(handle.session.metrics(), step=…)."""
    return offload_module(accelerator.unwrap_model(model), **settings)
