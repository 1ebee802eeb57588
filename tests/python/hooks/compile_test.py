#!/usr/bin/python3
"""torch.compile: what compiled functions save is offloaded, too, and the results are those without offload."""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # support.py
from saving import batch, mlp
from support import OnReference, assert_same, collect, main, skip
import torch
from torch.utils.checkpoint import checkpoint

if not hasattr(torch, "compile"):
    print("SKIP: this PyTorch has no torch.compile")
    sys.exit(77)


def needs(backend):
    torch._dynamo.reset()
    try:
        torch.compile(lambda x: x.exp().sin(), backend=backend)(torch.ones(8))
    except Exception as error:  # whatever a compiler that is not there leads to
        skip(f"{backend} cannot compile here ({type(error).__name__})")


class Compiled(OnReference):
    def trained(self, session, function, compile_backward=None):
        """Losses and gradients of three steps. `function(model, x, session)` computes a loss."""
        torch._dynamo.reset()
        model, got = mlp(), []
        for step in range(3):
            model.zero_grad(set_to_none=True)
            loss = function(model, batch() * (step + 1), session)
            with compile_backward() if compile_backward else torch.enable_grad():
                loss.backward()
            got += [loss.detach(), *(p.grad for p in model.parameters())]
        return got

    def check(self, function, **settings):
        session = self.session()
        assert_same(self, self.trained(session, function, **settings),
                    self.trained(torch.enable_grad(), function, **settings))
        collect()
        self.assertGreaterEqual(session.statistics()["offloaded"], 6)
        self.assertEqual(self.reference.live(), 0)

    def test_EveryBackend(self):
        for backend in ("eager", "aot_eager", "inductor"):
            with self.subTest(backend):
                needs(backend)
                compiled = torch.compile(lambda model, x: model(x).square().sum(), backend=backend)

                def function(model, x, session):
                    with session:
                        return compiled(model, x)
                self.check(function)

    def test_TheBlockInsideOfWhatIsCompiled(self):
        @torch.compile(backend="aot_eager")
        def function(model, x, session):
            with session:
                return model(x).square().sum()
        self.check(function)

    def test_ACompiledCheckpoint(self):
        @torch.compile(backend="aot_eager")
        def compiled(model, x):
            return model[3:](checkpoint(model[:3], x.exp(), use_reentrant=False)).square().sum()

        def function(model, x, session):
            with session:
                return compiled(model, x)
        self.check(function)

    def test_CompiledAutograd(self):
        from torch._dynamo import compiled_autograd
        enable = getattr(compiled_autograd, "_enable", None) or compiled_autograd.enable

        def function(model, x, session):
            with session:
                return model(x).square().sum()
        for backend in ("eager", "aot_eager"):
            with self.subTest(backend):
                self.check(function, compile_backward=lambda b=backend: enable(lambda g: torch.compile(g, backend=b)))


if __name__ == "__main__":
    main()
