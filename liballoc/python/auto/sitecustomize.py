"""Found by Python at its start through PYTHONPATH, which `terrace run --offload activations` sets.

Waits for `import torch` and then switches the offload on (terrace/torch/automatic.py). A program that never
imports torch runs as without. The sitecustomize that this one hides is run, too.
"""
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


class _WatchTorch:
    """A finder that finds nothing: it lets the others find torch, and acts once torch has been executed."""

    def find_spec(self, name, path=None, target=None):
        if name != "torch" or self not in sys.meta_path:
            return None
        sys.meta_path.remove(self)
        for finder in list(sys.meta_path):
            spec = finder.find_spec(name, path, target) if hasattr(finder, "find_spec") else None
            if spec is not None:
                _act_after(spec.loader)
                return spec
        sys.meta_path.insert(0, self)  # not here: perhaps later, from another path
        return None


def _act_after(loader):
    execute = getattr(loader, "exec_module", None)
    if execute is None:
        return

    def exec_module(module):
        del loader.exec_module
        execute(module)
        _activate()

    loader.exec_module = exec_module


def _activate():
    root = os.path.dirname(_HERE)
    if root not in sys.path:
        sys.path.append(root)
    try:
        from terrace.torch import automatic
        automatic.activate()
    except Exception as error:  # whatever it is, the program is not to suffer from it
        sys.stderr.write("terrace: the offload cannot be switched on (%s: %s); the program goes on without\n"
                         % (type(error).__name__, error))


def _run_shadowed():
    """Debian has a sitecustomize, and so may the user."""
    from importlib.machinery import PathFinder

    path = [entry for entry in sys.path if os.path.abspath(entry or ".") != _HERE]
    spec = PathFinder.find_spec("sitecustomize", path)
    if spec is None or spec.loader is None:
        return
    module = type(sys)("sitecustomize")
    module.__file__, module.__spec__, module.__loader__ = spec.origin, spec, spec.loader
    spec.loader.exec_module(module)


if os.environ.get("TERRACE_OFFLOAD") and os.environ.get("TERRACE_DISABLE", "") in ("", "0", "false", "no", "off"):
    sys.meta_path.insert(0, _WatchTorch())
_run_shadowed()
