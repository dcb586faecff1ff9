#!/usr/bin/env python3
"""bench infer: requests a second and latencies of one small ONNX model by the Open Inference Protocol, JSON over HTTP: through a
worker, by lambent-model-server by itself, and by other servers with the same onnxruntime, in one run. And of a wide model, whose weights are
read for each run, with batches of several requests and without, through the worker and by lambent-model-server.

docs/internals/benchmarks.md says what each figure means. Usage: infer.py [--quick] [--repeats N] [--seconds S] [--peers]
--peers installs MLServer, LitServe, BentoML and KServe's server into build/peer (bench/peers/requirements.txt).
"""
import argparse
import contextlib
import json
import os
import pathlib
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

from peer_environment import ENVIRONMENTS, PEERS as PEER_FILES, environment_of
from worker_under_test import PREFIX, PROGRAMS, ROOT, Worker, machine, make_zip

sys.path.insert(0, str(ROOT / "examples/20_python_packages"))
from make_model import field, value_info  # noqa: E402

CLIENTS = (1, 8, 32)
ROWS, COLUMNS = 64, 16
REQUEST = json.dumps({"inputs": [{"name": "x", "shape": [1, ROWS], "datatype": "FP32", "data": [0.5] * ROWS}]})
WIDE, LAYERS, BATCH, BATCH_SLO_MS = 1024, 4, 16, 20
BATCHES = ["--batch", str(BATCH)]
BATCHES_SLO = [*BATCHES, "--batch-slo-ms", str(BATCH_SLO_MS)]
WIDE_REQUEST = json.dumps({"inputs": [{"name": "x", "shape": [1, WIDE], "datatype": "FP32", "data": [0.5] * WIDE}]})
EVENT = {"work": "model", "x": [[0.5] * ROWS]}  # the request where a server has a JSON of its own
PEERS = ("mlserver", "litserve", "bentoml", "kserve")


def model():
    """scores = x @ weights."""
    import struct
    weights = struct.pack(f"{ROWS * COLUMNS}f", *(i % 7 for i in range(ROWS * COLUMNS)))
    constant = field(1, ROWS) + field(1, COLUMNS) + field(2, 1) + field(8, "weights") + field(9, weights)
    node = field(1, "x") + field(1, "weights") + field(2, "scores") + field(4, "MatMul")
    graph = (field(1, node) + field(2, "bench") + field(5, constant) + field(11, value_info("x", ["n", ROWS]))
             + field(12, value_info("scores", ["n", COLUMNS])))
    return field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 13))


def wide_model():
    """LAYERS matrices, one behind the other: 16 MiB of weights for a row of 4 KiB."""
    import struct
    weights = struct.pack(f"{WIDE}f", *((i % 7 - 3) / WIDE for i in range(WIDE))) * WIDE
    names = ["x"] + [f"h{i}" for i in range(1, LAYERS)] + ["scores"]
    graph = field(2, "wide") + field(11, value_info("x", ["n", WIDE])) + field(12, value_info("scores", ["n", WIDE]))
    for i in range(LAYERS):
        graph += field(1, field(1, names[i]) + field(1, f"w{i}") + field(2, names[i + 1]) + field(4, "MatMul"))
        graph += field(5, field(1, WIDE) + field(1, WIDE) + field(2, 1) + field(8, f"w{i}") + field(9, weights))
    return field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 13))


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def load(address, path, clients, seconds, body=REQUEST):
    run = subprocess.run([str(PROGRAMS / "http_load"), "--connections", str(clients), "--seconds", str(seconds), "--warm-up", "0.5",
                          "--path", path, "--body", body, address], stdout=subprocess.PIPE, text=True, check=False)
    if run.returncode != 0:
        raise SystemExit(f"http_load on {path} failed: {run.stdout}")
    return json.loads(run.stdout)


@contextlib.contextmanager
def server(words, folder, port, path, body, environment=None):
    """A process that answers a POST on that path; yields its address."""
    log = open(pathlib.Path(folder) / "server.log", "wb")
    process = subprocess.Popen(words, cwd=folder, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True,
                               env={**os.environ, **(environment or {})})
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}{path}", body.encode(),
                                                              {"Content-Type": "application/json"}), timeout=5).read()
                break
            except (OSError, urllib.error.URLError) as error:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit(f"{words[0]} did not answer: {error}; see {folder}/server.log") from None
                time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, 15)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait(10)
        log.close()


def peer(name, folder, port):
    """One of the others, with one process: how it is started, where it answers, what it is asked, and its environment."""
    python = environment_of(name)
    words, path, body, environment = [python, f"{name}_app.py"], "/v2/models/m/infer", REQUEST, {}
    if name == "mlserver":
        (folder / "settings.json").write_text(json.dumps({"host": "127.0.0.1", "http_port": port, "grpc_port": free_port(),
                                                          "metrics_endpoint": None, "parallel_workers": 0, "debug": False}))
        (folder / "model-settings.json").write_text(json.dumps({"name": "m", "implementation": "mlserver_app.Peer"}))
        words = [python.parent / "mlserver", "start", "."]
    elif name == "litserve":
        words, path, body = [*words, port, 1], "/predict", json.dumps(EVENT)
    elif name == "bentoml":
        words = [python.parent / "bentoml", "serve", "bentoml_app:Peer", "--port", port, "--host", "127.0.0.1"]
        path, body, environment = "/work", json.dumps({"event": EVENT}), {"PEER_PROCESSES": "1", "BENTOML_DO_NOT_TRACK": "True"}
    else:
        words = [*words, "--http_port", port, "--workers", 1, "--enable_latency_logging", "false"]
    return [str(word) for word in words], path, body, {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1", **environment}


NO_LIBRARY = "there is no onnxruntime: run with --peers, or ./dev test first"


def find_library():
    """libonnxruntime of the peers, or of the tests' packages; None: there is none."""
    for packages in (*(ENVIRONMENTS / name for name in PEERS), ROOT / ".venv"):
        for found in packages.glob("lib/python3*/site-packages/onnxruntime/capi/libonnxruntime.so*"):
            return found
    return None


def library():
    found = find_library()
    if found is None:
        raise SystemExit(NO_LIBRARY)
    return found


def write_wheel(folder):
    """The library as a wheel of its own, for a worker without an index."""
    import zipfile
    lib, info = library(), "onnxruntime-1.0.dist-info"
    with zipfile.ZipFile(pathlib.Path(folder) / "onnxruntime-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("onnxruntime/__init__.py", "")
        wheel.write(lib, f"onnxruntime/capi/{lib.name}")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: onnxruntime\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: bench\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "".join(f"{name},,\n" for name in wheel.namelist()))


def create_model(worker, name, concurrency, content=None, flags=(), sandboxes=None):
    """A model, the small one unless said, as a function that takes so many requests at once in a sandbox, and so many sandboxes."""
    most = {"lambent:max-concurrency": str(sandboxes)} if sandboxes else {}
    worker.create(name, make_zip({"model.onnx": content or model(), ".lambent/python.json":
                                  json.dumps({"version": "", "requirements": ["onnxruntime"]}).encode()}), "python3",
                  " ".join(["lambent-model-server model.onnx --threads 1", *flags]),
                  tags={"lambent:kind": "http", "lambent:http-concurrency": str(concurrency), **most})


@contextlib.contextmanager
def through_worker(folder):
    wheels = folder / "wheels"
    wheels.mkdir()
    write_wheel(wheels)
    uv = shutil.which("uv") or str(ROOT / ".venv/bin/uv")
    # The peers refuse no request because it would wait for long, and neither does this worker.
    with Worker("--gpu", "none", "--max-queue-time", "0", "--uv", uv, "--python-wheels", str(wheels), "--python-offline") as worker:
        wide = wide_model()
        # One sandbox, as each peer has one process; of the model that takes one request at a time as many as it gets.
        models = {"m": (16, None, (), 1, REQUEST), "one": (1, None, (), None, REQUEST), "wide": (max(CLIENTS), wide, (), 1, WIDE_REQUEST),
                  "wide_batches": (max(CLIENTS), wide, BATCHES_SLO, 1, WIDE_REQUEST)}
        for name, (concurrency, content, flags, sandboxes, body) in models.items():
            create_model(worker, name, concurrency, content, flags, sandboxes)
            deadline = time.monotonic() + 120
            while True:
                try:
                    worker.request("POST", f"/v2/models/{name}/infer", body)
                    break
                except Exception:
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(0.2)
        yield worker.endpoint


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--peers", action="store_true")
    options = parser.parse_args()
    if options.quick:
        options.repeats, options.seconds = 1, 0.5
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = pathlib.Path(name)
        (folder / "model.onnx").write_bytes(model())
        (folder / "wide.onnx").write_bytes(wide_model())
        for source in PEER_FILES.glob("*.py"):
            shutil.copy(source, folder)
        endpoint = stack.enter_context(through_worker(folder))
        systems = {"worker": (endpoint, "/v2/models/m/infer", REQUEST),
                   "worker_one_at_a_time": (endpoint, "/v2/models/one/infer", REQUEST),
                   "worker_wide": (endpoint, "/v2/models/wide/infer", WIDE_REQUEST),
                   "worker_wide_batches_slo": (endpoint, "/v2/models/wide_batches/infer", WIDE_REQUEST)}
        for name, file, body, flags in (("model_server", "model.onnx", REQUEST, []), ("wide", "wide.onnx", WIDE_REQUEST, []),
                                        ("wide_batches", "wide.onnx", WIDE_REQUEST, BATCHES),
                                        ("wide_batches_slo", "wide.onnx", WIDE_REQUEST, BATCHES_SLO)):
            port = free_port()
            words = [str(PROGRAMS / "lambent-model-server"), file, "--onnxruntime", str(library()), "--threads", "1", "--name", "m",
                     "--port", str(port), *flags]
            path = "/v2/models/m/infer"
            systems[name] = (stack.enter_context(server(words, folder, port, path, body)), path, body)
        for name in PEERS if options.peers else ():
            port = free_port()
            words, path, body, environment = peer(name, folder, port)
            systems[name] = (stack.enter_context(server(words, folder, port, path, body, environment)), path, body)
        runs = {name: {n: [] for n in CLIENTS} for name in systems}
        for _ in range(options.repeats):
            for clients in CLIENTS:
                for name, (address, path, body) in systems.items():
                    runs[name][clients].append(load(address, path, clients, options.seconds, body))

    def middle(name, clients, key, digits):
        return round(statistics.median(run[key] for run in runs[name][clients]), digits)

    result = {"benchmark": "infer", "machine": machine(), "prefix": PREFIX.name, "systems": {
        name: {str(n): {"rps": middle(name, n, "rps", 0), "p50_us": middle(name, n, "p50_us", 1), "p99_us": middle(name, n, "p99_us", 1)}
               for n in CLIENTS} for name in systems}}
    result["over_peer"] = {peer: {str(n): round(statistics.median(
        own["rps"] / other["rps"] for own, other in zip(runs["worker"][n], runs[peer][n])), 2) for n in CLIENTS}
        for peer in systems if peer != "worker" and systems[peer][2] != WIDE_REQUEST}
    plain = {"wide_batches": "wide", "wide_batches_slo": "wide", "worker_wide_batches_slo": "worker_wide"}
    result["batches_over_none"] = {name: {str(n): round(statistics.median(
        own["rps"] / other["rps"] for own, other in zip(runs[name][n], runs[without][n])), 2) for n in CLIENTS}
        for name, without in plain.items()}
    for name in systems:
        print(name + ": " + "; ".join(f"{n} clients {middle(name, n, 'rps', 0):.0f}/s, p50 {middle(name, n, 'p50_us', 0):.0f} us, "
                                      f"p99 {middle(name, n, 'p99_us', 0):.0f} us" for n in CLIENTS))
    print(json.dumps(result))


if __name__ == "__main__":
    main()
