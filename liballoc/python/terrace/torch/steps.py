"""What one step of training teaches about the next: which saved tensors are better left where they are.

Tensors are known from step to step by their ordinal (how many were saved before) and size. A step's forward
passes come first; the end of a backward pass ends it, and the next save begins another.

keep_last=N keeps the N that backward fetched first. keep_last=None, the default, keeps what the measured times
speak for, by one rule: a tensor that was needed again sooner than twice the time that bytes of its size took to
leave would have been on its way out, or back, when it was needed. Also kept is what was still in use elsewhere
when it was fetched: to have stored it freed nothing.
"""

SMOOTHING = 0.125  # of the measured pace, for each tensor that left


class Steps:
    __slots__ = ("_keep_last", "_ordinal", "_sizes", "_verdicts", "_last_sizes", "_dwell_ns", "_useless",
                 "_ns_per_byte", "ended")

    def __init__(self, keep_last):
        self._keep_last = keep_last
        self._last_sizes, self._verdicts = [], frozenset()
        self._ns_per_byte = 0.0
        self.ended = 0
        self._begin()

    def _begin(self):
        self._ordinal = 0
        self._sizes = []
        self._dwell_ns = {}  # by ordinal, in the order of the fetches
        self._useless = set()

    def next(self, nbytes):
        """The ordinal of a tensor that is saved now, and whether it is to be kept."""
        ordinal = self._ordinal
        self._ordinal = ordinal + 1
        self._sizes.append(nbytes)
        return ordinal, ordinal in self._verdicts and self._last_sizes[ordinal] == nbytes

    def left(self, nbytes, took_ns):
        pace = took_ns / nbytes
        self._ns_per_byte += SMOOTHING * (pace - self._ns_per_byte) if self._ns_per_byte else pace

    def fetched(self, ordinal, dwell_ns, freed_nothing):
        """A record was asked for. Only its first time in a step counts."""
        if ordinal in self._dwell_ns:
            return
        self._dwell_ns[ordinal] = dwell_ns
        if freed_nothing:
            self._useless.add(ordinal)

    def end(self):
        """Whether something was learned: a step without a fetch teaches nothing, and goes on."""
        if not self._dwell_ns:
            return False
        sizes = self._sizes
        fetched = [(ordinal, dwell) for ordinal, dwell in list(self._dwell_ns.items()) if ordinal < len(sizes)]
        if self._keep_last is not None:
            kept = {ordinal for ordinal, _ in fetched[:self._keep_last]}
        else:
            kept = {ordinal for ordinal, dwell in fetched if dwell < 2 * self._ns_per_byte * sizes[ordinal]}
            kept.update(ordinal for ordinal in self._useless if ordinal < len(sizes))
        self._last_sizes, self._verdicts = sizes, frozenset(kept)
        self.ended += 1
        self._begin()
        return True
