"""What a run moves, and waits for, in the steps that count: its counters at the end of its warm-up and after its last step.

A program that a plan is made for repeats a few steps before the plan is there, and the counters that are told at its end
have those in them. So the run's output is watched: as soon as the line of the last warm-up step is there, `look` reads
the counters, and again behind the last step. Between two looks lie as many steps as lines came meanwhile: a step that is
over sooner than a look takes is counted right all the same.
"""
import json
import re
import subprocess
import threading

STEP_LINE = re.compile(rb"^step \d+ ", re.M)
POLL_SECONDS = 0.02
# Of `terrace jobs --json`; durations are seconds there.
COUNTERS = ("written_bytes", "read_bytes", "evicted_bytes", "restored_bytes", "faults", "stall_seconds", "steps", "departures",
            "planned_steps", "planned_out_bytes", "planned_in_bytes", "planned_late", "unplanned_faults")
RUN_BYTES = 2 << 20  # what one touch waits for (liballoc/heap/space/block.h)


class Watch:
    """`look()` answers a dictionary of counters, or None when there is nobody to ask any more."""

    def __init__(self, log, warm_up, steps, look):
        self.log, self.warm_up, self.steps, self.look = log, warm_up, steps, look
        self.before = self.after = None  # (steps that were over, counters)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        self._thread.join()
        if self.after is None:
            self._look_once()

    def _run(self):
        while not self._ended.wait(POLL_SECONDS) and self.after is None:
            self._look_once()

    def _look_once(self):
        over = self._steps_over()
        if self.before is None and self.warm_up <= over < self.steps:
            self.before = self._seen()
        elif self.before is not None and over >= self.steps:
            self.after = self._seen()

    def _seen(self):
        counters = self.look()
        return None if counters is None else (min(self._steps_over(), self.steps), counters)

    def _steps_over(self):
        try:
            return len(STEP_LINE.findall(self.log.read_bytes()))
        except OSError:
            return 0

    def grown(self, totals=None):
        """By how much each counter grew, in how many `counted_steps`. `totals`, those that the run left at its end, stand in
        for a last look that came too late. Empty where that is not known."""
        after = self.after or ((self.steps, totals) if totals else None)
        if self.before is None or after is None or after[0] <= self.before[0]:
            return {}
        (first, before), (last, now) = self.before, after
        grown = {name: now[name] - before.get(name, 0) for name in COUNTERS if is_number(now.get(name))}
        return {"counted_steps": last - first, **grown, **plan_of(now if self.after else before)}


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def plan_of(row):
    """What the daemon planned for the step, of a row of `terrace jobs --json`."""
    plan = row.get("plan") if isinstance(row.get("plan"), dict) else {}
    predicted = plan.get("predicted_step_seconds")
    return ({"predicted_step_seconds": predicted} if is_number(predicted) and predicted > 0 else {}) | (
        {"policy": row["policy"]} if isinstance(row.get("policy"), str) else {}) | (
        {"plan_refusal": row["plan_refusal"]} if isinstance(row.get("plan_refusal"), str) else {})


def job_row(terrace, name):
    """The job's row, or None: it has ended, or not begun."""
    try:
        answer = subprocess.run([terrace, "jobs", "--json"], capture_output=True, text=True, timeout=10, check=False).stdout
        return next((row for row in json.loads(answer)["jobs"] if row.get("job") == name), None)
    except (subprocess.TimeoutExpired, ValueError, KeyError):
        return None


def totals_as_row(summary):
    """The counters of `terrace run --json-summary`, with the names that a row has."""
    return {(name[:-2] + "seconds" if name.endswith("_ns") else name): (value / 1e9 if name.endswith("_ns") else value)
            for name, value in summary.items() if is_number(value)}


def facts_of(grown, step_seconds):
    """What a table says, of what Watch.grown() gave: per step, and as shares. What is not known is absent."""
    steps = grown.get("counted_steps")
    if not steps:
        return {}
    facts = {f"{name}_per_step": grown[name] / steps for name in ("written_bytes", "read_bytes", "evicted_bytes") if name in grown}
    if "stall_seconds" in grown and step_seconds:
        facts["stalled_share"] = grown["stall_seconds"] / steps / step_seconds
    back = back_in_time(grown)
    facts |= {} if back is None else {"back_in_time_share": back}
    facts |= {"known_steps": grown["steps"]} if "steps" in grown else {}
    return facts | {name: grown[name] for name in ("predicted_step_seconds", "policy", "plan_refusal") if name in grown}


def back_in_time(grown):
    """Of the bytes that were brought back, the share that was there before its first touch. A touch that a plan's object, or
    what no plan names, was not back for has waited for a run of 2 MiB."""
    if "planned_late" not in grown or not grown.get("planned_steps") or not grown.get("restored_bytes"):
        return None
    late_bytes = (grown["planned_late"] + grown.get("unplanned_faults", 0)) * RUN_BYTES
    return max(0.0, 1 - late_bytes / grown["restored_bytes"])
