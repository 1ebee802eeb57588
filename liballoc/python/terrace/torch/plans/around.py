"""Calls of segments, run by whoever asks: an observer, or a plan in force.

A module stays the same object, of a subclass of its class, as with offload_module(). A segment that is a run of a
Sequential is run in that one's forward().
"""
from __future__ import annotations

import functools

from ..module import PLAN, RUNS, ModuleHandle


class Around:
    """`run(number, function, arguments, keywords)` is called for each call of segment `number`, and calls `function`."""

    def __init__(self, segments, run):
        self._handle = ModuleHandle(None)
        runs = {}
        for number, segment in enumerate(segments):
            if segment.first is None:
                self._handle.give(segment.owner, PLAN, functools.partial(run, number))
            else:
                runs.setdefault(segment.owner, []).append((segment.first, segment.end, functools.partial(run, number)))
        for owner, parts in runs.items():
            self._handle.give(owner, RUNS, parts)

    def remove(self):
        self._handle.remove()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.remove()
