"""What is compared: each contender runs the forward pass of a model its own way, and knows when a step is over.

plain          PyTorch alone
save_on_cpu    torch.autograd.graph.save_on_cpu, pinned; on the emulated device the same, re-enacted over its links
streams        torchtune's published stream offload, written anew (stream_offload.py)
checkpoint     torch.utils.checkpoint around every block: no copies, the forward pass once more; "of inputs", of the
               kind that saves its inputs where a hook sees them
terrace        terrace.torch.offload, with the settings it is given
checkpoint+    the two together: a checkpoint around every block, whose input terrace.torch.offload takes
"""
import contextlib

import torch
import torch.utils.checkpoint
from torch.utils.checkpoint import checkpoint

from lanes import open_lanes
from stream_offload import BlockingOffload, StreamOffload


class Plain:
    def __init__(self, place, settings):
        pass

    def forward(self, model, inputs):
        return model(inputs)

    def end_step(self):
        pass

    def facts(self):
        return {}

    def handed_back(self):
        """Tensors so far that backward got back because they had never left; None for who does not offload beside."""
        return None

    def close(self):
        pass


class Checkpoint(Plain):
    def forward(self, model, inputs):
        for block in model.blocks:
            inputs = checkpoint(block, inputs, use_reentrant=False)
        return inputs


class CheckpointSavingInputs(Plain):
    """Of the kind whose inputs a hook sees: the reentrant one of an older PyTorch takes more memory than the other."""

    def forward(self, model, inputs):
        return through_checkpoints(model, inputs)


def through_checkpoints(model, inputs):
    if not SAVES_INPUTS:
        inputs = inputs.detach().requires_grad_()  # a reentrant checkpoint of what needs no gradient gives none
    for block in model.blocks:
        inputs = checkpoint(block, inputs, use_reentrant=not SAVES_INPUTS)
    return inputs


class SaveOnCpu(Plain):
    def __init__(self, place, settings):
        self._lanes = None if place.is_cuda else open_lanes(place)

    def forward(self, model, inputs):
        cuda = torch.autograd.graph.save_on_cpu(pin_memory=True) if self._lanes is None else None
        with cuda or BlockingOffload(self._lanes):
            return model(inputs)

    def close(self):
        if self._lanes:
            self._lanes.close()


class Streams(Plain):
    def __init__(self, place, settings):
        self._lanes = open_lanes(place)
        self._offload = StreamOffload(self._lanes)

    def forward(self, model, inputs):
        with self._offload:
            return model(inputs)

    def end_step(self):
        self._offload.end_step()

    def facts(self):
        return {"offloaded_bytes": self._offload.offloaded_bytes}

    def handed_back(self):
        return self._offload.handed_back

    def close(self):
        self._lanes.close()


class Terrace(Plain):
    """`settings` are keyword arguments of terrace.torch.offload, and "room": a limit of so many bytes more than are taken."""

    def __init__(self, place, settings):
        import terrace.torch  # not installed where the others are measured alone
        if "room" in settings:  # device memory beside what the process has already; Fit aims at nine tenths of a limit
            from terrace.torch.memory import anonymous_bytes
            settings = settings | {"limit": (anonymous_bytes() + settings["room"]) * 10 // 9}
        self._offload = terrace.torch.offload(**{name: value for name, value in settings.items() if name != "room"})

    def forward(self, model, inputs):
        with self._offload:
            return model(inputs)

    def end_step(self):
        step = getattr(self._offload, "step", None)
        if step:
            step()

    def facts(self):
        return {"statistics": self._offload.statistics()}

    def handed_back(self):
        return self._offload.statistics()["handed_back"]

    def close(self):
        self._offload.close()


class CheckpointOffload(Terrace):
    def forward(self, model, inputs):
        with self._offload:
            return through_checkpoints(model, inputs)


# Since 2.1; before, a checkpoint that is not reentrant holds its inputs, and no hook sees them.
SAVES_INPUTS = hasattr(torch.utils.checkpoint, "set_checkpoint_early_stop")

KINDS = {"plain": Plain, "checkpoint": Checkpoint, "checkpoint of inputs": CheckpointSavingInputs, "save_on_cpu": SaveOnCpu,
         "streams": Streams, "terrace": Terrace, "checkpoint+": CheckpointOffload}


@contextlib.contextmanager
def open_contender(place, kind, settings):
    contender = KINDS[kind](place, settings)
    try:
        yield contender
    finally:
        contender.close()
