#!/usr/bin/env python3
"""Kernel functions beside eTasks through a real worker, on an emulated node of four GPUs: the paper's chained products.

Usage: paper_kaas_worker.py [--quick] [--out FILE]

The same three products with constant matrices, as kernel functions (example 07, under cfs-affinity) and as a Python function
that holds its GPU (example 12, under exclusive), 1, 4 and 8 clients with a function each, by `lambent load`. Kernels take their
modelled time; everything else (processes, Python, sockets, executors) is real and shares this machine's cores with the clients.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from last_line import write_last_line
from worker_under_test import PREFIX, PROGRAMS, ROOT, Worker, machine

GPUS = 4
SIZE = 256


def run(*command, **options):
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
    if done.returncode:
        raise SystemExit(f"{' '.join(str(part) for part in command[:3])}: {done.stderr[-1500:] or done.stdout[-1500:]}")
    return done.stdout


def node(folder):
    """Four of the preset's GPU."""
    presets = [path for path in PREFIX.rglob("v100-16gb.toml")] or [ROOT / "src/emulator/emulated_node/presets/v100-16gb.toml"]
    text = presets[0].read_text()
    path = folder / "node.toml"
    path.write_text(text.replace("devices = 1", f"devices = {GPUS}", 1))
    return path


def kernel_package(folder):
    package = folder / "kernel"
    run(sys.executable, "-B", ROOT / "examples/07_kernel_matmul_chain/build.py", "--size", SIZE, "--launch-mode", "model", package,
        env={**os.environ, "PYTHONPATH": str(ROOT / "python")})
    manifest = package / "lambent.toml"
    # One kernel function on each GPU at a time, as the eTask may.
    text = manifest.read_text()
    if "max_concurrency" not in text:
        manifest.write_text(text.replace("\n[", f"\nmax_concurrency = {GPUS}\n\n[", 1) if "\n[" in text else text + f"max_concurrency = {GPUS}\n")
    return package


def etask_package(folder):
    package = folder / "etask"
    package.mkdir()
    source = PREFIX / "examples/12_etask_matmul_chain"
    (package / "app.py").write_bytes((source / "app.py").read_bytes())
    text = (source / "lambent.toml").read_text().replace('"compute"', '"model"')
    bundle = (source / "../../share/lambent/kernels/blas").resolve()
    text = text.replace("../../share/lambent/kernels/blas", str(bundle))
    (package / "lambent.toml").write_text(text + f'\n[environment]\nMATRIX_SIZE = "{SIZE}"\n')
    return package


def measure(policy, package, clients, seconds, folder):
    payload = folder / "x"
    payload.write_bytes(b"\0\0\x80?" * (SIZE * SIZE))
    with Worker("--gpu", f"emulated:{node(folder)}", "--policy", policy, "--concurrency", "1", "--drain", "1") as worker:
        names = [f"f{i}" for i in range(clients)]
        for name in names:
            run(PROGRAMS / "lambent", "deploy", package, "--name", name, "--endpoint", worker.endpoint)
        found = json.loads(run(PROGRAMS / "lambent", "load", *names, "--clients", clients, "--outstanding", 2, "--online", "--seconds", seconds,
                               "--warm-up", max(1.0, seconds / 4), "--file", payload, "--content-type", "application/octet-stream",
                               "--json", "--endpoint", worker.endpoint, timeout=600))
    for one in found:
        del one["cdf"]
    return dict(zip(("offline", "online"), found))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out")
    options = parser.parse_args()
    seconds = 3 if options.quick else 15
    around = machine()
    rows = []
    print(f"{'QUICK RUN; ' if options.quick else ''}emulated node, {GPUS} GPUs; real processes on {around['cores']} cores")
    print(f"{'clients':>7} {'system':10} {'answers/s':>10} {'p50 ms':>9} {'p90 ms':>9}  starts, errors (offline)")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        systems = (("ktask", "cfs-affinity", kernel_package(folder)), ("etask", "exclusive", etask_package(folder)))
        for clients in (1, 8) if options.quick else (1, 4, 8):
            for system, policy, package in systems:
                row = {"clients": clients, "system": system, "policy": policy, **measure(policy, package, clients, seconds, folder)}
                rows.append(row)
                off, on = row["offline"], row["online"]
                print(f"{clients:7} {system:10} {off['throughput']:10.1f} {on['p50_ms'] or 0:9.2f} {on['p90_ms'] or 0:9.2f}  {off['starts']} {off['errors']}", flush=True)
    result = {"bench": "paper-kaas-worker", "quick": options.quick, "emulated": True, "machine": around, "rows": rows}
    write_last_line(result, options.out)


if __name__ == "__main__":
    main()
