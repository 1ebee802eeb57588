"""The findings of `terrace bench gpu` as a text for people; programs read the document itself.

A ratio is always contender over plain of step times: below 1 is faster. What is not known is '-'.
"""
from sizes import format_size
from targets import NOT_ASKED_FOR

GIGA = 1e9


def text(document):
    parts = [heading(document), steps(document.get("steps")), policies(document.get("policies")), fetches(document.get("fetches")), speeds("copies", document.get("copies"), "pinned copy"),
             speeds("drive", document.get("drive"), "bare drive or link"), largest(document.get("largest")),
             heap(document.get("heap")), targets(document["targets"]), context(document["context"]), foot(document)]
    return "\n\n".join(part for part in parts if part)


def heading(document):
    device = document["device"]
    lines = [f"terrace bench gpu on {device['name']} ({device['spec']})"]
    return "\n".join(lines + ([device["note"]] if "note" in device else []))


def steps(section):
    if not section or "entries" not in section:
        return failed("steps", section)
    network, plain = section["network"], section["plain"]
    lines = ["training steps, beside plain in turns: " + ", ".join(f"{name} {value}" for name, value in network.items()),
             f"plain: peak {peaks(plain)}"]
    rows = [("", "to plain", "spread", "s/step", "peak", "lower", "handed back", "identical"), *map(step_row, section["entries"])]
    said = [f"  {entry['contender']}: {line}" for entry in section["entries"]
            for line in [*filter(None, [entry.get("failure")]), *entry.get("said", [])]]
    return "\n".join(lines + columns(rows) + said)


def step_row(entry):
    if "failure" in entry:
        return (entry["contender"], *"-------")
    spread = entry.get("ratio_spread")
    return (entry["contender"], f"{entry['ratio_to_plain']:.3f}", "-" if spread is None else f"{spread:.3f}",
            f"{entry['step_seconds']:.3f}", peaks(entry), f"{entry['peak_reduction']:.0%}",
            str(entry.get("handed_back", "-")), "yes" if entry["bit_identical"] else "NO")


def peaks(entry):
    reserved = entry.get("peak_reserved_bytes")
    return format_size(entry["peak_allocated_bytes"]) + (f" ({format_size(reserved)} reserved)" if reserved else "")


def policies(section):
    if not section or "entries" not in section:
        return failed("policies", section)
    rows = [("", "to heuristic", "spread", "s/step", "waited", "heuristic's", "peak", "heuristic's", "identical"),
            *map(policy_row, section["entries"])]
    said = [f"  {entry['shape']}: {entry.get('failure') or entry['plan']}" for entry in section["entries"]]
    return "\n".join([f"planned steps ({section['policy']}) beside the heuristic's in turns", *columns(rows), *said])


def policy_row(entry):
    if "failure" in entry:
        return (entry["shape"], *"--------")
    heuristic, planned, spread = entry["heuristic"], entry["planned"], entry.get("ratio_spread")
    return (entry["shape"], f"{entry['ratio_to_heuristic']:.3f}", "-" if spread is None else f"{spread:.3f}",
            f"{planned['step_seconds']:.3f}", f"{planned['wait_seconds'] * 1e3:.1f} ms",
            f"{heuristic['wait_seconds'] * 1e3:.1f} ms", peaks(planned), peaks(heuristic),
            "yes" if entry["bit_identical"] else "NO")


def speeds(name, section, bare):
    if not section or "ways" not in section:
        return failed(name, section)
    rows = [("", bare, "engine", "share")]
    rows += [(way.replace("_", " "), rate(facts["bare_bytes_per_second"]), rate(facts["engine_bytes_per_second"]),
              f"{facts['share']:.0%}") for way, facts in section["ways"].items()]
    size = f"{section['tensors']} tensors of {format_size(section['tensor_bytes'])}, {section.get('path', '')}"
    return "\n".join([f"{name}: {size}", *columns(rows)])


def fetches(section):
    if not section or "entries" not in section:
        return failed("fetches", section)
    rows = [("back to the device, by size", "pinned copy", "engine", "share")]
    for entry in section["entries"]:
        facts = ("-", "-", entry["failure"]) if "failure" in entry else (
            rate(entry["bare_bytes_per_second"]), rate(entry["engine_bytes_per_second"]), f"{entry['share']:.0%}")
        rows.append((f"{entry['tensors']} of {format_size(entry['tensor_bytes'])}", *facts))
    return "\n".join(["fetches:", *columns(rows)])


def rate(bytes_per_second):
    return f"{bytes_per_second / GIGA:.2f} GB/s"


def largest(section):
    if not section or "factor" not in section:
        return failed("largest batch", section)
    return (f"largest batch in {format_size(section['memory_bytes'])}: plain {section['plain_batch']}, terrace "
            f"{section['terrace_batch']}, {section['factor']:.1f} times")


def heap(section):
    if section and "replay" in section:
        return replay(section["replay"])
    if not section or "nanoseconds" not in section:
        return failed("heap", section)
    ours, theirs = section["nanoseconds"]["terrace"], section["nanoseconds"]["pytorch"]
    rows = [("bytes", "PyTorch", "Terrace")] + [(size, f"{theirs[size]:.0f} ns", f"{ours[size]:.0f} ns") for size in ours]
    return "\n".join(["heap: one allocation and its free", *columns(rows)])


def replay(report):
    rows = [("", "ns a call", "in use at the peak", "over time", "driver calls")]
    for name, facts in (("Terrace", report["terrace"]), ("PyTorch's rules, simulated", report["pytorch_simulated"])):
        steady = facts["second_pass"]
        rows.append((name, f"{facts['ns_per_call']:.0f}", f"{steady['utilisation_at_peak']:.1%}",
                     f"{steady['utilisation_over_time']:.1%}", f"{steady['driver_calls']}"))
    return "\n".join([f"heap: a recorded job's {report['calls']} calls replayed, the second time", *columns(rows)])


def targets(judged):
    """Those of the sections that were asked for."""
    lines = [f"  {item['verdict']:<16}  {item['claim']}: {item.get('measured') or item.get('why')} ({item['target']})"
             for item in judged if item.get("why") != NOT_ASKED_FOR]
    return "\n".join(["targets:", *lines])


def context(figures):
    return "\n".join(["published elsewhere, not measured here:",
                      *(f"  {item['figure']}: {item['source']}" for item in figures)])


def failed(name, section):
    return f"{name}: {section.get('failure') or section.get('skipped')}" if section else None


def columns(rows):
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  " + "  ".join(cell.ljust(width) if column == 0 else cell.rjust(width)
                             for column, (cell, width) in enumerate(zip(row, widths))).rstrip() for row in rows]


def foot(document):
    where = document["machine"]
    facts = [where.get("cpu"), f"{where['cores']} cores" if "cores" in where else None,
             f"{document['threads']} computing", format_size(where.get("memory_bytes")),
             f"Linux {where['kernel']}" if "kernel" in where else None, f"PyTorch {document['torch']}",
             f"commit {document['commit']}" if "commit" in document else None]
    return ", ".join(fact for fact in facts if fact)
