"""PyTorch in sandboxes: torch.compile with the cache that examples/32_torch_compile keeps, and DataLoaders with worker processes."""
import base64
import time
import unittest

from frameworks import FrameworkTest

# The example's handler, with the compilers that its process has started. Those that are asked for their version only write no output.
WATCHED = """
import sys

COMPILED = []


def watch(event, arguments):
    if event == "subprocess.Popen":
        words = arguments[1].split() if isinstance(arguments[1], str) else [str(word) for word in arguments[1]]
        if "-o" in words:
            COMPILED.append(words)


sys.addaudithook(watch)
import app


def handler(event, context):
    answer = app.handler(event, context)
    return {"answer": answer, "compiled": len(COMPILED)}
"""
LOADER = """
import torch
from torch.utils.data import DataLoader, Dataset


class Rows(Dataset):
    def __init__(self, count, width):
        self.count, self.width = count, width

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return torch.full((self.width,), float(index)), torch.utils.data.get_worker_info().id


def handler(event, context):
    loader = DataLoader(Rows(event["count"], event["width"]), batch_size=4, num_workers=2)
    total, workers = 0.0, set()
    for rows, by in loader:
        total += float(rows[:, -1].sum())
        workers.update(by.tolist())
    return {"total": total, "workers": sorted(workers)}
"""
PYTHON = '\n[python]\nrequirements = ["torch", "numpy"]\npreload = ["torch"]\n'
LOADER_MANIFEST = 'name = "loader"\nruntime = "python3"\nhandler = "app.handler"\nmemory = "4G"\ntimeout_s = 120\n{more}' + PYTHON
SMALL = {"count": 64, "width": 1000}
LARGE = {"count": 32, "width": 4_000_000}  # 64 MB a batch


class CompiledTest(FrameworkTest):
    def start_cold(self, line):
        """Deploys the example as a new revision, so that the next call finds no sandbox."""
        (self.example / "watched.py").write_text(WATCHED + f"\n# {line}\n")
        self.lambent("deploy", str(self.example))
        began = time.monotonic()
        told = self.answer("torch_compile", {"x": [1, 2, 3, 4]})
        print(f"{line}: {told['compiled']} compilations, {time.monotonic() - began:.1f} s")
        return told

    def test_a_cold_start_with_the_saved_cache_compiles_nothing(self):
        self.example = self.copy_of("32_torch_compile")
        manifest = self.example / "lambent.toml"
        manifest.write_text(manifest.read_text().replace("app.handler", "watched.handler"))
        self.lambent("volumes", "create", "torch_cache")
        first = self.start_cold("nothing saved")
        self.assertGreater(first["compiled"], 0)
        self.assertEqual(self.start_cold("still nothing saved"), first)
        packed = base64.b64decode(self.answer("torch_compile", {"save": True})["answer"])
        saved = self.folder / "cache.tar.gz"
        saved.write_bytes(packed)
        self.lambent("volumes", "put", "torch_cache", str(saved))
        self.assertEqual(self.start_cold("saved"), {"answer": first["answer"], "compiled": 0})


class DataLoaderTest(FrameworkTest):
    def deploy(self, more=""):
        self.lambent("deploy", str(self.write("loader", LOADER, LOADER_MANIFEST.format(more=more))))

    def test_workers_hand_batches_over_in_shared_memory(self):
        self.deploy()
        self.assertEqual(self.answer("loader", SMALL), {"total": sum(range(64)), "workers": [0, 1]})

    def test_batches_that_do_not_fit_are_told_and_fit_with_more_shared_memory(self):
        self.deploy()
        reply = self.worker.invoke("loader", LARGE, timeout=120)
        self.assertIn("x-amz-function-error", reply.headers)
        self.assertIn("unable to allocate shared memory(shm)", reply.json["errorMessage"])
        self.assertIn("No space left on device", reply.json["errorMessage"])
        self.deploy('shared_memory = "1G"\n')
        self.assertEqual(self.answer("loader", LARGE), {"total": sum(range(32)), "workers": [0, 1]})


if __name__ == "__main__":
    unittest.main()
