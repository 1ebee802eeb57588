"""DeepSpeed's JSON keys for what Terrace has: terrace.torch.from_deepspeed().

The keys are those of DeepSpeed's documentation (docs.deepspeed.ai, "DeepSpeed Configuration JSON"; ZeRO-Offload, ATC 2021;
ZeRO-Infinity, SC 2021). DeepSpeed itself is not needed. What it says about offloading becomes arguments of offload() and of the
optimizers; what it says about something else is named as left to the program; what neither knows is an error, since a key
that was mistyped must not be lost silently.
"""
from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_NO_PARAMETERS = ("Terrace keeps no parameters off the device: shard them with FSDP2 (fully_shard, CPUOffloadPolicy), or take "
                  "the device's memory from Terrace (terrace run --gpu)")

# Sections that say nothing about offloading: the program's own.
_OTHERS = frozenset("""train_batch_size train_micro_batch_size_per_gpu gradient_accumulation_steps optimizer scheduler
    communication_data_type prescale_gradients gradient_predivide_factor sparse_gradients fp16 bf16 bfloat16 amp gradient_clipping
    zero_allow_untested_optimizer zero_force_ds_cpu_optimizer steps_per_print wall_clock_breakdown dump_state autotuning
    flops_profiler monitor_config tensorboard wandb csv_monitor comet comms_logger sparse_attention data_efficiency
    curriculum_learning elasticity compression_training checkpoint data_types seed dataloader_drop_last memory_breakdown
    disable_allgather torch_autocast tensor_parallel pipeline compile use_data_before_expert_parallelism load_universal
    seq_parallel_communication_data_type hybrid_engine eigenvalue progressive_layer_drop timers""".split())
_OTHERS_OF_ZERO = frozenset("""stage contiguous_gradients reduce_scatter reduce_bucket_size use_multi_rank_bucket_allreduce
    allgather_partitions allgather_bucket_size overlap_comm load_from_fp32_weights elastic_checkpoint sub_group_size
    stage3_prefetch_bucket_size prefetch_bucket_size stage3_param_persistence_threshold param_persistence_threshold
    stage3_model_persistence_threshold model_persistence_threshold stage3_max_live_parameters max_live_parameters
    stage3_max_reuse_distance max_reuse_distance stage3_gather_16bit_weights_on_model_save gather_16bit_weights_on_model_save
    stage3_gather_fp16_weights_on_model_save stage3_use_all_reduce_for_fetch_params use_all_reduce_for_fetch_params
    stage3_module_granularity_threshold module_granularity_threshold ignore_unused_parameters legacy_stage1 round_robin_gradients
    zero_hpz_partition_size zero_quantized_weights zero_quantized_nontrainable_weights zero_quantized_gradients
    zeropp_loco_param mics_shard_size mics_hierarchical_params_gather memory_efficient_linear pipeline_loading_checkpoint
    override_module_apply log_trace_cache_warnings leaf_module""".split())

# Of our sections: what Terrace finds out by itself, or does always.
_DONE = {"offload_optimizer": frozenset("buffer_count buffer_size pin_memory pipeline pipeline_read pipeline_write fast_init "
                                        "cpuadam_cores_perc".split()),
         "offload_param": frozenset("nvme_path buffer_count buffer_size max_in_cpu pin_memory".split()),
         "activation_checkpointing": frozenset("contiguous_memory_optimization synchronize_checkpoint_boundary profile".split()),
         "aio": frozenset("block_size queue_depth thread_count intra_op_parallelism single_submit overlap_events use_gds".split())}
# Keys that ask for what Terrace does not have: reason, and values that do not ask for it.
_MISSING = {("offload_optimizer", "ratio"): ("all states are off the device; leave the key out, or say 1.0", (1, 1.0)),
            ("offload_optimizer", "super_offload"): ("delay=1 of terrace.torch.AdamW has updates come a step later", (False,)),
            ("activation_checkpointing", "partition_activations"): ("checkpoints are not split among ranks", (False,)),
            ("activation_checkpointing", "number_checkpoints"): ("the program places its checkpoints itself", (None,))}


@dataclass(frozen=True)
class FromDeepSpeed:
    """`offload`: arguments of terrace.torch.offload (or offload_module), None where nothing is to be offloaded. `optimizer`: those of
    terrace.torch.AdamW, Adam and SGD that say where states are, None where they stay. `left_to_the_program`: keys that are not
    about offloading. `done_anyway`: keys about how DeepSpeed offloads, which Terrace finds out by itself."""

    offload: dict[str, Any] | None = None
    optimizer: dict[str, Any] | None = None
    left_to_the_program: tuple[str, ...] = field(default=())
    done_anyway: tuple[str, ...] = field(default=())


def from_deepspeed(config: Mapping[str, Any] | str | os.PathLike[str]) -> FromDeepSpeed:
    """What a DeepSpeed configuration says about offloading, as settings of Terrace.

        said = terrace.torch.from_deepspeed("ds_config.json")
        optimizer = terrace.torch.AdamW(model.parameters(), lr=1e-4, **(said.optimizer or {}))
        if said.offload is not None:
            terrace.torch.offload_module(model, **said.offload)

    `config`: the dictionary, or its file. ValueError names a key that DeepSpeed's documentation does not know, a value that cannot
    be, and a key that asks for what Terrace does not have, with what to do instead. OSError: the file cannot be read.
    """
    return _Reading(_dictionary(config)).result()


def _dictionary(config):
    if isinstance(config, Mapping):
        return config
    with open(config, encoding="utf-8") as text:
        try:
            read = json.load(text)
        except ValueError as error:
            raise ValueError(f"{os.fspath(config)}: is not JSON ({error})") from None
    if not isinstance(read, Mapping):
        raise ValueError(f"{os.fspath(config)}: has no object at its top, but {type(read).__name__}")
    return read


class _Reading:
    """Of one configuration."""

    def __init__(self, config):
        self._config = config
        self._left, self._done = [], []

    def result(self):
        sections = {"zero_optimization": self._zero, "activation_checkpointing": self._checkpointing, "aio": self._aio}
        found = {}
        for key, value in self._config.items():
            if key in sections:
                found[key] = sections[key](_section(value, key))
            elif key in _OTHERS:
                self._left.append(key)
            else:
                raise ValueError(f"{key}: is no key of a DeepSpeed configuration that is known here; correct it, or take it out")
        return FromDeepSpeed(found.get("activation_checkpointing"), found.get("zero_optimization"), tuple(self._left),
                             tuple(self._done))

    def _zero(self, section):
        optimizer = None
        for key, value in section.items():
            name = f"zero_optimization.{key}"
            if key == "offload_optimizer":
                optimizer = self._optimizer(_section(value, name), name)
            elif key == "offload_param":
                self._parameters(_section(value, name), name)
            elif key in ("cpu_offload", "cpu_offload_params", "cpu_offload_use_pin_memory"):  # before 0.3.16
                raise ValueError(f"{name}: is DeepSpeed's old form; write \"offload_optimizer\": {{\"device\": \"cpu\"}}")
            elif key in _OTHERS_OF_ZERO:
                self._left.append(name)
            else:
                raise ValueError(f"{name}: is no key of this section that is known here; correct it, or take it out")
        return optimizer

    def _optimizer(self, section, name):
        tier = _tier(section, name)
        self._rest(section, name, "offload_optimizer", ("device", "nvme_path"))
        if tier is None:
            return None
        return {"tier": tier, **_directory(section, tier, name)}

    def _parameters(self, section, name):
        if _tier(section, name) is not None:
            raise ValueError(f"{name}.device: {_NO_PARAMETERS}")
        self._rest(section, name, "offload_param", ("device",))

    def _checkpointing(self, section):
        name = "activation_checkpointing"
        wanted = section.get("cpu_checkpointing", False)
        if not isinstance(wanted, bool):
            raise ValueError(f"{name}.cpu_checkpointing: {wanted!r} is not true or false")
        self._rest(section, name, name, ("cpu_checkpointing",))
        return {"only": "checkpoints", "limit": None} if wanted else None

    def _aio(self, section):
        self._rest(section, "aio", "aio", ())

    def _rest(self, section, name, kind, used):
        for key, value in section.items():
            if key in used:
                continue
            missing = _MISSING.get((kind, key))
            if missing is not None and value not in missing[1]:
                raise ValueError(f"{name}.{key}: {value!r} is nothing that Terrace has; {missing[0]}")
            if missing is None and key not in _DONE[kind]:
                raise ValueError(f"{name}.{key}: is no key of this section that is known here; correct it, or take it out")
            self._done.append(f"{name}.{key}")


def _section(value, name):
    if not isinstance(value, Mapping):
        raise ValueError(f"{name}: {value!r} is not an object of keys")
    return value


def _tier(section, name):
    device = section.get("device", "none")
    tiers = {"none": None, None: None, "cpu": "dram", "nvme": "nvme"}
    if not isinstance(device, (str, type(None))) or device not in tiers:
        raise ValueError(f"{name}.device: {device!r} is not known; it is 'cpu', 'nvme' or 'none'")
    return tiers[device]


def _directory(section, tier, name):
    if tier != "nvme":
        return {}
    directory = section.get("nvme_path")
    if not isinstance(directory, str) or not directory:
        raise ValueError(f"{name}.nvme_path: {directory!r} names no directory; with device 'nvme' it has to")
    return {"directory": directory}
