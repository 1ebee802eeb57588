#!/usr/bin/python3
"""DistributedDataParallel with gloo, in one process and in two; parameters sharded by FSDP2, and layers split as DTensors, each
also with checkpoints whose inputs alone leave; DataParallel's threads."""
import functools
import os
import sys
import tempfile
import threading
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # support.py
from support import assert_same, engine_or_skip, main, skip
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

import terrace.torch


def network():
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(128, 256), torch.nn.GELU(), torch.nn.Linear(256, 128))


def sharded(net):
    """Parameters are gathered for each layer, and let go of between forward and backward."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in (net[0], net[2], net):
        fully_shard(layer, mesh=mesh)
    return net


def sharded_with_checkpoints(net):
    return sharded(checkpointed(net))


def checkpointed(net):
    """Each layer recomputes; what is saved of it is its input."""
    for layer in (net[0], net[2]):
        layer.forward = functools.partial(checkpoint, layer.forward, use_reentrant=False)
    return net


def replicated_with_checkpoints(net):
    return DistributedDataParallel(checkpointed(net))


def split(net):
    """The first layer's columns and the second's rows on either process: what autograd saves is DTensors as well as tensors."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    return parallelize_module(net, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})


def whole(parameter):
    return (parameter.full_tensor() if hasattr(parameter, "full_tensor") else parameter).detach().clone()


def train(wrap, rank, offloaded):
    net = wrap(network())
    only = "checkpoints" if "checkpoints" in wrap.__name__ else None
    handle = terrace.torch.offload_module(net, budget="32M", device="cpu", min_bytes="16K", limit=None, keep_last=0,
                                          only=only) if offloaded else None
    if handle is not None:
        handle.session._hooks.watch = None  # so small a job would not be worth it
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    torch.manual_seed(10 + (0 if wrap is split else rank))  # split layers see one batch
    losses = []
    for _ in range(4):
        loss = net(torch.randn(256, 128)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    if handle is not None:
        counts = handle.session.statistics()
        assert counts["offloaded"] >= 4 and counts["live"] == 0, counts
        handle.remove()
    return losses + [whole(p) for p in net.parameters()]


def process(rank, wrap, world, directory):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{directory}/rendezvous", rank=rank, world_size=world)
    try:
        results = [train(wrap, rank, offloaded) for offloaded in (False, True)]
    finally:
        dist.destroy_process_group()
    torch.save(results, f"{directory}/{rank}")


class Distributed(unittest.TestCase):
    def check(self, world, wrap=DistributedDataParallel):
        with tempfile.TemporaryDirectory(prefix="terrace-python.", dir="/var/tmp") as directory:
            mp.spawn(process, (wrap, world, directory), nprocs=world)
            for rank in range(world):
                stock, ours = torch.load(os.path.join(directory, str(rank)))
                assert_same(self, ours, stock)

    @unittest.skipUnless(dist.is_available(), "PyTorch was built without distributed")
    def test_OneProcess(self):
        self.check(1)

    @unittest.skipUnless(dist.is_available(), "PyTorch was built without distributed")
    def test_TwoProcesses(self):
        self.check(2)

    @unittest.skipUnless(dist.is_available(), "PyTorch was built without distributed")
    def test_ShardedParameters(self):
        try:
            from torch.distributed.fsdp import fully_shard  # noqa: F401
        except ImportError as error:
            skip(f"this PyTorch has no fully_shard ({error})")
        except ValueError as error:  # 1.13's fsdp under Python 3.11
            skip(f"this PyTorch's fsdp cannot be imported ({error})")
        if not hasattr(torch.cpu.Stream, "record_event"):
            skip("this PyTorch shards on GPUs only")
        self.check(2, sharded)


    @unittest.skipUnless(dist.is_available(), "PyTorch was built without distributed")
    def test_CheckpointsOfReplicas(self):
        needs_saved_inputs()
        self.check(2, replicated_with_checkpoints)

    @unittest.skipUnless(dist.is_available(), "PyTorch was built without distributed")
    def test_CheckpointsOfShardedParameters(self):
        needs_saved_inputs()
        self.check(2, sharded_with_checkpoints)

    @unittest.skipUnless(dist.is_available(), "PyTorch was built without distributed")
    def test_SplitLayers(self):
        try:
            from torch.distributed.tensor.parallel import parallelize_module  # noqa: F401
        except (ImportError, AttributeError, ValueError) as error:
            skip(f"this PyTorch has no torch.distributed.tensor.parallel ({error})")
        if not hasattr(torch.distributed, "device_mesh"):
            skip("this PyTorch has no torch.distributed.device_mesh")
        self.check(2, split)


def needs_saved_inputs():
    if not hasattr(torch.utils.checkpoint, "set_checkpoint_early_stop"):
        skip("this PyTorch does not save the inputs of a checkpoint with use_reentrant=False, it holds them")


class Replicas(unittest.TestCase):
    def test_AnOffloadedModuleIsReplicatedAsItIs(self):
        # What DataParallel does, without its GPUs: shallow copies of the module, run in threads.
        net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU())
        handle = terrace.torch.offload_module(net, budget="32M", device="cpu", min_bytes=1, limit=None)
        replica = net._replicate_for_data_parallel()
        replica._modules = dict(net._modules)
        outs = []
        thread = threading.Thread(target=lambda: outs.append(replica(torch.randn(8, 64))))
        thread.start()
        thread.join()
        self.assertGreater(handle.session.statistics()["offloaded"], 0)
        outs[0].sum().backward()
        self.assertEqual(handle.session.statistics()["live"], 0)


if __name__ == "__main__":
    engine_or_skip()
    main()
