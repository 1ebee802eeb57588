"""What the GPU side promises, judged by what was measured: met, missed, or not measured, and why.

A ratio's verdict takes the noise with it, the larger of the rounds' spread and of what plain differs from itself in
another process: where the target lies within it, or the rounds were too few, the verdict is "within the noise".
"""
from lineup import AGAIN, AUTO, CHECKPOINT, CHECKPOINTED, DRAM, FITS, NVME, SAVING

COPY_SHARE = 0.90
PEAK_REDUCTION, LONGER = 0.58, 1.03
FITTING = 1.01
BATCHES = 12.0
NOT_ASKED_FOR = "not measured in this run"

# Published, on other machines; nothing here was compared with them by running them.
CONTEXT = (
    {"figure": "58% lower peak at about 5.7% longer steps (copies that block: 6.8 times as long)",
     "source": "DeepSpeed's activation offload engine, microbenchmark on one H200; commit 858e91eea"},
    {"figure": "about 9.3 GB/s of copies, and 42% longer steps when a job that fits is offloaded all the same",
     "source": "DeepSpeed, DeepCompile's activation offload, Qwen3-14B on 8 H200; commit 9a297cfa7"},
    {"figure": "12.4 to 14.0 times the batch",
     "source": "FlashNeuron, FAST 2021 (V100 with Optane and flash drives)"},
)


def judge(document):
    """A list of {"claim", "target", "measured", "verdict", "why"}, absent where there is nothing to say."""
    return [*of_steps(document.get("steps", {})), *of_copies(document.get("copies", {})),
            *of_drive(document.get("drive", {})), of_largest(document.get("largest", {})),
            of_heap(document.get("heap", {}))]


def of_steps(section):
    entries = {entry["contender"]: with_noise(entry, section) for entry in section.get("entries", [])}
    return [of_bits(section), of_peak(entries.get(DRAM), section), of_checkpointing(entries), of_both(entries),
            of_ratio("at most 1% longer steps when it fits", FITTING, entries.get(FITS), section),
            of_ratio("at most 3% longer steps with most on the drive", LONGER, entries.get(NVME), section),
            of_ratio("at most 3% longer steps with compression left to choose", LONGER, entries.get(AUTO), section)]


def with_noise(entry, section):
    again = next((each for each in section["entries"] if each["contender"] == AGAIN), {})
    if "ratio_spread" not in entry:
        return entry
    return entry | {"noise": max(entry["ratio_spread"], abs(again.get("ratio_to_plain", 1.0) - 1.0))}


def of_bits(section):
    entries = [entry for entry in section.get("entries", []) if "bit_identical" in entry]
    if not entries:
        return verdict("losses and parameters equal to plain's to the last bit", "all", why=reason(section))
    differ = [entry["contender"] for entry in entries if not entry["bit_identical"]]
    return verdict("losses and parameters equal to plain's to the last bit", "all",
                   f"{len(entries) - len(differ)} of {len(entries)}", not differ,
                   why=f"differ: {', '.join(differ)}" if differ else None)


def of_peak(entry, section):
    claim, target = "lower peak on a model that is mostly activations", "58% lower, at most 3% longer steps"
    if not entry or "failure" in entry:
        return verdict(claim, target, why=reason(entry or section))
    lower, ratio = entry["peak_reduction"], entry["ratio_to_plain"]
    measured = f"{lower:.0%} lower, {ratio_text(entry)}"
    met = met_within(ratio, entry.get("noise"), LONGER) if lower >= PEAK_REDUCTION else False
    return verdict(claim, target, measured, met)


def of_checkpointing(entries):
    claim, target = "not above checkpointing in time or peak", "at most its step and its peak"
    ours, theirs = entries.get(DRAM, {}), entries.get(CHECKPOINT, {})
    if "ratio_to_plain" not in ours or "ratio_to_plain" not in theirs:
        return verdict(claim, target, why=reason(ours if "failure" in ours else theirs))
    time, peak = (ours[name] / theirs[name] for name in ("ratio_to_plain", "peak_allocated_bytes"))
    return verdict(claim, target, f"{time:.2f} of its step, {peak:.2f} of its peak", time <= 1 and peak <= 1)


def of_both(entries):
    claim, target = "with checkpointing, not above checkpointing of that kind in peak", "at most its peak"
    ours, theirs = entries.get(CHECKPOINTED, {}), entries.get(SAVING, {})
    if "ratio_to_plain" not in ours or "ratio_to_plain" not in theirs:
        return verdict(claim, target, why=reason(ours if "failure" in ours else theirs))
    time, peak = (ours[name] / theirs[name] for name in ("ratio_to_plain", "peak_allocated_bytes"))
    return verdict(claim, target, f"{peak:.2f} of its peak, {time:.2f} of its step", peak <= 1)


def of_ratio(claim, limit, entry, section):
    target = f"at most {limit:.2f} of plain's step"
    if not entry or "failure" in entry:
        return verdict(claim, target, why=reason(entry or section))
    met = met_within(entry["ratio_to_plain"], entry.get("noise"), limit)
    return verdict(claim, target, ratio_text(entry), met)


def ratio_text(entry):
    noise = entry.get("noise")
    return f"{entry['ratio_to_plain']:.3f} of plain's step (noise {'-' if noise is None else f'{noise:.3f}'})"


def of_copies(section):
    names = {"to_host": "to the host", "to_device": "to the device", "both": "both ways at once"}
    return [of_share(f"copies {words} as fast as bare pinned ones", "their rate", section, way)
            for way, words in names.items()]


def of_drive(section):
    return [of_share(f"{words} the drive as fast as bare direct I/O", "the slower of drive and link", section, way)
            for way, words in (("write", "writes"), ("read", "reads"))]


def of_share(claim, whose, section, way):
    target = f"at least {COPY_SHARE:.0%} of {whose}"
    if "ways" not in section:
        return verdict(claim, target, why=reason(section))
    share = section["ways"][way]["share"]
    return verdict(claim, target, f"{share:.0%}", share >= COPY_SHARE)


def of_largest(section):
    claim, target = "largest batch in the same memory", f"{BATCHES:.0f} times plain's"
    if "factor" not in section:
        return verdict(claim, target, why=reason(section))
    return verdict(claim, target, f"{section['factor']:.1f} times ({section['terrace_batch']} to "
                   f"{section['plain_batch']})", section["factor"] >= BATCHES)


def of_heap(section):
    claim, target = "heap calls at least as fast as PyTorch's caching allocator", "at most its time, each size"
    if "nanoseconds" not in section:
        return verdict(claim, target, why="needs a GPU" if "replay" in section else reason(section))
    ours, theirs = section["nanoseconds"]["terrace"], section["nanoseconds"]["pytorch"]
    worst = max(ours, key=lambda size: ours[size] / theirs[size])
    return verdict(claim, target, f"at worst {ours[worst] / theirs[worst]:.2f} of it (size {worst})",
                   ours[worst] <= theirs[worst])


def met_within(value, spread, limit):
    """True, False, or None where the spread does not let it be decided."""
    if spread is None:
        return None
    if value + spread <= limit:
        return True
    return False if value - spread > limit else None


def reason(section):
    return section.get("failure") or section.get("skipped") or NOT_ASKED_FOR


def verdict(claim, target, measured=None, met=None, why=None):
    word = {True: "met", False: "missed", None: "within the noise"}[met] if measured else "not measured"
    facts = {"claim": claim, "target": target, "measured": measured, "verdict": word, "why": why}
    return {name: value for name, value in facts.items() if value is not None}
