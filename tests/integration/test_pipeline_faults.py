"""Torch modules over two slices that raise, change their shape, leave the device or end their process in the middle of a request: the request
is told what was wrong and where, a neighbour is served by its process of before, and what a process held is had again. torch is a stand-in
of a few lines, which the package brings; tests/frameworks has the same with the real one."""
import json
import pathlib
import threading

from harness import WorkerTest, make_zip

# What lambent.pipeline asks of torch, and what the modules below do: tensors of floats on the host or on "meta", Linear.
TORCH = """
import array
import contextlib

float32 = "torch.float32"
inference_mode = contextlib.nullcontext


class Device:
    def __init__(self, kind):
        self.type = kind

    def __str__(self):
        return self.type


class Tensor:
    layout, dtype, is_nested = "torch.strided", float32, False

    def __init__(self, numbers, shape, device="cpu"):
        self.numbers, self.shape, self.device = array.array("f", numbers), tuple(shape), Device(device)

    def detach(self):
        return self

    resolve_conj = resolve_neg = contiguous = detach

    def numel(self):
        return len(self.numbers)

    def element_size(self):
        return 4

    def data_ptr(self):
        return self.numbers.buffer_info()[0]

    def to(self, device):
        return Tensor(self.numbers, self.shape, device)

    def tolist(self):
        return list(self.numbers)


def tensor(numbers):
    return Tensor(numbers, (1, len(numbers)))


def empty(shape, dtype, device):
    count = 1
    for size in shape:
        count *= size
    return Tensor([0] * count, shape, device)


class cuda:
    @staticmethod
    def is_available():
        return False


class nn:
    class Module:
        def __call__(self, *inputs):
            return self.forward(*inputs)

        def eval(self):
            return self

    class Linear(Module):
        def __init__(self, wide, deep):
            self.wide, self.deep = wide, deep

        def forward(self, value):
            if value.shape[-1] != self.wide:
                raise RuntimeError("mat1 and mat2 shapes cannot be multiplied (1x%d and %dx%d)" % (value.shape[-1], self.wide, self.deep))
            return tensor([sum(value.numbers) / (at + 1) for at in range(self.deep)])
"""

APP = """
import ctypes
import os

import torch
from lambent.pipeline import Module, Pipeline, device
from torch import nn


class Faulty(Module):
    def setup(self):
        self.process = os.urandom(8).hex()  # numbers of processes are the same in each sandbox
        self.layer = nn.Linear(*self.sizes)
        self.held = device().buffer(14_000 << 20)  # as the profile has it; it lies nowhere before it is written

    def forward(self, both):
        value = self.layer(both["value"])
        do = both["do"].get(self.name)
        if do == "raise":
            raise ValueError("no such picture")
        if do == "change":
            value = torch.tensor(value.numbers[:1])
        if do == "leave":
            value = value.to("meta")
        if do == "exit":
            os._exit(7)
        if do == "segfault":
            ctypes.string_at(0)
        about = {"process": self.process, "free": device().memory_info()[0]}
        return {"value": value, "do": both["do"], "about": {**both["about"], self.name: about}}


class First(Faulty):
    name, sizes = "first", (4, 8)


class Second(Faulty):
    name, sizes = "second", (8, 2)


class App(Pipeline):
    def define_dag(self, both):
        return self.register("second", Second, self.register("first", First, both))

    def decode(self, event):
        return {"both": {"value": torch.tensor(event["numbers"]), "do": event.get("do", {}), "about": {}}}

    def encode(self, outputs):
        return {"numbers": outputs["second"]["value"].tolist(), "about": outputs["second"]["about"]}
"""
# The same modules in one process, which is no pipeline: what they answer without stages.
NEIGHBOUR = """
import app
import torch

first, second = app.First(), app.Second()
first.setup()
second.setup()

def handler(event, context):
    both = second(first({"value": torch.tensor(event["numbers"]), "do": {}, "about": {}}))
    return {"numbers": both["value"].tolist(), "about": both["about"]}
"""
PIPELINE = {"pipeline": 1, "handler": "app.App", "inputs": ["both"], "outputs": ["second"],
            "components": [{"name": "first", "inputs": ["$both"]}, {"name": "second", "inputs": ["first"]}]}
# As if no slice could hold both.
EACH = {"weights_mb": 14000, "memory_mb": 15000, "output_bytes": 1000, "probability": 1, "ms": {"2g.20gb": 20}}
PROFILE = {"profile": 1, "context_mb": 500, "start_ms": 300, "components": {"first": EACH, "second": EACH},
           "shapes": {"2g.20gb": {"multiprocessors": 28, "memory_mb": 19968}}}
NUMBERS = [0.5, -1.0, 2.0, 0.25]


class Neighbour:
    """Asks a function again and again, on a thread of its own."""

    def __init__(self, ask):
        self.ask, self.done, self.answers, self.failures = ask, threading.Event(), [], []
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        try:
            while not self.done.is_set():
                self.answers.append(self.ask())
        except Exception as error:  # told below, in the test's own thread
            self.failures.append(error)

    def stop(self):
        self.done.set()
        self.thread.join()


class PipelineFaultsTest(WorkerTest):
    gpu = "emulated:a100-80gb-mig"  # 3g.40gb, which the neighbour has, and two of 2g.20gb
    flags = ("--pipeline-slices", "0:1,0:2")

    def good(self, name="faulty"):
        reply = self.worker.invoke(name, {"numbers": NUMBERS})
        self.assertNotIn("x-amz-function-error", reply.headers, reply.body)
        return reply.json

    def error(self, component, do):
        reply = self.worker.invoke("faulty", {"numbers": NUMBERS, "do": {component: do}})
        self.assertIn("x-amz-function-error", reply.headers, do)
        return f"{reply.json['errorType']}: {reply.json['errorMessage']}"

    def holders(self, name):
        """By slice, how many instances of a function are there."""
        slices = self.worker.request("GET", "/v1/slices").json["slices"]
        return {each["slice"]: [one["instance"] for one in each["holders"] if one["function"] == name] for each in slices}

    def instances(self, name):
        return {instance for held in self.holders(name).values() for instance in held}

    def channels(self, name):
        """The folders of shared memory in which stages of a function hand on what they make, as their processes see them mounted."""
        folders = set()
        for sandbox in self.worker.sandboxes():
            if sandbox["function"] != name:
                continue
            for line in pathlib.Path(f"/proc/{sandbox['pid']}/mountinfo").read_text().splitlines():
                root = line.split()[3]
                if root.startswith("/lambent-") and root.rpartition("/")[2].isdigit():
                    folders.add(pathlib.Path("/dev/shm") / root[1:].rpartition("/")[0])
        return folders

    def test_a_fault_costs_its_request_and_nothing_else(self):
        modules = {"app.py": APP, "torch.py": TORCH}
        self.worker.create("neighbour", make_zip({**modules, "neighbour.py": NEIGHBOUR}), handler="neighbour.handler", timeout=60,
                           tags={"lambent:gpu-memory": "32GiB"})
        expected = self.good("neighbour")
        self.worker.create("faulty", make_zip({**modules, "pipeline.json": json.dumps(PIPELINE), "profile.json": json.dumps(PROFILE)}),
                           handler="pipeline.json", timeout=60, tags={"lambent:kind": "pipeline", "lambent:gpu-memory": "16GiB"})
        first = self.good()
        self.assertEqual(first["numbers"], expected["numbers"])
        self.assertEqual([[each["components"] for each in stage] for stage in
                          self.worker.request("GET", "/v1/functions/faulty/pipeline").json["instances"][0]["stages"]], [[["first"]], [["second"]]])
        neighbour = Neighbour(lambda: self.good("neighbour"))
        try:
            for component, do, says in (("first", "raise", "ValueError: .*no such picture"),
                                        ("first", "change", "RuntimeError: .*shapes cannot be multiplied"),
                                        ("first", "leave", "a tensor on meta cannot be handed on")):
                self.assertRegex(self.error(component, do), f"(?s){says}")
                self.assertEqual(self.good(), first, f"after '{do}', by the processes of before")
            for component, do, says in (("first", "exit", r"exit status 7 in stage 0 \(first\)"),
                                        ("second", "segfault", r"signal: 11 in stage 1 \(second\)"),
                                        ("second", "exit", r"exit status 7 in stage 1 \(second\)")):
                self.check_end(component, do, says)
                before = len(neighbour.answers)
                self.worker.wait_for(lambda: neighbour.failures or len(neighbour.answers) > before, what="the neighbour's next answer")
        finally:
            neighbour.stop()
        self.assertEqual(neighbour.failures, [])
        self.assertEqual([each for each in neighbour.answers if each != expected], [], "one process, which has all of its slice")
        last = self.channels("faulty")
        self.worker.delete("faulty")
        self.worker.wait_for(lambda: not any(each["holders"] for each in self.worker.request("GET", "/v1/slices").json["slices"]), what="free slices")
        self.worker.wait_for(lambda: not any(folder.exists() for folder in last), what="the end of the shared memory")

    def check_end(self, component, do, says):
        """A process ends under a request. Its message says where and how; the stages start again and find all that those before them had."""
        before, instances, folders = self.good(), self.instances("faulty"), self.channels("faulty")
        self.assertEqual(len(folders), 1)
        self.assertRegex(self.error(component, do), f"Runtime.ExitError: .*{says} on slice")
        after = self.good()
        self.assertEqual(after["numbers"], before["numbers"])
        self.assertEqual({name: each["free"] for name, each in after["about"].items()},
                         {name: each["free"] for name, each in before["about"].items()}, "the slices' memory is had again")
        for name, about in after["about"].items():
            self.assertNotEqual(about["process"], before["about"][name]["process"], name)
        self.worker.wait_for(lambda: not instances & self.instances("faulty"), what="the end of what was there")
        held = [held for held in self.holders("faulty").values() if held]
        self.assertEqual([len(each) for each in held], [1, 1], "a slice for each stage, of one instance")
        self.worker.wait_for(lambda: not any(folder.exists() for folder in folders), what="the end of the shared memory")
        now = self.channels("faulty")
        self.assertEqual(len(now), 1)
        self.assertEqual(set(next(iter(now)).parent.iterdir()), now)
