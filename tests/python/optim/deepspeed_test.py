#!/usr/bin/python3
"""DeepSpeed's keys: what they become here, and what is said of a key that nobody knows or that asks for what Terrace lacks."""
import copy
import json
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # support.py
from support import OnReference, main

import terrace.torch
from terrace.torch import from_deepspeed

# As transformers documents a configuration for ZeRO-Infinity, with checkpoints on the host.
WHOLE = {
    "fp16": {"enabled": "auto"}, "bf16": {"enabled": "auto"},
    "optimizer": {"type": "AdamW", "params": {"lr": "auto"}}, "scheduler": {"type": "WarmupLR"},
    "zero_optimization": {
        "stage": 3,
        "offload_optimizer": {"device": "nvme", "nvme_path": "/local_nvme", "pin_memory": True, "buffer_count": 4,
                              "fast_init": False, "pipeline_read": False, "pipeline_write": False, "ratio": 1.0},
        "offload_param": {"device": "none", "pin_memory": True, "buffer_count": 5, "buffer_size": 1e8, "max_in_cpu": 1e9},
        "overlap_comm": True, "contiguous_gradients": True, "sub_group_size": 1e9},
    "activation_checkpointing": {"partition_activations": False, "cpu_checkpointing": True, "contiguous_memory_optimization": False,
                                 "number_checkpoints": None, "synchronize_checkpoint_boundary": False, "profile": False},
    "aio": {"block_size": 262144, "queue_depth": 32, "thread_count": 1, "single_submit": False, "overlap_events": True},
    "gradient_accumulation_steps": "auto", "train_micro_batch_size_per_gpu": 4}


def changed(path, value):
    config = copy.deepcopy(WHOLE)
    section = config
    *parents, last = path.split(".")
    for parent in parents:
        section = section.setdefault(parent, {})
    section[last] = value
    return config


class Keys(unittest.TestCase):
    def test_AWholeConfiguration(self):
        said = from_deepspeed(WHOLE)
        self.assertEqual(said.offload, {"only": "checkpoints", "limit": None})
        self.assertEqual(said.optimizer, {"tier": "nvme", "directory": "/local_nvme"})
        self.assertIn("fp16", said.left_to_the_program)
        self.assertIn("zero_optimization.stage", said.left_to_the_program)
        self.assertIn("zero_optimization.offload_optimizer.pin_memory", said.done_anyway)
        self.assertIn("aio.queue_depth", said.done_anyway)
        self.assertNotIn("zero_optimization.offload_optimizer.device", said.done_anyway)

    def test_FromAFile(self):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(WHOLE, file)
            file.flush()
            self.assertEqual(from_deepspeed(file.name), from_deepspeed(WHOLE))
            for text, says in (("{", "is not JSON"), ("[1]", "has no object at its top, but list")):
                with open(file.name, "w", encoding="utf-8") as other:
                    other.write(text)
                with self.assertRaisesRegex(ValueError, says):
                    from_deepspeed(file.name)

    def test_WhatIsNotAskedForIsNone(self):
        for config in ({}, {"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "none"}}},
                       {"activation_checkpointing": {"cpu_checkpointing": False}}):
            said = from_deepspeed(config)
            self.assertEqual([said.offload, said.optimizer], [None, None])

    def test_TheHostIsOurDram(self):
        said = from_deepspeed({"zero_optimization": {"offload_optimizer": {"device": "cpu", "pin_memory": True}}})
        self.assertEqual(said.optimizer, {"tier": "dram"})

    def test_WhatIsWrongIsNamed(self):
        for path, value, says in (
                ("zero_optimisation", {}, "^zero_optimisation: is no key"),
                ("zero_optimization.offload_optimiser", {}, "^zero_optimization.offload_optimiser: is no key of this section"),
                ("zero_optimization.offload_optimizer.nvme_dir", "/x", "^zero_optimization.offload_optimizer.nvme_dir: is no key"),
                ("zero_optimization.offload_optimizer.device", "disk", "device: 'disk' is not known; it is 'cpu', 'nvme' or 'none'"),
                ("zero_optimization.offload_optimizer.device", ["cpu"], "device: .'cpu'. is not known"),
                ("zero_optimization.offload_optimizer.nvme_path", None, "nvme_path: None names no directory"),
                ("zero_optimization.offload_optimizer", True, "offload_optimizer: True is not an object"),
                ("zero_optimization.offload_optimizer.ratio", 0.3, "ratio: 0.3 is nothing that Terrace has; all states are off"),
                ("zero_optimization.offload_optimizer.super_offload", True, "super_offload: True is nothing.*delay=1"),
                ("zero_optimization.offload_param.device", "cpu", "offload_param.device: Terrace keeps no parameters.*FSDP2"),
                ("zero_optimization.cpu_offload", True, "cpu_offload: is DeepSpeed's old form; write"),
                ("activation_checkpointing.cpu_checkpoints", True, "^activation_checkpointing.cpu_checkpoints: is no key"),
                ("activation_checkpointing.cpu_checkpointing", "yes", "cpu_checkpointing: 'yes' is not true or false"),
                ("activation_checkpointing.partition_activations", True, "partition_activations: True is nothing.*not split"),
                ("activation_checkpointing.number_checkpoints", 4, "number_checkpoints: 4 is nothing.*places its checkpoints"),
                ("aio.blocksize", 1, "^aio.blocksize: is no key")):
            with self.subTest(path=path, value=value), self.assertRaisesRegex(ValueError, says):
                from_deepspeed(changed(path, value))


class InUse(OnReference):
    def test_WhatItSaysIsWhatOffloadAndOptimizersTake(self):
        config = changed("zero_optimization.offload_optimizer", {"device": "cpu"})
        said = from_deepspeed(config)
        with self.session(**said.offload) as session:
            self.assertTrue(session._hooks._only_checkpoints)
        terrace.torch.settings.make(**from_deepspeed(WHOLE).offload)
        for settings in (said.optimizer, from_deepspeed(WHOLE).optimizer):
            self.assertLessEqual(set(settings), {"tier", "directory"})


if __name__ == "__main__":
    main()
