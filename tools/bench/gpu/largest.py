"""Section `largest`: the largest batch that trains in a fixed amount of device memory, plain and with Terrace.

Each trial is a process of its own that takes two steps. On CUDA PyTorch is given a share of the GPU's memory. On
the emulated device `terrace run --gpu emulated:SIZE` lets Terrace's heap refuse what is beyond it, as a GPU would
(which counts every block of 256 KiB and more, not only tensors); plain runs in the same way, with a smallest size to
offload that nothing has.
"""
from bisection import NothingWorks, largest_passing
from children import Child, ChildFailed
from sizes import format_size
from steps import note

NOTHING_OFFLOADED = "1T"
TOLERANCE = 0.06  # of the answer
MOST = 1 << 14
STEPS = 2  # the second has learned from the first


class Largest:
    def __init__(self, arguments, scratch, environment, terrace):
        self._arguments, self._scratch, self._environment = arguments, scratch, environment
        self._terrace = terrace
        self._trials = []

    def run(self):
        if not self._arguments.gpu.is_cuda and self._terrace is None:
            return {"skipped": "there is no terrace command beside this script: the emulated capacity is its heap's"}
        try:
            plain, plain_fails = self._search("plain", 1)
            ours, ours_fails = self._search("terrace", plain)
        except (ChildFailed, NothingWorks) as failed:
            return {"failure": str(failed), "trials": self._trials}
        return {"memory_bytes": self._arguments.largest_memory, "network": self._arguments.largest_network,
                "plain_batch": plain, "plain_fails_at": plain_fails, "terrace_batch": ours,
                "terrace_fails_at": ours_fails, "factor": ours / plain, "trials": self._trials}

    def _search(self, who, lowest):
        return largest_passing(lambda batch: self._passes(who, batch), lowest, MOST, TOLERANCE)

    def _passes(self, who, batch):
        log = self._scratch / f"largest-{who}.log"
        launcher = [] if self._arguments.gpu.is_cuda else self._launcher(who)
        try:
            with Child(self._config(who, batch), log, launcher, self._environment) as child:
                child.ask("train", count=STEPS)
            fits = True
        except ChildFailed as failed:
            if not failed.out_of_memory:
                raise
            fits = False
        self._trials.append({"who": who, "batch": batch, "fits": fits})
        note(f"largest batch in {format_size(self._arguments.largest_memory)}, {who}: {batch} "
             f"{'trains' if fits else 'is out of memory'}")
        return fits

    def _config(self, who, batch):
        place = self._arguments.gpu
        ours = place.is_cuda and who == "terrace"  # else the launcher sets everything
        settings = {"budget": self._arguments.dram, "compress": "off", "limit": None, "device": place.spec}
        config = {"place": place.spec, "contender": "terrace" if ours else "plain", "settings": settings if ours else {},
                  "network": self._arguments.largest_network | {"batch": batch}, "threads": self._arguments.threads}
        return config | ({"device_memory_bytes": self._arguments.largest_memory} if place.is_cuda else {})

    def _launcher(self, who):
        spec = self._arguments.gpu.with_capacity(self._arguments.largest_memory)
        smallest = ["--offload-min", NOTHING_OFFLOADED] if who == "plain" else []
        return [self._terrace, "run", "--gpu", spec, "--offload", "activations", "--offload-budget",
                self._arguments.dram, *smallest, "--"]
