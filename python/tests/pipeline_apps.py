"""What the tests of pipelines share: apps as text, and a folder of its own for each test. LAMBENT_PREFIX names the build: its library of
channels, and its emulated driver."""
import os
import subprocess
import sys
import tempfile
import textwrap
import unittest

PYTHON = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, PYTHON)
PREFIX = os.environ["LAMBENT_PREFIX"]

# Numbers through a diamond with an optional branch: double, then plus and minus beside each other, then a pair.
APP = """
    import os
    from lambent.pipeline import Component, Pipeline

    class Double(Component):
        def forward(self, n):
            if n == 13:
                raise ValueError("13 is unlucky")
            return n * 2

    class Add(Component):
        def __init__(self, amount=0):
            self.amount = amount
        def setup(self):
            if os.environ.get("FAIL_SETUP"):
                raise RuntimeError("no weights")
        def forward(self, n):
            if n == 2 * 666:
                os.kill(os.getpid(), 9)
            return n + self.amount

    class Pair(Component):
        def forward(self, a, b):
            return {"sum": a + b, "parts": (a, b), "raw": b"%d" % a}

    class App(Pipeline):
        slo_ms = 200
        batch = 4

        def define_dag(self, n):
            doubled = self.register("double", Double, n)
            plus = self.register("plus", Add, doubled, amount=1)
            minus = self.register("minus", Add, doubled, when=lambda n: n > 10, amount=-1)
            return self.register("pair", Pair, plus, minus)

        def encode(self, outputs, event):
            pair = outputs["pair"]
            return {"n": event["n"], "sum": pair["sum"], "parts": list(pair["parts"]), "raw": pair["raw"].decode()}
"""

# Kernels on a device: doubled by adding a vector to itself, in rows, so that requests can be batched.
DEVICE_APP = """
    import array
    import lambent_cuda as cuda
    from lambent.pipeline import KernelModule, Pipeline, device

    class Double(KernelModule):
        bundle = "vector_add"
        batches = True

        def setup(self):
            self.add = self.kernel("vector_add")
            self.weights = self.device.tensor("uint8", (3 << 20,))

        def forward(self, x):
            result = self.device.tensor("float32", x.shape)
            self.add(grid=(x.count + 255) // 256, block=256, args=[x, x, result, cuda.uint32(x.count)])
            return result

    class App(Pipeline):
        def define_dag(self, x):
            twice = self.register("twice", Double, x)
            return self.register("more", Double, twice, when=lambda x: x.shape[1] > 2)

        def decode(self, event):
            rows = event["x"]
            flat = array.array("f", [number for row in rows for number in row])
            return {"x": device().tensor("float32", (len(rows), len(rows[0])), flat)}
"""


def answer_to(n):
    plus, minus = 2 * n + 1, 2 * n - 1 if 2 * n > 10 else 2 * n
    return {"n": n, "sum": plus + minus, "parts": [plus, minus], "raw": str(plus)}


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def write(self, source, name="app.py"):
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
            file.write(textwrap.dedent(source))

    def program(self, *arguments, environment=None, input=None):
        run = subprocess.run([sys.executable, "-m", "lambent.pipeline", *arguments], cwd=self.folder, input=input,
                             env=dict(os.environ, PYTHONPATH=PYTHON, **(environment or {})), capture_output=True,
                             text=True, timeout=100, check=False)
        return run.returncode, run.stdout, run.stderr

    def import_anew(self):
        """What is called app is this folder's from now on."""
        sys.modules.pop("app", None)
        self.addCleanup(lambda: sys.path.remove(self.folder) if self.folder in sys.path else None)
