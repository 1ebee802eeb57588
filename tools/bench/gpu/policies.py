"""Section `policies`: steps under a plan beside the same steps under the heuristic, on several shapes of a step.

The layers take set times and nothing else computes (networks.py, "timed"), so what differs is when copies wait for one
another. Both processes live side by side and take turns. A GPU is not planned for yet: on one the section is skipped.

Waiting is what the program waited for the engine, in a step. Device memory is the peak of PyTorch's allocations in one
step, the last: to look at it slows steps down and takes memory, which a plan would be made and judged by. What is shown of a plan is what the engine says of it at the end.
"""
from statistics import median

from children import Child, ChildFailed
from pairing import alternate
from sizes import format_size
from steps import agree, memory_of, note

MIB = 1 << 20
ELEMENTS = MIB  # of 4 bytes
LAYERS = 24
# Tensors lie in mappings of their own, so that what is resident is what is in use, as a limit has to be told.
MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(128 << 10), "MALLOC_TRIM_THRESHOLD_": str(128 << 10)}
QUICK_LAYERS = 8


def even(layers, milliseconds=6):
    return [(ELEMENTS, milliseconds / 1e3, milliseconds / 1e3)] * layers


def burst(layers):
    """As long, but the first half of the layers is passed in a sixth of the time, as where a network's first layers are
    large and quick."""
    return [(ELEMENTS, 0.002, 0.002)] * (layers // 2) + [(ELEMENTS, 0.010, 0.010)] * (layers - layers // 2)


def shapes(quick):
    """(name, what it is, layers, the device's links, settings of the session)."""
    count = QUICK_LAYERS if quick else LAYERS
    room = count * 4 * MIB * 2 // 3
    slack, slow = "h2d=1G,d2h=1G", "h2d=400M,d2h=400M"
    drive = {"tiers": ("dram", "nvme"), "budget": "32M", "nvme_bytes": "1G"}
    all_shapes = [
        ("even", "the link has slack: copies take two thirds of the layers' time", even(count), slack, {}),
        ("burst", "the link has slack over the step, and not in its first half", burst(count), slack, {}),
        ("burst, limit", "the same, where two thirds of the tensors fit", burst(count), slack, {"room": room}),
        ("even, limit", "the link has slack, and two thirds of the tensors fit", even(count), slack, {"room": room}),
        ("slow link", "copies take 1.7 times as long as the layers", even(count), slow, {}),
        ("slow link, limit", "the same, where two thirds of the tensors fit", even(count), slow, {"room": room}),
        ("drive", "32 MiB of host memory, the rest on the drive", even(count, 12), slack, drive),
    ]
    return all_shapes[:3] if quick else all_shapes


class Policies:
    """`tell` is given the section as far as it has come."""

    def __init__(self, arguments, scratch, environment, tell):
        self._arguments, self._scratch, self._environment, self._tell = arguments, scratch, environment, tell

    def run(self):
        if self._arguments.gpu.is_cuda:
            return {"skipped": "steps of a CUDA device are not planned yet"}
        section = {"policy": self._arguments.policy, "entries": []}
        for shape in shapes(self._arguments.quick):
            entry = {"shape": shape[0], "says": shape[1]}
            try:
                entry |= self._compare(*shape[2:])
            except ChildFailed as failed:
                entry |= {"failure": str(failed), "out_of_memory": failed.out_of_memory}
            note(progress(entry))
            section["entries"].append(entry)
            self._tell(section)
        return section

    def _compare(self, layers, links, settings):
        sides = {}
        with self._child("heuristic", layers, links, settings) as theirs, \
                self._child(self._arguments.policy, layers, links, settings) as ours:
            for name, child in (("heuristic", theirs), ("planned", ours)):
                sides[name] = {"losses": child.ask("train", count=self._arguments.settle_policies)["losses"], "waits": []}
            rounds = alternate(lambda: self._turn(theirs, sides["heuristic"]), lambda: self._turn(ours, sides["planned"]),
                               self._arguments.rounds)
            says = ours.ask("facts")["statistics"]
            for name, child in (("heuristic", theirs), ("planned", ours)):
                sides[name]["end"] = child.ask("peak")
                sides[name]["losses"] += sides[name]["end"]["losses"]
        heuristic, planned = sides["heuristic"], sides["planned"]
        spread = rounds.spread()
        same = (planned["end"]["state_sha256"] == heuristic["end"]["state_sha256"]
                and agree(planned["losses"], heuristic["losses"]))
        return {"ratio_to_heuristic": rounds.ratio(), **({} if spread is None else {"ratio_spread": spread}),
                "heuristic": self._side(heuristic, rounds.plain_step_seconds()),
                "planned": self._side(planned, rounds.step_seconds()), "bit_identical": same,
                "layer_seconds": sum(layer[1] + layer[2] for layer in layers), "plan": says["plan"],
                **{name: says[name] for name in ("planned_steps", "plan_departures", "plan_refusals", "plan_predicted_ns")}}

    @staticmethod
    def _side(side, seconds):
        return {"step_seconds": seconds, "wait_seconds": median(side["waits"]), **memory_of(side["end"])}

    def _turn(self, child, side):
        before = child.ask("facts")["statistics"]["host_wait_ns"]
        answer = child.ask("steps", count=self._arguments.steps, settle=1)
        after = child.ask("facts")["statistics"]["host_wait_ns"]
        side["waits"].append((after - before) / (self._arguments.steps + 1) / 1e9)
        side["losses"] += answer["losses"]
        return answer["seconds"]

    def _child(self, policy, layers, links, settings):
        spec = f"emulated:8G,{links}"
        known = {"budget": "1G", "tiers": ("dram",), "compress": "off", "limit": None, "device": spec, "policy": policy, "trial": "off",
                 "directory": str(self._arguments.pool)}
        config = {"place": spec, "contender": "terrace", "settings": known | settings,
                  "network": {"kind": "timed", "layers": layers, "seed": 0}, "threads": 1}
        return Child(config, self._scratch / f"policies-{policy}.log", environment=self._environment | MEMORY)


def progress(entry):
    if "failure" in entry:
        return f"{entry['shape']}: {entry['failure']}"
    heuristic, planned = entry["heuristic"], entry["planned"]
    return (f"{entry['shape']}: {entry['ratio_to_heuristic']:.3f} of the heuristic's step, waited {planned['wait_seconds']:.4f} s "
            f"({heuristic['wait_seconds']:.4f}), peak {format_size(planned['peak_allocated_bytes'])} "
            f"({format_size(heuristic['peak_allocated_bytes'])}), bits {'equal' if entry['bit_identical'] else 'DIFFER'}; "
            f"{entry['plan']}")
