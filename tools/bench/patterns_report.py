"""The result of a comparison of patterns under a limit: one document for programs, one table for people.

Rows are those of a training comparison (report.py); beside them stand what the disk was given, and the targets.
"""
import report
import targets
from pattern_list import LIMITED
from report import middle, number
from sizes import format_size

HEADINGS = ("", "limit", "peak", "s/step", "incl. 1st", "to stock", "to swap", "written", "read", "disk wr.", "disk rd.", "equal")


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
        wanted += wanted_at(case, fraction, data_bytes if case["case"] in LIMITED[name].only_reads else None,
                            LIMITED[name].most_to_stock)
    return case | {"data_bytes": data_bytes, "targets": wanted}


def wanted_at(case, fraction, only_read_bytes, most_to_stock=None):
    at = {item["competitor"]: item for item in case["entries"] if item.get("percent_of_stock_peak") == fraction}
    place = f"{case['case']} at {fraction}%"
    if "swap" in at:
        no_step = "step_seconds_median" not in at["swap"]
        yield targets.at_most(f"{place}: step, to kernel swap" + (", which made none" if no_step else ""),
                              at["terrace"].get("ratio_to_swap"), 1, known_verdict(at["terrace"], no_step))
    if most_to_stock:
        yield targets.at_most(f"{place}: step, to stock", at["terrace"].get("ratio_to_stock"), most_to_stock, known_verdict(at["terrace"], False))
    if only_read_bytes:
        written = middle([run.get("moved", {}) for run in at["terrace"]["runs"]], "written_bytes")
        times = None if written is None else written / only_read_bytes
        yield targets.at_most(f"{place}: written, times the data", times, 1)


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
        lines += report.aligned([HEADINGS, *(row(item) for item in case["entries"])])
        lines += [f"  {report.label(item)}: {text}" for item in case["entries"] for text in item.get("failures", [])]
        lines += [f"  {report.label(item)}: killed for memory {item['killed_before']} times before it finished or was given up"
                  for item in case["entries"] if "killed_before" in item]
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
