#!/usr/bin/python3
"""The contenders of `terrace bench gpu` compute what plain computes, and keep to their own rules. Needs PyTorch."""
import argparse
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import bench_gpu_path

try:
    import torch
except ImportError:
    print("SKIP: PyTorch is not installed for", sys.executable)
    sys.exit(77)

import bench
import networks
from bench_gpu_path import BENCH
from contenders import open_contender
from lanes import open_lanes
from memory import ProfiledMemory, peak_since
from place import parse_place
from stream_offload import MAX_STASH, StreamOffload

PLACE = parse_place("emulated:1G,h2d=1G,d2h=1G")
NETWORK = {"kind": "blocks", "width": 32, "length": 64, "depth": 3, "batch": 2, "dtype": "float32", "seed": 3}


def train(kind, steps=3):
    """(losses, hash of the parameters)"""
    torch.set_num_threads(1)
    model, inputs, optimizer = networks.build(NETWORK, torch.device("cpu"))
    losses = []
    with open_contender(PLACE, kind, {}) as contender:
        for _ in range(steps):
            optimizer.zero_grad(set_to_none=True)
            loss = networks.loss_of(contender.forward(model, inputs))
            loss.backward()
            contender.end_step()
            optimizer.step()
            losses.append(loss.item().hex())
    return losses, networks.state_hash(model)


class Contenders(unittest.TestCase):
    def test_all_compute_what_plain_computes(self):
        plain = train("plain")
        self.assertEqual(len(set(plain[0])), 3, "the losses of the steps must differ for this to say anything")
        for kind in ("checkpoint", "checkpoint of inputs", "save_on_cpu", "streams"):
            self.assertEqual(train(kind), plain, kind)


class RecordedLanes:
    """Copies at once; notes each ticket that is given and waited for, in order."""

    class Host:
        like = staticmethod(torch.empty_like)

        def give_back(self, tensor):
            pass

    def __init__(self, host_is_ahead=False):
        self.host, self.notes, self.copies, self.host_is_ahead = self.Host(), [], 0, host_is_ahead

    def copy(self, to, source, way):
        to.copy_(source)
        self.copies += 1
        self.notes.append((way, self.copies))
        return self.copies

    def fetch(self, host):
        tensor = torch.empty_like(host)
        return tensor, self.copy(tensor, host, "to_device")

    def passed(self):
        return self.copies

    def reuse_behind(self, event):
        self.notes.append(("reuse behind", event))

    def wait(self, ticket):
        self.notes.append(("wait", ticket))


class Streams(unittest.TestCase):
    def forward(self, depth, host_is_ahead=False):
        lanes = RecordedLanes(host_is_ahead)
        offload = StreamOffload(lanes, min_bytes=4)
        value = torch.ones(64, requires_grad=True)
        with offload:
            for _ in range(depth):
                value = value.sin()
        return lanes, offload, value

    def test_sixth_tensor_waits_for_the_first(self):
        lanes, _, _ = self.forward(MAX_STASH)
        self.assertEqual([note for note in lanes.notes if note[0] == "wait"], [])
        lanes, _, _ = self.forward(MAX_STASH + 2)
        self.assertEqual([note for note in lanes.notes if note[0] == "wait"], [("wait", 1), ("wait", 2)])

    def test_stash_is_handed_back_without_a_copy(self):
        lanes, _, value = self.forward(MAX_STASH + 2)
        value.sum().backward()
        self.assertEqual(sum(way == "to_device" for way, _ in lanes.notes), 2)

    def back(self, host_is_ahead):
        """What became of three tensors that were away, numbers 3 to 1 of the copies out; copies back are 9 to 11."""
        lanes, offload, value = self.forward(MAX_STASH + 3, host_is_ahead)
        lanes.notes.clear()
        value.sum().backward()
        notes = [note for note in lanes.notes if note[1] > MAX_STASH + 3 or note[0] == "reuse behind"]
        lanes.notes.clear()
        offload.end_step()
        return notes, lanes.notes

    def test_the_next_nodes_tensor_comes_while_this_one_is_waited_for(self):
        self.assertEqual(self.back(host_is_ahead=False)[0], [
            ("to_device", 9), ("to_device", 10), ("wait", 9), ("to_device", 11), ("wait", 10), ("reuse behind", 10), ("wait", 11)])

    def test_a_host_that_is_ahead_queues_copies_behind_the_node_before_the_previous_one(self):
        notes, at_the_end = self.back(host_is_ahead=True)
        self.assertEqual(notes, [("to_device", 9), ("wait", 9), ("to_device", 10), ("wait", 10), ("reuse behind", 9),
                                 ("to_device", 11), ("wait", 11)])
        self.assertEqual(at_the_end, [("reuse behind", 10), ("reuse behind", 11)])

    def test_graph_without_backward_leaves_no_stash_behind(self):
        lanes, offload, _ = self.forward(3)
        offload.end_step()
        self.assertEqual([note for note in lanes.notes if note[0] == "wait"], [("wait", 1), ("wait", 2), ("wait", 3)])

    def test_parameters_and_small_tensors_stay(self):
        lanes = RecordedLanes()
        with StreamOffload(lanes):
            (torch.nn.Parameter(torch.ones(4096)).sin().sum() + torch.ones(8, requires_grad=True).sin().sum()).backward()
        self.assertEqual(lanes.copies, 0)


class Lanes(unittest.TestCase):
    def setUp(self):
        self.lanes = open_lanes(PLACE)
        self.addCleanup(self.lanes.close)

    def test_copies_of_a_lane_keep_their_order(self):
        source, to = [torch.full((1000,), float(n)) for n in range(8)], torch.zeros(1000)
        tickets = [self.lanes.copy(to, tensor, "to_host") for tensor in source]
        self.lanes.wait(tickets[-1])
        self.assertTrue(all(ticket.is_set() for ticket in tickets))
        self.assertTrue(torch.equal(to, source[-1]))

    def test_failed_copy_is_an_error_of_its_wait(self):
        ticket = self.lanes.copy(torch.zeros(3), torch.zeros(4), "to_host")
        self.assertRaises(RuntimeError, self.lanes.wait, ticket)

    def test_views_come_back_as_they_were(self):
        source = torch.arange(12.0).view(3, 4).t()
        host = self.lanes.host.like(source)
        self.lanes.wait(self.lanes.copy(host, source, "to_host"))
        self.assertTrue(torch.equal(host, source))

    def test_host_memory_is_used_again(self):
        first = self.lanes.host.like(torch.zeros(64))
        address = first.data_ptr()
        self.lanes.host.give_back(first)
        self.assertEqual(self.lanes.host.like(torch.zeros(8, 8)).data_ptr(), address)


class LanesBehindTheHost(unittest.TestCase):
    def test_what_comes_behind_a_wait_may_overwrite_the_source(self):
        lanes = open_lanes(parse_place("emulated:1G,d2h=1M,lag=10s"))
        self.addCleanup(lanes.close)
        source, to = torch.ones(1 << 20), torch.zeros(1 << 20)
        lanes.wait(lanes.copy(to, source, "to_host"))
        source.zero_()
        self.assertTrue(torch.equal(to, torch.ones(1 << 20)))


class Memory(unittest.TestCase):
    def test_peak_counts_what_was_live_before(self):
        changes = [(1, 100), (5, 50), (6, -50), (2, 1000), (3, -1000)]
        self.assertEqual(peak_since(4, changes), 150)

    def test_tensors_count_and_host_memory_of_lanes_does_not(self):
        memory = ProfiledMemory()
        kept = torch.ones(1 << 20)
        memory.begin_step()
        lanes = open_lanes(PLACE)
        host = lanes.host.like(kept)
        passing = kept.sin()
        del passing
        peak = memory.end()["peak_allocated_bytes"]
        lanes.close()
        self.assertEqual(host.numel(), kept.numel())
        self.assertGreaterEqual(peak, 2 * 4 << 20)
        self.assertLess(peak, (2 * 4 << 20) + (1 << 16))


class Partial(unittest.TestCase):
    """What a run that is cut off leaves."""

    def test_each_entry_is_told_as_it_ends(self):
        lengths = []
        round_of = {"link": {"to_device": 2.0}, "engine": {"to_device": 1.0}}
        arguments = argparse.Namespace(only=["fetches"], transfers=(4, 4), fetch_bytes=(1, 8), gpu=PLACE, rounds=1, pool="/tmp")
        with mock.patch("copies.run_script", side_effect=[{"rounds": [round_of]}, {"failure": "it broke"}]) as script:
            done = bench.measure(arguments, None, lambda sections: lengths.append(len(sections["fetches"]["entries"])))
        self.assertEqual(lengths, [1, 2, 2])
        self.assertEqual([call.args[1]["count"] for call in script.call_args_list], [16, 2])
        self.assertEqual([entry.get("share", entry.get("failure")) for entry in done["fetches"]["entries"]], [0.5, "it broke"])

    def test_a_file_is_replaced_as_a_whole(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "gpu.json")
            for number in (1, 2):
                bench.write({"number": number}, file)
                self.assertEqual(json.loads(file.read_text(encoding="utf-8")), {"number": number})
            self.assertEqual(list(Path(folder).iterdir()), [file])


class Child(unittest.TestCase):
    def ask(self, contender, *requests):
        config = {"place": PLACE.spec, "contender": contender, "settings": {}, "network": NETWORK, "threads": 1}
        lines = "".join(json.dumps(request) + "\n" for request in requests)
        result = subprocess.run([sys.executable, BENCH / "gpu/child.py", json.dumps(config)], input=lines, text=True,
                                capture_output=True, check=False)
        return result.returncode, [json.loads(line) for line in result.stdout.splitlines()]

    def test_steps_are_answered_line_by_line(self):
        code, answers = self.ask("plain", {"do": "prepare", "settle": 2}, {"do": "steps", "count": 2, "settle": 1})
        self.assertEqual(code, 0)
        self.assertEqual((len(answers[0]["losses"]), len(answers[1]["losses"]), len(answers[1]["seconds"])), (3, 3, 2))
        self.assertEqual(answers[0]["losses"] + answers[1]["losses"], train("plain", 6)[0])

    def test_the_measured_step_says_what_it_handed_back(self):
        for contender, handed_back in (("streams", MAX_STASH), ("plain", None)):
            code, answers = self.ask(contender, {"do": "prepare", "settle": 2})
            self.assertEqual((code, answers[0].get("handed_back")), (0, handed_back))

    def test_absurd_size_is_out_of_memory_and_ends_it(self):
        NETWORK_TOO_LARGE = NETWORK | {"batch": 1 << 44}
        config = {"place": PLACE.spec, "contender": "plain", "settings": {}, "network": NETWORK_TOO_LARGE, "threads": 1}
        result = subprocess.run([sys.executable, BENCH / "gpu/child.py", json.dumps(config)], text=True,
                                input='{"do": "prepare", "settle": 1}\n', capture_output=True, check=False)
        answer = json.loads(result.stdout)
        self.assertTrue(answer["out_of_memory"], answer)
        self.assertEqual(result.returncode, 1)


if __name__ == "__main__":
    unittest.main()
