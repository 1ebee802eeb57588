"""The result of a training comparison: one document for programs, one table for people.

Seconds and bytes in the document, IEC units in the table; what is not known is left out of the first and shown
as '-' in the second. A ratio is always competitor over baseline of step times: below 1 is faster.
"""
from statistics import median

import drive_speed
import steady
import targets
import training_targets
from competitors import typical_step
from sizes import format_size


CODECS = ("zvc", "zvc_exp", "rle", "csr8")


def document(comparisons, mode):
    models = [model_entry(comparison, mode == "no-limit") for comparison in comparisons]
    wanted = training_targets.wanted if mode != "phases" else training_targets.wanted_of_phases
    models = [model | present(targets=list(wanted(model)) or None) for model in models]
    verdicts = [entry.get("bit_identical", True) for model in models for entry in model["entries"]]
    return {"format": "terrace-bench-training", "version": 1, "mode": mode,
            "all_bit_identical": all(verdicts), "models": models,
            **present(targets=list(training_targets.wanted_of_all(models)) or None)}


def model_entry(comparison, no_limit):
    reference = comparison.runs[0][1]
    stock = comparison.outcomes("stock")
    entries = [entry(comparison, stock, "stock", None, stock)]
    for fraction in [100] if no_limit else comparison.arguments.fractions:
        for competitor in dict.fromkeys(outcome.competitor for at, outcome in comparison.runs if at == fraction):
            if competitor == "stock":
                continue
            outcomes = comparison.outcomes(competitor, fraction)
            if outcomes:
                entries.append(entry(comparison, stock, competitor, fraction, outcomes))
        compare_with_swap(entries, fraction)
        compare_with_reactive(entries, comparison, fraction)
        compare_with_off(entries, comparison, fraction)
        compare_with_chosen(entries, comparison, fraction)
        compare_with_drive(entries, comparison, fraction)
    if no_limit:
        entries[1] |= present(ratio_to_stock=paired_ratio(stock[1:], comparison.outcomes("preload")))
    return {"model": comparison.model, "arguments": comparison.workload, "stock_peak_bytes": reference.peak_bytes,
            "warm_up_steps": reference.warm_up, **present(drive_speeds=comparison.drive_speeds or None), "entries": entries}


def entry(comparison, stock, competitor, fraction, outcomes):
    reference = comparison.runs[0][1]
    judged = [outcome for outcome in outcomes if not outcome.died_as_baseline()]
    step, with_first = typical_step(outcomes), typical_step(outcomes, with_first=True)
    more_than = least_step_seconds(reference, outcomes)
    facts = present(
        competitor=competitor, percent_of_stock_peak=fraction, limit_bytes=outcomes[0].limit_bytes,
        step_seconds_median=step, step_seconds_median_with_first=with_first,
        ratio_to_stock=ratio(step, typical_step(stock)), ratio_to_stock_with_first=ratio(with_first, typical_step(stock, with_first=True)),
        step_seconds_more_than=more_than, ratio_to_stock_more_than=ratio(more_than, typical_step(stock)),
        peak_bytes=max((outcome.peak_bytes or 0 for outcome in outcomes), default=None) or None,
        bit_identical=all(outcome.digest() == reference.digest() for outcome in judged) if judged else None,
        killed_before=sum(outcome.killed_before for outcome in outcomes) or None,
        failures=[outcome.failure for outcome in outcomes if outcome.failure] or None,
    )
    facts |= comparison.bound_seconds(outcomes[0].limit_bytes)
    facts |= present(ratio_to_bound=ratio(step, facts.get("bound_seconds")), phase_seconds_median=phase_seconds(outcomes) or None)
    facts |= steady_facts(outcomes)
    facts["runs"] = [present(step_seconds=outcome.step_seconds(), wall_seconds=outcome.wall_seconds,
                             peak_bytes=outcome.peak_bytes, moved=outcome.moved or None,
                             steady=outcome.steady or None) for outcome in outcomes]
    return facts


def steady_facts(outcomes):
    """Medians over the runs, of what their counted steps moved and waited for; of what is no number the last one's."""
    found = [steady.facts_of(outcome.steady, typical_step([outcome])) for outcome in outcomes]
    facts = {}
    for name in dict.fromkeys(name for one in found for name in one):
        values = [one[name] for one in found if name in one]
        facts[name] = median(values) if steady.is_number(values[0]) else values[-1]
    if "predicted_step_seconds" in facts and typical_step(outcomes):
        facts["predicted_error"] = typical_step(outcomes) / facts["predicted_step_seconds"] - 1
    return facts


def phase_seconds(outcomes):
    """Of programs whose steps have parts: the median of each part, by name, without the warm-up."""
    parts = {}
    for outcome in outcomes:
        for step in outcome.result["steps"][outcome.warm_up:] if outcome.result else []:
            for name, seconds in step.get("phases", {}).items():
                parts.setdefault(name, []).extend(seconds)
    return {name: median(seconds) for name, seconds in parts.items()}


def least_step_seconds(reference, outcomes):
    """What a step takes at least, on average and with its share of the program's start, where no run finished and
    some were ended for their time: they wanted as many steps as the reference made. None: the medians say what it takes."""
    ended = [outcome.given_seconds for outcome in outcomes if outcome.timed_out]
    if not ended or any(outcome.result for outcome in outcomes):
        return None
    return max(ended) / len(reference.result["steps"])


def compare_with_swap(entries, fraction):
    at = targets.entries_at(entries, fraction)
    for name in targets.ours(at) if "swap" in at else []:
        step = at[name].get("step_seconds_median")
        at[name] |= present(ratio_to_swap=ratio(step, at["swap"].get("step_seconds_median")),
                            ratio_to_swap_less_than=ratio(step, at["swap"].get("step_seconds_more_than")))


def compare_with_reactive(entries, comparison, fraction):
    """Steps round by round, as the machine drifts."""
    at = targets.entries_at(entries, fraction)
    for name in targets.planned(at):
        reactive = at["reactive"]
        steps = paired_ratio(comparison.outcomes("reactive", fraction), comparison.outcomes(name, fraction))
        written = [item.get("written_bytes_per_step") for item in (at[name], reactive)]
        at[name] |= present(ratio_to_reactive=steps, written_to_reactive=written[0] / written[1] if None not in written and written[1] else None)


def compare_with_off(entries, comparison, fraction):
    """Round by round, as the machine drifts; and by how much less was written, beside what the codecs saved."""
    off = comparison.outcomes("compress off", fraction)
    for item in entries:
        if item.get("percent_of_stock_peak") != fraction or not item["competitor"].startswith(("compress ", "kept ")):
            continue
        item |= present(ratio_to_off=paired_ratio(off, comparison.outcomes(item["competitor"], fraction)),
                        codec_ratio=codec_ratio(run.get("moved", {}) for run in item["runs"]))


def compare_with_drive(entries, comparison, fraction):
    """NVM before the drive, beside the drive alone, round by round; and what NVM it was."""
    alone = comparison.outcomes("drive alone", fraction)
    for item in entries:
        if item.get("percent_of_stock_peak") != fraction or item["competitor"] != "nvm before it":
            continue
        ours = comparison.outcomes(item["competitor"], fraction)
        totals = {name: [outcome.moved[name] for outcome in ours if name in outcome.moved] for name in ("nvm_written_bytes", "nvm_read_bytes")}
        item |= present(ratio_to_drive_alone=paired_ratio(alone, ours), nvm=comparison.memory.name,
                        **{name: median(values) if values else None for name, values in totals.items()})


def compare_with_chosen(entries, comparison, fraction):
    """What the advisor chose, by each of its alternatives, round by round."""
    chosen = comparison.outcomes("compress auto", fraction)
    for item in entries:
        if item.get("percent_of_stock_peak") != fraction or item["competitor"] in ("terrace", "swap", "compress auto", "drive alone", "nvm before it"):
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


SCHEDULED_HEADINGS = ("to react.", "to bound", "wr./step", "rd./step", "stalled", "in time", "predicted")
OF_CODECS = ("to off", "ratio")
HEADINGS = ("", "limit", "peak", "s/step", "all steps", "to stock", "to swap", "to off", "ratio", "moved out", "written", "read", "identical")


def table(result):
    lines = []
    for model in result["models"]:
        lines += ["", " ".join([model["model"], *model["arguments"][2:]])]
        lines += aligned(with_scheduling(HEADINGS, row, model["entries"]))
        lines += [f"  {label(item)}: {text}" for item in model["entries"] for text in item.get("failures", [])]
        lines += chosen_lines(model["entries"])
        lines += nvm_lines(model["entries"])
        lines += phase_lines(model["entries"])
        lines += bound_lines(model)
        lines += targets.lines(model["targets"]) if "targets" in model else []
    lines += ["", *targets.lines(result["targets"])] if "targets" in result else []
    lines += ["", foot(result)]
    return "\n".join(lines[1:])


def with_scheduling(headings, row_of, entries):
    """The rows of a table. Where plans are compared, their columns stand in front of the verdict, which is last, and in place
    of those of codecs."""
    if not any(item["competitor"] == "reactive" for item in entries):
        return [headings, *(row_of(item) for item in entries)]
    kept = [column for column, heading in enumerate(headings[:-1]) if heading not in OF_CODECS]

    def wider(cells, more):
        return (*(cells[column] for column in kept), *more, cells[-1])
    return [wider(headings, SCHEDULED_HEADINGS), *(wider(row_of(item), scheduled_cells(item)) for item in entries)]


def scheduled_cells(item):
    return (number(item.get("ratio_to_reactive"), 2), number(item.get("ratio_to_bound"), 2),
            format_size(item.get("written_bytes_per_step")), format_size(item.get("read_bytes_per_step")),
            share(item.get("stalled_share")), share(item.get("back_in_time_share")), number(item.get("predicted_step_seconds"), 3))


def share(value):
    return "-" if value is None else f"{100 * value:.1f}%"


def nvm_lines(entries):
    """What the NVM was, and what it was good for."""
    return [f"  {label(item)}: {item['nvm']}; {format_size(item.get('nvm_written_bytes'))} there, {format_size(item.get('nvm_read_bytes'))} back; "
            f"a step takes {number(item.get('ratio_to_drive_alone'), 2)} of what it takes with the drive alone" for item in entries if "nvm" in item]


def phase_lines(entries):
    """What the parts of a step took, where it has any."""
    return [f"  {label(item)}: " + ", ".join(f"{name} {seconds:.3f} s" for name, seconds in item["phase_seconds_median"].items())
            for item in entries if "phase_seconds_median" in item]


def bound_lines(model):
    """What the bound of each limit is made of, and from which step on steps count."""
    stock = model["entries"][0].get("step_seconds_median")
    seen = {item["percent_of_stock_peak"]: item for item in model["entries"] if "bound_seconds" in item}
    if not seen:
        return
    drive = drive_speed.fastest(model["drive_speeds"])
    yield (f"  steps count from number {model['warm_up_steps'] + 1} on; the drive reads {drive[0] / 1e9:.2f} and writes {drive[1] / 1e9:.2f} GB/s")
    for percent, item in seen.items():
        yield (f"  bound at {percent}%: {item['bound_seconds']:.3f} s, the longer of stock's step ({stock:.3f} s) and moving "
               f"what does not fit ({item['transfer_seconds']:.3f} s)")


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
