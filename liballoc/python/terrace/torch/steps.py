"""What one step of training teaches about the next: which saved tensors are better left where they are, and how many
bytes may be on their way out at a time.

Tensors are known from step to step by their ordinal (how many were saved before) and size. A step's forward
passes come first; the end of a backward pass ends it, and the next save begins another.

The **stash** is what has a copy out under way and its memory still taken. It is bounded by a share of all that a step
saves, which is the peak of what there is to save: a 16th, and twice the largest tensor at least, so that one is
copied while the next is computed. When it is full the stream waits for the oldest copy (outbound.py).

keep_last=N keeps the N that backward fetched first. keep_last=None, the default, keeps those that backward fetched
first until they fill the stash: they would all have been in it when backward began, and come back without having
been away. What is kept takes its place in the stash, so that at the end of a forward pass both together are within
the bound. Also kept is what was still in use elsewhere when it was fetched: to have stored it freed nothing.

Nothing here looks at a clock. The host may be a whole forward pass ahead of the device: when it saves a tensor or
asks for it says nothing about when the device does.

    saved ──────────────────────────────────────────► time of the program
    │ leave, at most a stash of them under way │ kept │ backward
"""

STASH_SHARE = 16


class Steps:
    __slots__ = ("_keep_last", "_ordinal", "_sizes", "_verdicts", "_last_sizes", "_fetched", "_useless", "_in_stash",
                 "_saved_bytes", "_last_saved_bytes", "_largest", "_kept_bytes", "ended")

    def __init__(self, keep_last):
        self._keep_last = keep_last
        self._last_sizes, self._verdicts, self._in_stash = [], frozenset(), frozenset()
        self._last_saved_bytes = self._largest = 0
        self.ended = 0
        self._begin()

    def _begin(self):
        self._ordinal = self._saved_bytes = self._kept_bytes = 0
        self._sizes = []
        self._fetched = {}  # ordinals, in the order of the fetches
        self._useless = set()

    def next(self, nbytes):
        """The ordinal of a tensor that is saved now, and whether it is to be kept."""
        ordinal = self._ordinal
        self._ordinal = ordinal + 1
        self._sizes.append(nbytes)
        self._saved_bytes += nbytes
        if nbytes > self._largest:
            self._largest = nbytes
        keeps = ordinal in self._verdicts and self._last_sizes[ordinal] == nbytes
        if keeps and ordinal in self._in_stash:
            self._kept_bytes += nbytes
        return ordinal, keeps

    def fetching(self):
        """Whether something of this step was asked for."""
        return bool(self._fetched)

    def saved_bytes(self):
        """Of this step, until now."""
        return self._saved_bytes

    def stash_bytes(self):
        """The bound of the stash, what is kept in it included."""
        return max(2 * self._largest, max(self._saved_bytes, self._last_saved_bytes) // STASH_SHARE)

    def room_to_leave(self):
        """How many bytes may be on their way out now."""
        return max(0, self.stash_bytes() - self._kept_bytes)

    def ahead_bytes(self):
        """How much may come back before it is asked for: half a stash, and so the largest tensor at least."""
        return self.stash_bytes() // 2

    def fetched(self, ordinal, freed_nothing):
        """A record was asked for. Only its first time in a step counts."""
        if ordinal in self._fetched:
            return
        self._fetched[ordinal] = True
        if freed_nothing:
            self._useless.add(ordinal)

    def end(self):
        """Whether something was learned: a step without a fetch teaches nothing, and goes on. Where nothing was saved, the
        fetches are of the step that another thread has just ended."""
        if not self._fetched:
            return False
        sizes = self._sizes
        if not sizes:
            self._begin()
            return False
        fetched = [ordinal for ordinal in list(self._fetched) if ordinal < len(sizes)]
        if self._keep_last is not None:
            self._verdicts = frozenset(fetched[:self._keep_last])
        else:
            useless = frozenset(ordinal for ordinal in self._useless if ordinal < len(sizes))
            self._in_stash = self._first_that_fit([ordinal for ordinal in fetched if ordinal not in useless])
            self._verdicts = self._in_stash | useless
        self._last_sizes, self._last_saved_bytes = sizes, self._saved_bytes
        self._largest = max(sizes)
        self.ended += 1
        self._begin()
        return True

    def _first_that_fit(self, ordinals):
        room, kept = self.stash_bytes(), []
        for ordinal in ordinals:
            room -= self._sizes[ordinal]
            if room < 0:
                break
            kept.append(ordinal)
        return frozenset(kept)
