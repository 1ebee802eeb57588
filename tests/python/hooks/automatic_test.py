#!/usr/bin/python3
"""`terrace run --offload activations` as the program sees it: PYTHONPATH, variables, and not a line changed."""
import json
import os
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # support.py
from support import SOURCE, engine_or_skip, main, skip

PROGRAM = """
    import sys, threading
    {before}
    import torch
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 8))
    def step():
        torch.manual_seed(2)
        loss = model(torch.randn(512, 64)).square().mean()
        loss.backward()
        return loss.item()
    {body}
"""
ON = {"TERRACE_OFFLOAD": "activations", "TERRACE_OFFLOAD_MIN": "64K", "TERRACE_OFFLOAD_BUDGET": "64M",
      "TERRACE_GPU": "emulated:64M"}  # an interpreter with torch has more in memory: nothing fits


class Automatic(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="terrace-python.", dir="/var/tmp")
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)

    def python(self, body, before="", path=(), **environment):
        auto = str(SOURCE / "liballoc/python/auto")
        program = textwrap.dedent(PROGRAM).format(body=body, before=before) \
            if body is not None else before
        summary = self.directory / "summary"
        summary.unlink(missing_ok=True)
        ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False,
                             env=os.environ | {"PYTHONPATH": os.pathsep.join([auto, *map(str, path)]),
                                               "TERRACE_OFFLOAD_SUMMARY": str(summary), **environment})
        if "SKIP: " in ran.stderr:
            skip(ran.stderr.partition("SKIP: ")[2].strip())
        self.assertEqual(ran.returncode, 0, ran.stderr)
        lines = summary.read_text().splitlines() if summary.exists() else []
        return ran.stdout, ran.stderr, [json.loads(line) for line in lines]

    def test_TheProgramIsUnchangedAndItsTensorsAreOffloaded(self):
        stock, _, none = self.python("print(step(), step())", **ON, TERRACE_DISABLE="1")
        ours, errors, summary = self.python("print(step(), step())", **ON)
        self.assertEqual(ours, stock)
        self.assertEqual(none, [])
        self.assertEqual(len(summary), 1)
        self.assertGreater(summary[0]["stored"], 0)
        self.assertEqual(summary[0]["live"], 0)
        self.assertNotIn("Traceback", errors)

    def test_OnlyInputsOfCheckpointsWhereThatIsAsked(self):
        body = textwrap.dedent("""\
            from torch.utils.checkpoint import checkpoint
            for _ in range(3):
                torch.manual_seed(2)
                hidden = checkpoint(model, torch.randn(512, 64).requires_grad_() * 2, use_reentrant=True)
                hidden.expand(64, 512, 8).exp().sum().backward()
            print(model[0].weight.grad.sum().item())""")
        stock, _, _ = self.python(body, **ON, TERRACE_DISABLE="1")
        stored = {}
        for what in ("activations", "checkpoints"):
            ours, _, summary = self.python(body, **{**ON, "TERRACE_OFFLOAD": what})
            self.assertEqual(ours, stock)
            stored[what] = summary[0]["stored"]
        self.assertGreater(stored["activations"], stored["checkpoints"])
        self.assertGreater(stored["checkpoints"], 0)

    def test_LaterThreadsAreCovered(self):
        body = "thread = threading.Thread(target=step); thread.start(); thread.join()"
        self.assertGreater(self.python(body, **ON)[2][0]["stored"], 0)

    def test_AThreadIsAsItWas(self):
        """Its run() is its own again, whether its class or the program gave it one, and a second start() is refused."""
        body = textwrap.dedent("""\
            class Mine(threading.Thread):
                def run(self):
                    step()
                    print("run" in vars(self))
            def own():
                step()
                print(vars(given)["run"] is own)
            given = threading.Thread()
            given.run = own
            for thread in (Mine(), given, threading.Timer(0, step)):
                thread.start()
                thread.join()
                try:
                    thread.start()
                except RuntimeError as error:
                    print(error, "run" in vars(thread))""")
        refused = "threads can only be started once"
        out, _, summary = self.python(body, **ON)
        self.assertEqual(out.splitlines(), ["False", f"{refused} False", "True", f"{refused} True", f"{refused} False"])
        self.assertGreaterEqual(summary[0]["stored"], 3)

    def test_EarlierThreadsAreCovered(self):
        before = textwrap.dedent("""\
            import queue
            jobs = queue.Queue()
            threading.Thread(target=lambda: jobs.get()()).start()""")
        self.assertGreater(self.python("jobs.put(step)", before=before, **ON)[2][0]["stored"], 0)

    def test_AProgramWithoutTorchDoesNotNotice(self):
        code = "import sys, json; print('torch' in sys.modules, 'terrace' in sys.modules)"
        out, errors, summary = self.python(None, before=code, **ON)
        self.assertEqual((out, errors, summary), ("False False\n", "", []))

    def test_WithoutTheVariableNothingHappens(self):
        out, errors, summary = self.python("step(); print('terrace' in sys.modules)")
        self.assertEqual((out, errors, summary), ("False\n", "", []))

    def test_TheHiddenSitecustomizeRuns(self):
        (self.directory / "sitecustomize.py").write_text("import sys\nsys.hidden_ran = True\n")
        for settings in (ON, {}):
            out, _, _ = self.python("print(sys.hidden_ran)", path=[self.directory], **settings)
            self.assertEqual(out, "True\n")

    def test_AWrongSettingIsSaidAndStopsNothing(self):
        for name, value in (("TERRACE_OFFLOAD", "weights"), ("TERRACE_OFFLOAD_BUDGET", "plenty"),
                            ("TERRACE_OFFLOAD_TIERS", "tape"), ("TERRACE_OFFLOAD_MIN", "-1"),
                            ("TERRACE_COMPRESS", "zip"), ("TERRACE_GPU", "emulated:much"), ("TERRACE_GPU", "tpu"), ("TERRACE_GPU", "cuda")):
            with self.subTest(name=name, value=value):
                out, errors, _ = self.python("print(step())", **{**ON, name: value})
                self.assertTrue(out)
                self.assertEqual(errors.count("terrace:"), 1, errors)
                self.assertIn(value, errors)

    def test_AMissingLibraryIsSaidAndStopsNothing(self):
        out, errors, _ = self.python("print(step())", **{**ON, "TERRACE_GPU_LIBRARY": "/nowhere/libterrace_gpu.so"})
        self.assertTrue(out)
        self.assertIn("/nowhere/libterrace_gpu.so", errors)
        self.assertIn("the program goes on", errors)

    def test_AnotherModuleOfTheNameIsSaidAndStopsNothing(self):
        (self.directory / "terrace.py").write_text("mine = True\n")
        out, errors, _ = self.python("import terrace; step(); print(terrace.mine)", path=[self.directory], **ON)
        self.assertEqual(out, "True\n")
        self.assertIn("the program goes on without", errors)

    def test_AProgramsOwnHooksComeFirst(self):
        body = textwrap.dedent("""\
            with torch.autograd.graph.save_on_cpu():
                step()""")
        self.assertEqual(self.python(body, **ON)[2], [])

    def test_WhatRefusesHooksRunsWithoutThem(self):
        body = textwrap.dedent("""\
            if not hasattr(torch._C._autograd, "_top_saved_tensors_default_hooks"):
                sys.exit("SKIP: this PyTorch does not say which hooks apply")
            def transform():
                return torch.func.grad(lambda t: t.sin().sum())(torch.arange(8.)).sum().item()
            print(transform(), step())
            for backend in "eager", "aot_eager":
                print(torch.compile(transform, backend=backend)(), step())
            with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
                try:
                    transform()
                except RuntimeError as error:
                    print(error)""")
        stock, _, _ = self.python(body, **ON, TERRACE_DISABLE="1")
        ours, _, summary = self.python(body, **ON)
        self.assertEqual(ours, stock)
        self.assertIn("hooks", ours)
        self.assertGreater(summary[0]["stored"], 2)

    def test_WorkersOfADataLoaderDoNotTouchTheEngine(self):
        body = textwrap.dedent("""\
            step()
            data = torch.utils.data.TensorDataset(torch.arange(12.))
            print(sum(x.sum().item() for x, in torch.utils.data.DataLoader(data, 3, num_workers=2)), step() > 0)""")
        out, errors, summary = self.python(body, **ON)
        self.assertEqual((out, len(summary)), ("66.0 True\n", 1))
        self.assertNotIn("Traceback", errors)


if __name__ == "__main__":
    engine_or_skip()
    main()
