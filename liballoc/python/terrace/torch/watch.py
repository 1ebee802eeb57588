"""Whether it is worth it that the inputs of checkpoints leave: where in a step the most memory is taken.

Every segment of a checkpointed network recomputes, in backward, what it did not keep. While the last segment does, the
inputs of all others are there, and to have them elsewhere lowers the peak by all of them. While the first one does, none
is. So where the first segment is by far the largest, as in a U-Net, or where the most is taken by a head, or while the
optimizer runs, nothing is won by an offload of inputs, which costs its copies all the same.

Two steps are watched, the second since the optimizer makes its states in the first; inputs stay meanwhile. At each save and
fetch of an input the most memory that was ever taken is read: where it has risen since the last look, the peak so far
lies between the two, and what of inputs was there then is what an offload would have saved.

    save A │ save B │ save C │ fetch C, recompute │ fetch B, recompute │ fetch A, recompute │ optimizer │
    inputs      A        AB          AB                    A                    -                -

If that is at least a 20th of the peak, inputs leave from the third step on. Otherwise they stay, which is said once. A program
whose memory comes near the device's before that has its answer: the oldest leave at once (fit.py), and all from then on.
"""
from .. import sizes
from .errors import say

STEPS = 2
WORTH = 20


class Watch:
    """`memory` is of memory.py, `fit` a Fit whose limit is all there is. Any thread; a count that two of them race for may be
    off by a tensor."""

    __slots__ = ("_memory", "_fit", "_steps", "_watches", "_declined", "_peak", "_there", "_at_peak")

    def __init__(self, memory, fit):
        self._memory, self._fit = memory, fit
        self._steps = 0
        self._watches, self._declined = True, False
        self._peak = memory.peak()
        self._there = self._at_peak = 0  # bytes of inputs: now, and when the most was taken

    def saved(self, nbytes):
        """An input is about to be saved. Nothing once the watch has ended."""
        if not self._watches:
            return
        self._look()
        if self._steps >= STEPS:
            self._judge()
        self._there += nbytes
        self._fit.saved(nbytes)
        if self._fit.spilled:  # they are needed elsewhere
            self._watches = False

    def keeps(self, reference):
        """Whether the input that was just saved stays. `reference`: a weak one to its Packed."""
        if self._watches:
            self._fit.hold(reference)
        return self._watches or self._declined

    def fetched(self, nbytes):
        """Of an input that stayed: its segment is going to be recomputed, so it would have had to be back by now."""
        if self._watches:
            self._look()
            self._there = max(0, self._there - nbytes)

    def end_step(self):
        if self._watches:
            self._look()
            self._there = 0
            self._steps += 1

    def _look(self):
        peak = self._memory.peak()
        if peak > self._peak:
            self._peak, self._at_peak = peak, self._there

    def _judge(self):
        self._watches = False
        self._declined = self._at_peak * WORTH < self._peak
        if self._declined:
            say(f"when a step took the most memory, {sizes.text(self._peak)}, the inputs of checkpoints were "
                f"{sizes.text(self._at_peak)} of it: the peak lies elsewhere (in what one segment recomputes, outside of the "
                "checkpoints, or in the optimizer), so they stay where they are; without only='checkpoints' (terrace run "
                "--offload activations) what is saved outside of checkpoints is offloaded as well")
