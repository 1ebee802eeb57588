"""Offload without a line of the program changed: what `terrace run --offload activations` switches on.

auto/sitecustomize.py calls activate() right after `import torch`. PyTorch's default hooks are set for each thread,
so each thread is given them: the importing one now, those that begin later as they begin, and those that were
there before at their next forward pass of a module. A program's own saved_tensors_hooks, save_on_cpu or
checkpoint come on top and win inside their block, as PyTorch has it. What refuses to run where there are hooks, as
torch.func.grad does, runs without them.
"""
import atexit
import os
import threading

import torch

from . import compat, settings
from .errors import say
from .session import automatic_offload

WHAT = ("activations", "checkpoints")  # everything that autograd saves; of that the inputs of checkpoints
_covered = threading.local()


def activate():
    """Once for each process. What is wrong with the environment is said in one line, and stops nothing."""
    if os.environ.get("TERRACE_OFFLOAD") not in WHAT:
        say(f"TERRACE_OFFLOAD={os.environ.get('TERRACE_OFFLOAD')!r} is not known, {' and '.join(map(repr, WHAT))} are; nothing "
            "is offloaded")
        return
    try:
        session = automatic_offload(settings.from_environment(), os.environ.get("TERRACE_GPU"))
    except ValueError as error:
        say(f"{error}. Saved tensors are not offloaded; the program goes on")
        return
    _cover_later_threads(session)
    if compat.innermost_hooks is not None:  # an older PyTorch goes on refusing
        _give_way_to_what_refuses_hooks(session)
    if threading.active_count() > 1:
        torch.nn.modules.module.register_module_forward_pre_hook(lambda module, inputs: _cover(session))
    _cover(session)
    if threading.current_thread() is threading.main_thread():
        atexit.register(_uncover)  # PyTorch would drop them when no interpreter is left


def _cover(session):
    """Gives this thread the hooks, unless it has them; None, for that ends a forward pre-hook without a change."""
    if getattr(_covered, "session", None) is None:
        try:
            session.__enter__()
        except RuntimeError:  # hooks are refused here; perhaps not at the next forward pass
            return
        _covered.session = session


def _uncover():
    session, _covered.session = getattr(_covered, "session", None), None
    if session is not None:
        session.__exit__(None, None, None)


def _give_way_to_what_refuses_hooks(session):
    functions = torch._C._autograd
    disable, enable = functions._saved_tensors_hooks_disable, functions._saved_tensors_hooks_enable

    def disable_without_ours(*arguments, **keywords):
        if session.is_innermost():
            session.__exit__(None, None, None)
            _covered.aside = True
        disable(*arguments, **keywords)

    def enable_with_ours():
        enable()
        if getattr(_covered, "aside", False):
            _covered.aside = False
            session.__enter__()

    functions._saved_tensors_hooks_disable = disable_without_ours
    functions._saved_tensors_hooks_enable = enable_with_ours


def _cover_later_threads(session):
    """By what is public of a thread: start(), and run(), which a program may replace."""
    start = threading.Thread.start

    def start_covered(self):
        run, own = self.run, vars(self).get("run")

        def run_covered():
            _put_back(self, own)
            _cover(session)
            try:
                run()
            finally:
                _uncover()

        self.run = run_covered
        try:
            start(self)
        except BaseException:  # it was started before, or the system gives no thread
            _put_back(self, own)
            raise

    threading.Thread.start = start_covered


def _put_back(thread, own):
    if own is None:
        vars(thread).pop("run", None)
    else:
        thread.run = own
