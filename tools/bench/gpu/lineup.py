"""Who is compared in `steps`: names, and what terrace.torch.offload is told."""
from dataclasses import dataclass, field

AGAIN = "plain again"    # against itself: what the machine's noise is worth
FITS = "terrace, fits"
DRAM, NVME, AUTO = "terrace dram", "terrace dram+nvme", "terrace compress auto"
SUMMED = "terrace, all sums"
CHECKPOINT, CHECKPOINTED = "checkpoint", "checkpoint, inputs offloaded"
SAVING = "checkpoint, inputs saved"  # the same kind of checkpoint as CHECKPOINTED's
LEAST_DRAM = 64 << 20


@dataclass(frozen=True)
class Contender:
    name: str
    kind: str
    settings: dict = field(default_factory=dict)
    says: str = ""


def lineup(place, dram_bytes, pool, plain_peak_bytes):
    """`plain_peak_bytes` of plain's step: with a quarter of it as host memory, most goes to the drive."""
    def terrace(name, says, **settings):
        known = {"budget": dram_bytes, "tiers": ("dram",), "compress": "off", "limit": None, "device": place.spec}
        return Contender(name, "terrace", known | settings, says)

    compressing = terrace(AUTO, "everything to host memory, compressed where that pays", compress="auto")
    return [
        Contender(AGAIN, "plain", says="plain against itself: the noise"),
        Contender("save_on_cpu", "save_on_cpu", says="torch.autograd.graph.save_on_cpu, pinned" if place.is_cuda else
                  "what save_on_cpu does, over the emulated links"),
        Contender("streams", "streams", says="stream offload in torchtune's published order, stash of 5, one node ahead, written anew"),
        Contender(CHECKPOINT, "checkpoint", says="torch.utils.checkpoint around every block"),
        Contender(SAVING, "checkpoint of inputs", says="the same, of the kind that saves its inputs where a hook sees them"),
        Contender(CHECKPOINTED, "checkpoint+", {"budget": dram_bytes, "compress": "off", "limit": None, "device": place.spec,
                  "only": "checkpoints"}, "checkpoints of that kind, whose inputs go to host memory"),
        terrace(DRAM, "everything to host memory"),
        terrace(SUMMED, "everything to host memory, where each byte is summed on both ways (checksums='all')", checksums="all"),
        terrace(NVME, "host memory of a quarter of plain's peak, the rest to the drive", tiers=("dram", "nvme"),
                budget=max(LEAST_DRAM, plain_peak_bytes // 4), directory=str(pool)),
        compressing,
        terrace(FITS, "the limit is the device, and the job fits", limit="auto"),
    ]


def chosen(contenders, prefixes):
    """By the beginnings of their names; a whole name is that one alone. Raises ValueError for what is nobody's."""
    if not prefixes:
        return contenders
    wanted = set()
    for prefix in prefixes:
        names = [contender.name for contender in contenders]
        found = [name for name in names if name == prefix] or [name for name in names if name.startswith(prefix)]
        if not found:
            raise ValueError(f"no contender begins with {prefix!r}; there are: {', '.join(names)}")
        wanted |= set(found)
    return [contender for contender in contenders if contender.name in wanted]
