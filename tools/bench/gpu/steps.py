"""Section `steps`: every contender beside plain, in turns: time, peak of device memory, and whether the bits agree.

Plain's process stays; each contender gets one of its own, which ends before the next begins.
"""
import sys

from children import Child, ChildFailed
from lineup import chosen, lineup
from pairing import alternate
from sizes import format_size


class Steps:
    """`tell` is given the section as far as it has come, after each contender."""

    def __init__(self, arguments, scratch, environment, tell):
        self._tell = tell
        self._arguments, self._scratch, self._environment = arguments, scratch, environment
        self._losses = []  # plain's, step by step

    def run(self):
        with self._child("plain", "plain", {}) as plain:
            reference = plain.ask("prepare", settle=self._arguments.settle)
            self._losses += reference["losses"]
            contenders = chosen(lineup(self._arguments.gpu, self._arguments.dram, self._arguments.pool,
                                       reference["peak_allocated_bytes"]), self._arguments.contenders)
            section = {"network": self._arguments.network, "plain": memory_of(reference), "entries": []}
            for contender in contenders:
                section["entries"].append(self._entry(plain, reference, contender))
                self._tell(section)
        return section

    def _entry(self, plain, reference, contender):
        entry = {"contender": contender.name, "says": contender.says}
        try:
            entry |= self._compare(plain, reference, contender)
        except ChildFailed as failed:
            entry |= {"failure": str(failed), "out_of_memory": failed.out_of_memory}
        note(progress(entry))
        return entry

    def _compare(self, plain, reference, contender):
        losses = []
        with self._child(contender.name, contender.kind, contender.settings) as ours:
            prepared = ours.ask("prepare", settle=self._arguments.settle)
            losses += prepared["losses"]
            rounds = alternate(lambda: self._turn(plain, self._losses), lambda: self._turn(ours, losses),
                               self._arguments.rounds)
            facts = ours.ask("facts")
            said = [line for line in ours.log_lines() if line.startswith("terrace")]
        peak = prepared["peak_allocated_bytes"]
        same = prepared["state_sha256"] == reference["state_sha256"] and agree(losses, self._losses)
        spread = rounds.spread()
        return {"ratio_to_plain": rounds.ratio(), **({} if spread is None else {"ratio_spread": spread}), "ratios": rounds.ratios(),
                "step_seconds": rounds.step_seconds(), "plain_step_seconds": rounds.plain_step_seconds(),
                **memory_of(prepared), **handed_back_of(prepared), "peak_reduction": 1 - peak / reference["peak_allocated_bytes"],
                "bit_identical": same, "steps_compared": min(len(losses), len(self._losses)),
                "turns": {"plain": rounds.plain, "contender": rounds.contender}, **facts, **({"said": said} if said else {})}

    def _turn(self, child, losses):
        answer = child.ask("steps", count=self._arguments.steps, settle=1)
        losses += answer["losses"]
        return answer["seconds"]

    def _child(self, name, kind, settings):
        config = {"place": self._arguments.gpu.spec, "contender": kind, "settings": settings,
                  "network": self._arguments.network, "threads": self._arguments.threads}
        log = self._scratch / f"{name.replace(' ', '-')}.log"
        return Child(config, log, environment=self._environment)


def agree(ours, theirs):
    """Every loss depends on all parameters after all steps before it; the hash is over those of one moment."""
    return bool(ours) and all(mine == other for mine, other in zip(ours, theirs))


def memory_of(answer):
    return {name: answer[name] for name in ("peak_allocated_bytes", "peak_reserved_bytes") if name in answer}


def handed_back_of(answer):
    return {"handed_back": answer["handed_back"]} if "handed_back" in answer else {}


def progress(entry):
    if "failure" in entry:
        return f"{entry['contender']}: {entry['failure']}"
    return (f"{entry['contender']}: {entry['ratio_to_plain']:.3f} of plain's step, "
            f"peak {format_size(entry['peak_allocated_bytes'])}, handed back {entry.get('handed_back', '-')}, bits {'equal' if entry['bit_identical'] else 'DIFFER'}")


def note(text):
    print(text, file=sys.stderr, flush=True)
