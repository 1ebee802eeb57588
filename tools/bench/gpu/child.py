#!/usr/bin/python3
"""One contender in a process of its own: trains a network step by step as the parent asks for it.

    child.py '{"place": "cuda", "contender": "plain", "settings": {}, "network": {…}, "threads": 1}'

Standard input has one request in each line, standard output one answer (children.py is the other side):

    {"do": "prepare", "settle": 3}          builds the model, settles, measures the memory of one more step,
                                            and what it handed back
    {"do": "train", "count": 2}             builds the model and takes some steps: whether it can
    {"do": "peak"}                          measures the memory of one more step, and the state behind it
    {"do": "steps", "count": 4, "settle": 1}   trains settle + count steps, answers the seconds of the last `count`
    {"do": "facts"}                         what the contender tells of itself
    end of input                            ends the process

An answer with "error" is the last one; "out_of_memory" says that this was why. Whatever else prints on standard
output goes to standard error.
"""
import json
import os
import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))  # sizes.py

import torch

import networks
from contenders import open_contender
from memory import open_memory
from place import parse_place


class Trainer:
    def __init__(self, config, contender):
        self._place = parse_place(config["place"])
        self._contender = contender
        self._network = config["network"]
        self._device_memory_bytes = config.get("device_memory_bytes")  # None: all of the GPU
        self._losses = []

    def prepare(self, settle):
        memory = open_memory(self._place)
        self._build(settle)
        before = self._contender.handed_back()
        memory.begin_step()
        self._step()
        facts = memory.end()
        if before is not None:
            facts["handed_back"] = self._contender.handed_back() - before
        self._give_turn_away()
        return {"losses": self._take_losses(), "state_sha256": networks.state_hash(self._model), **facts}

    def train(self, count):
        """Without a look at memory, which takes some itself."""
        self._build(count)
        return {"losses": self._take_losses()}

    def peak(self):
        """Of a model that is there already. What was taken before is missing: parameters, not what a step saves."""
        memory = open_memory(self._place)
        memory.begin_step()
        self._step()
        return {"losses": self._take_losses(), **memory.end(), "state_sha256": networks.state_hash(self._model)}

    def _build(self, steps):
        device = torch.device(self._place.torch_device)
        self._limit_memory(device)
        self._model, self._inputs, self._optimizer = networks.build(self._network, device)
        for _ in range(steps):
            self._step()

    def steps(self, count, settle):
        seconds = [self._step() for _ in range(settle + count)][settle:]
        self._give_turn_away()
        return {"seconds": seconds, "losses": self._take_losses()}

    def facts(self):
        return self._contender.facts()

    def _give_turn_away(self):
        """What PyTorch caches would be missing to the other process."""
        if self._place.is_cuda:
            torch.cuda.empty_cache()

    def _limit_memory(self, device):
        if self._device_memory_bytes:
            total = torch.cuda.mem_get_info(device)[1]
            torch.cuda.set_per_process_memory_fraction(self._device_memory_bytes / total, device)

    def _step(self):
        start = time.perf_counter()
        self._optimizer.zero_grad(set_to_none=True)
        loss = networks.loss_of(self._contender.forward(self._model, self._inputs))
        loss.backward()
        self._contender.end_step()
        self._optimizer.step()
        self._losses.append(loss.item().hex())  # on CUDA this waits for the forward pass,
        if self._place.is_cuda:
            torch.cuda.synchronize()            # and this for the rest
        return time.perf_counter() - start

    def _take_losses(self):
        taken, self._losses = self._losses, []
        return taken


def is_out_of_memory(error):
    text = str(error).lower()
    return isinstance(error, MemoryError) or "out of memory" in text or "allocate memory" in text


def serve(trainer, requests, answers):
    actions = {"prepare": trainer.prepare, "train": trainer.train, "steps": trainer.steps, "peak": trainer.peak,
               "facts": trainer.facts}
    for line in requests:
        request = json.loads(line)
        try:
            answer = actions[request.pop("do")](**request)
        except (RuntimeError, MemoryError, OSError) as error:
            answer = {"error": str(error).strip().split("\n", 1)[0], "out_of_memory": is_out_of_memory(error)}
        print(json.dumps(answer), file=answers, flush=True)
        if "error" in answer:
            return 1
    return 0


def answers_apart():
    """Standard output as it was; what prints there from now on goes to standard error."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return answers


def settle_arithmetic(threads):
    """The same order of every sum in all contenders. Where PyTorch has no such kernel it warns and goes on: whether
    plain agrees with itself is measured, too."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(True, warn_only=True)


def main():
    answers = answers_apart()
    config = json.loads(sys.argv[1])
    settle_arithmetic(config["threads"])
    try:
        with open_contender(parse_place(config["place"]), config["contender"], config["settings"]) as contender:
            return serve(Trainer(config, contender), sys.stdin, answers)
    except (ImportError, RuntimeError, OSError, ValueError, TypeError) as error:
        print(json.dumps({"error": f"{type(error).__name__}: {error}"}), file=answers, flush=True)
        return 1


if __name__ == "__main__":
    sys.exit(main())
