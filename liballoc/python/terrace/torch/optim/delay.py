"""Updates that come a step late: computed while the next forward and backward pass run.

    step() number        1               2               3
    program    gradient 1 │ gradient 2    │ gradient 3    │ …
    library               │ update 1 ───┐ │ update 2 ───┐ │
    parameters  initial   │ initial     └►│ with 1      └►│ with 2

ZeRO-Offload's "one-step delayed parameter update" (Ren et al., USENIX ATC 2021, section 5.2). The library works on
copies of gradients and parameters, so the program may use and clear its own. Deterministic: what comes when does not
depend on how fast anything is.
"""
import threading

import torch

from .staging import Streams, host_copy


class Delay:
    """Of one optimizer. begin() and settle() belong to one thread."""

    def __init__(self):
        self._thread = self._error = None
        self._pending = {}   # parameter: its version when the update began
        self._shadows = {}   # parameter: (its copy, its version when that was the same)

    def begin(self, planned, carry_out):
        """Copies parameters and gradients and starts carry_out(planned, copies). Nothing else is under way."""
        parameters = [parameter for _, parameter, _ in planned]
        streams = Streams(parameters)
        copies = Copies()
        for parameter in parameters:
            with streams.of(parameter):
                copies.pairs.append((self._shadow(parameter), host_copy(parameter.grad)))
                copies.events.append(streams.mark(parameter))
        streams.join()  # the program may overwrite its gradients
        self._pending = {parameter: parameter._version for parameter in parameters}
        # No daemon: a program that ends waits for it before the states are closed.
        self._thread = threading.Thread(target=self._run, args=(planned, copies, carry_out))
        self._thread.start()

    def wait(self):
        """Until nothing is computed any more."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def settle(self):
        """Waits, and puts what was computed into the parameters. Raises what went wrong in it."""
        self.wait()
        pending, self._pending = self._pending, {}
        for parameter, version in pending.items():
            if parameter._version != version:
                raise RuntimeError(
                    f"a parameter of shape {list(parameter.shape)} was changed while an update of it was under way "
                    "(delay=1); call the optimizer's synchronize() before parameters are changed")
        with torch.no_grad():
            for parameter in pending:
                copy, _ = self._shadows[parameter]
                parameter.copy_(copy, non_blocking=True)
                self._shadows[parameter] = copy, parameter._version
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _shadow(self, parameter):
        copy, version = self._shadows.get(parameter, (None, None))
        if copy is None or copy.shape != parameter.shape or version != parameter._version:
            copy = host_copy(parameter)
            self._shadows[parameter] = copy, parameter._version
        return copy

    def _run(self, planned, copies, carry_out):
        try:
            for event in copies.events:
                if event is not None:
                    event.synchronize()
            with torch.no_grad():
                carry_out(planned, copies)
        except BaseException as error:  # noqa: BLE001, the next step() raises it
            self._error = error


class Copies:
    """(parameter's, gradient's) of each update, all there before the library begins."""

    error = None

    def __init__(self):
        self.pairs, self.events = [], []

    def describe(self, updates, types):
        for update, (parameter, gradient) in zip(updates, self.pairs):
            update.parameter, update.gradient = parameter.data_ptr(), gradient.data_ptr()
            update.gradient_type = types[gradient.dtype]

    def flow(self, updates):
        return None

    def end(self):
        self.pairs.clear()
