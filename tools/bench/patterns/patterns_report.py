"""The result of a comparison of patterns under a limit: one document for programs, one table for people.

Rows are those of a training comparison (report.py); beside them stand what the disk was given, and the targets. Where
plans are compared, the first policy is judged.
"""
import report
import targets
from pattern_list import LIMITED
from report import middle, number
from sizes import format_size

HEADINGS = ("", "limit", "peak", "s/step", "all steps", "to stock", "to swap", "written", "read", "disk wr.", "disk rd.", "equal")


def document(name, comparisons):
    """`comparisons`: one for each case, in the order of the table."""
    cases = [case_of(name, comparison) for comparison in comparisons]
    equal = all(entry.get("bit_identical", True) for case in cases for entry in case["entries"])
    return {"format": "terrace-bench-patterns", "version": 1, "pattern": name, "all_equal": equal, "cases": cases}


def case_of(name, comparison):
    case = report.model_entry(comparison, no_limit=False)
    case["case"] = case.pop("model")
    data_bytes = comparison.runs[0][1].result["data_bytes"]
    wanted = []
    for fraction in comparison.arguments.fractions:
        at = targets.entries_at(case["entries"], fraction)
        if targets.judged(at) is None:
            continue
        wanted += wanted_at(case, fraction, data_bytes if case["case"] in LIMITED[name].only_reads else None)
        wanted += wanted_of_plans(case, fraction, LIMITED[name], data_bytes)
    return case | {"data_bytes": data_bytes, "targets": wanted}


def wanted_at(case, fraction, only_read_bytes):
    at = targets.entries_at(case["entries"], fraction)
    ours = at[targets.judged(at)]
    place = f"{case['case']} at {fraction}%"
    if "swap" in at:
        no_step = "step_seconds_median" not in at["swap"]
        yield targets.at_most(f"{place}: step, to kernel swap" + (", which made none" if no_step else ""),
                              ours.get("ratio_to_swap"), 1, known_verdict(ours, no_step))
    if only_read_bytes:
        written = middle([run.get("moved", {}) for run in ours["runs"]], "written_bytes")
        times = None if written is None else written / only_read_bytes
        yield targets.at_most(f"{place}: written, times the data", times, 1)


def wanted_of_plans(case, fraction, pattern, data_bytes):
    at = targets.entries_at(case["entries"], fraction)
    ours, place = at[targets.judged(at)], f"{case['case']} at {fraction}%"
    facts = ours if ours.get("bit_identical") else {}
    if pattern.most_to_bound:
        yield targets.at_most(f"{place}: step, to the drive's bound", facts.get("ratio_to_bound"), pattern.most_to_bound)
        lacks = max(data_bytes - ours.get("limit_bytes", data_bytes), 0)
        read = facts.get("read_bytes_per_step")
        yield targets.at_most(f"{place}: read in a step, times what does not fit", read / lacks if read is not None and lacks else None, 1.1)
    if pattern.never_periodic:
        yield targets.at_most(f"{place}: steps that were seen", facts.get("known_steps"), 0)
        if targets.planned(at):
            yield targets.at_most(f"{place}: step, to reactive", facts.get("ratio_to_reactive"), 1)


def known_verdict(terrace, no_step):
    """Whoever failed misses, however fast the steps were until then; a baseline without a step has lost to whoever
    finished. None: the ratio decides."""
    if not terrace.get("bit_identical", False):
        return False
    return True if no_step else None


def table(result):
    lines = []
    for case in result["cases"]:
        lines += ["", " ".join([case["case"], *case["arguments"]])]
        lines += report.aligned(report.with_scheduling(HEADINGS, row, case["entries"]))
        lines += [f"  {report.label(item)}: {text}" for item in case["entries"] for text in item.get("failures", [])]
        lines += [f"  {report.label(item)}: killed for memory {item['killed_before']} times before it finished or was given up"
                  for item in case["entries"] if "killed_before" in item]
        lines += report.bound_lines(case)
        lines += targets.lines(case["targets"]) if case["targets"] else []
    return "\n".join([*lines[1:], "", report.foot(result)])


def row(item):
    moved = [run.get("moved", {}) for run in item["runs"]]
    return (report.label(item), format_size(item.get("limit_bytes")), format_size(item.get("peak_bytes")),
            seconds(item.get("step_seconds_median")), seconds(item.get("step_seconds_median_with_first")),
            number(item.get("ratio_to_stock"), 2), number(item.get("ratio_to_swap"), 2),
            *(format_size(middle(moved, name)) for name in ("written_bytes", "read_bytes", "disk_written_bytes", "disk_read_bytes")),
            report.verdict(item))


def seconds(value):
    return "-" if value is None else f"{value:.4g}"
