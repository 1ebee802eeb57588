"""The result of a training comparison: one document for programs, one table for people.

Seconds and bytes in the document, IEC units in the table; what is not known is left out of the first and shown
as '-' in the second. A ratio is always competitor over baseline of step times: below 1 is faster.
"""
from statistics import median

import targets
import training_targets
from competitors import typical_step
from sizes import format_size


CODECS = ("zvc", "zvc_exp", "rle", "csr8")


def document(comparisons, mode):
    models = [model_entry(comparison, mode == "no-limit") for comparison in comparisons]
    models = [model | present(targets=training_targets.wanted(model) or None) for model in models]
    verdicts = [entry.get("bit_identical", True) for model in models for entry in model["entries"]]
    return {"format": "terrace-bench-training", "version": 1, "mode": mode,
            "all_bit_identical": all(verdicts), "models": models}


def model_entry(comparison, no_limit):
    reference = comparison.runs[0][1]
    stock = comparison.outcomes("stock")
    entries = [entry(reference, stock, "stock", None, stock)]
    for fraction in [100] if no_limit else comparison.arguments.fractions:
        for competitor in dict.fromkeys(outcome.competitor for at, outcome in comparison.runs if at == fraction):
            if competitor == "stock":
                continue
            outcomes = comparison.outcomes(competitor, fraction)
            if outcomes:
                entries.append(entry(reference, stock, competitor, fraction, outcomes))
        compare_with_swap(entries, fraction)
        compare_with_off(entries, comparison, fraction)
        compare_with_chosen(entries, comparison, fraction)
    if no_limit:
        entries[1] |= present(ratio_to_stock=paired_ratio(stock[1:], comparison.outcomes("preload")))
    return {"model": comparison.model, "arguments": comparison.workload, "stock_peak_bytes": reference.peak_bytes,
            "entries": entries}


def entry(reference, stock, competitor, fraction, outcomes):
    judged = [outcome for outcome in outcomes if not outcome.died_as_baseline()]
    step, with_first = typical_step(outcomes), typical_step(outcomes, first=0)
    more_than = least_step_seconds(reference, outcomes)
    facts = present(
        competitor=competitor, percent_of_stock_peak=fraction, limit_bytes=outcomes[0].limit_bytes,
        step_seconds_median=step, step_seconds_median_with_first=with_first,
        ratio_to_stock=ratio(step, typical_step(stock)), ratio_to_stock_with_first=ratio(with_first, typical_step(stock, first=0)),
        step_seconds_more_than=more_than, ratio_to_stock_more_than=ratio(more_than, typical_step(stock)),
        peak_bytes=max((outcome.peak_bytes or 0 for outcome in outcomes), default=None) or None,
        bit_identical=all(outcome.digest() == reference.digest() for outcome in judged) if judged else None,
        killed_before=sum(outcome.killed_before for outcome in outcomes) or None,
        failures=[outcome.failure for outcome in outcomes if outcome.failure] or None,
    )
    facts["runs"] = [present(step_seconds=outcome.step_seconds(), wall_seconds=outcome.wall_seconds,
                             peak_bytes=outcome.peak_bytes, moved=outcome.moved or None) for outcome in outcomes]
    return facts


def least_step_seconds(reference, outcomes):
    """What a step takes at least, on average and with its share of the program's start, where no run finished and
    some were ended for their time: they wanted as many steps as the reference made. None: the medians say what it takes."""
    ended = [outcome.given_seconds for outcome in outcomes if outcome.timed_out]
    if not ended or any(outcome.result for outcome in outcomes):
        return None
    return max(ended) / len(reference.result["steps"])


def compare_with_swap(entries, fraction):
    at = {item["competitor"]: item for item in entries if item.get("percent_of_stock_peak") == fraction}
    if "terrace" in at and "swap" in at:
        step = at["terrace"].get("step_seconds_median")
        at["terrace"] |= present(ratio_to_swap=ratio(step, at["swap"].get("step_seconds_median")),
                                 ratio_to_swap_less_than=ratio(step, at["swap"].get("step_seconds_more_than")))


def compare_with_off(entries, comparison, fraction):
    """Round by round, as the machine drifts; and by how much less was written, beside what the codecs saved."""
    off = comparison.outcomes("compress off", fraction)
    for item in entries:
        if item.get("percent_of_stock_peak") != fraction or not item["competitor"].startswith(("compress ", "kept ")):
            continue
        item |= present(ratio_to_off=paired_ratio(off, comparison.outcomes(item["competitor"], fraction)),
                        codec_ratio=codec_ratio(run.get("moved", {}) for run in item["runs"]))


def compare_with_chosen(entries, comparison, fraction):
    """What the advisor chose, by each of its alternatives, round by round."""
    chosen = comparison.outcomes("compress auto", fraction)
    for item in entries:
        if item.get("percent_of_stock_peak") != fraction or item["competitor"] in ("terrace", "swap", "compress auto"):
            continue
        ratios = round_ratios(comparison.outcomes(item["competitor"], fraction), chosen)
        item |= present(chosen_by_this=median(ratios) if ratios else None, chosen_by_this_rounds=ratios or None)


def codec_ratio(moved):
    """Bytes of content by bytes of frames, over all codecs and runs."""
    moved = list(moved)
    content, frames = (sum(counters.get(f"{codec}_{what}", 0) for counters in moved for codec in CODECS)
                       for what in ("content_bytes", "frame_bytes"))
    return ratio(content, frames)


def paired_ratio(stock, preload):
    """Median over the pairs of neighbours: drift of the machine between the pairs drops out."""
    ratios = round_ratios(stock, preload)
    return median(ratios) if ratios else None


def round_ratios(baseline, ours):
    """Of step times, a round each; none where a run failed."""
    ratios = [ratio(typical_step([mine]), typical_step([theirs])) for theirs, mine in zip(baseline, ours)]
    return [] if None in ratios else ratios


def present(**facts):
    return {name: value for name, value in facts.items() if value is not None}


def ratio(ours, baseline):
    return ours / baseline if ours and baseline else None


def progress(model, fraction, outcome):
    place = f" at {fraction}%" if fraction else ""
    if outcome.failure:
        return f"{model} {outcome.competitor}{place}: {outcome.failure}"
    return (f"{model} {outcome.competitor}{place}: {typical_step([outcome]):.3f} s a step, "
            f"peak {format_size(outcome.peak_bytes)}")


HEADINGS = ("", "limit", "peak", "s/step", "incl. 1st", "to stock", "to swap", "to off", "ratio", "moved out", "written", "read", "identical")


def table(result):
    lines = []
    for model in result["models"]:
        lines += ["", " ".join([model["model"], *model["arguments"][2:]])]
        lines += aligned([HEADINGS, *(row(item) for item in model["entries"])])
        lines += [f"  {label(item)}: {text}" for item in model["entries"] for text in item.get("failures", [])]
        lines += chosen_lines(model["entries"])
        lines += targets.lines(model["targets"]) if "targets" in model else []
    lines += ["", foot(result)]
    return "\n".join(lines[1:])


def aligned(rows):
    """One line a row, its cells under the heading's: names to the left, figures to the right."""
    widths = [max(len(cells[column]) for cells in rows) for column in range(len(rows[0]))]
    return ["  ".join(pad(cell, width, column) for column, (cell, width) in enumerate(zip(cells, widths))).rstrip()
            for cells in rows]


def chosen_lines(entries):
    """`compress auto` by its alternatives: the median of the rounds, and the lowest and highest."""
    for item in entries:
        if "chosen_by_this" not in item:
            continue
        rounds = item["chosen_by_this_rounds"]
        yield (f"  compress auto takes {item['chosen_by_this']:.3f} of {item['competitor'].removeprefix('compress ')}'s step "
               f"at {item['percent_of_stock_peak']}% ({min(rounds):.3f} to {max(rounds):.3f} in {len(rounds)} rounds)")


def pad(cell, width, column):
    return cell.ljust(width) if column == 0 else cell.rjust(width)


def label(item):
    percent = item.get("percent_of_stock_peak")
    return item["competitor"] + (f" {percent}%" if percent and "limit_bytes" in item else "")


def row(item):
    moved = [run.get("moved", {}) for run in item["runs"]]
    return (label(item), format_size(item.get("limit_bytes")), format_size(item.get("peak_bytes")),
            bounded(item, "step_seconds_median", ">", "step_seconds_more_than", 3),
            bounded(item, "step_seconds_median_with_first", ">", "step_seconds_more_than", 3),
            bounded(item, "ratio_to_stock", ">", "ratio_to_stock_more_than", 2),
            bounded(item, "ratio_to_swap", "<", "ratio_to_swap_less_than", 2),
            number(item.get("ratio_to_off"), 2), number(item.get("codec_ratio"), 2),
            format_size(middle(moved, "evicted_bytes")), format_size(middle(moved, "written_bytes")), format_size(middle(moved, "read_bytes")),
            verdict(item))


def verdict(item):
    return {True: "yes", False: "NO", None: "-"}[item.get("bit_identical")]


def bounded(item, name, sign, bound, digits):
    """The figure, or the bound beyond which it lies where that is all that is known."""
    return sign + number(item[bound], digits) if bound in item else number(item.get(name), digits)


def number(value, digits):
    return "-" if value is None else f"{value:.{digits}f}"


def middle(moved, name):
    values = [counters[name] for counters in moved if name in counters]
    return median(values) if values else None


def foot(result):
    where = result.get("machine", {})
    facts = [where.get("cpu"), f"{where['cores']} cores" if "cores" in where else None,
             format_size(where.get("memory_bytes")), f"Linux {where['kernel']}" if "kernel" in where else None,
             f"commit {result['commit']}" if "commit" in result else None]
    return ", ".join(fact for fact in facts if fact)
