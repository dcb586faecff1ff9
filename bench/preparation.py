#!/usr/bin/env python3
"""bench preparation: what has to be done once, before a function's first request, by what does it: kernels compiled into bundles, models
compiled to kernels, components of a pipeline measured. The StreamBox paper's offline preparation is the counterpart: 36 s of profiles and 4 s
of transformed kernels for a model. Real time, and the processors' time beside it, which a crowded machine does not stretch; emulated GPU.

Usage: preparation.py [--quick] [--out FILE] [--model FILE.onnx ...], with the Python that has lambent[onnx] for models
"""
import argparse
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

from last_line import write_last_line
from worker_under_test import PREFIX, Worker, machine

BUNDLE = PREFIX / "bin/lambent-bundle"
KERNELS = PREFIX / "share/lambent/kernels"
PIPELINE = PREFIX / "examples/17_pipeline_image"
EVENT = {"size": 64, "noise": 0.5}


def timed(words, **more):
    """{"s": real time, "cpu_s": of this process's children}; SystemExit if it fails."""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False, **more)
    took, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"{words[0]}: {done.stderr[-2000:]}")
    return {"s": round(took, 3), "cpu_s": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 3)}


def compile_bundles(folder, quick):
    """Of each bundle that comes with Lambent: for the host alone, and for GPUs as well."""
    rows = {}
    for source in sorted(KERNELS.glob("*/src/*.cu"))[-1 if quick else 0:]:
        name = source.stem
        row = {"host": timed([BUNDLE, "build", source, "-o", folder / f"{name}.host", "--host-only"]),
               "all": timed([BUNDLE, "build", source, "-o", folder / name])}
        manifest = json.loads((folder / name / "manifest.json").read_text())
        rows[name] = {**row, "kernels": len(manifest["kernels"]), "images": len(manifest["targets"])}
    return rows


def compile_models(folder, models):
    """Of each: read and turned into kernels, and these compiled for the host."""
    environment = {**os.environ, "PYTHONPATH": str(PREFIX / "share/lambent/python")}
    rows = {}
    for model in models:
        package = folder / f"model-{model.stem}"
        read = timed([sys.executable, "-m", "lambent.onnx", model, package], env=environment)
        built = [timed([BUNDLE, "build", source, "-o", folder / f"{model.stem}-{source.stem}", "--host-only"]) for source in sorted(package.glob("*.cu"))]
        rows[model.stem] = {"read": read, "host": {key: round(sum(each[key] for each in built), 3) for key in ("s", "cpu_s")}}
    return rows


def measure_pipeline(quick):
    """The profile of the pipeline among the examples on a slice of each shape, by `lambent profile`; its processes are the worker's."""
    with Worker("--gpu", "emulated:a100-80gb-mig", "--pipeline-slices", "all") as worker:
        environment = {**os.environ, "LAMBENT_ENDPOINT": worker.endpoint}
        lambent = PREFIX / "bin/lambent"
        deployed = timed([lambent, "deploy", PIPELINE], env=environment)
        repeat = 3 if quick else 20
        profiled = timed([lambent, "profile", "image_filters", "-d", json.dumps(EVENT), "--repeat", repeat], env=environment)
        shapes = json.loads(worker.request("GET", "/v1/functions/image_filters/pipeline"))["profile"]["shapes"]
        return {"deploy_s": deployed["s"], "profile_s": profiled["s"], "repeat": repeat, "shapes": sorted(shapes), "components": 4}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one bundle, few repeats")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--model", type=pathlib.Path, nargs="*", default=[], help="files to be compiled to kernels as well")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        result = {"bench": "preparation", "quick": options.quick, "machine": machine(), "bundles": compile_bundles(folder, options.quick),
                  "models": compile_models(folder, options.model), "pipeline": measure_pipeline(options.quick)}
    write_last_line(result, options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
