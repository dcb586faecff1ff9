#!/usr/bin/env python3
"""The shim and moves of memory on this machine's GPU: real programs bare, under the shim, and moved; benches; probes. See README.md.

Writes one JSON object and prints a table; ends with 1 if anything that could be checked was wrong.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = ["driver_memory.py", "cublas_gemm.py", "torch_steps.py", "llm_generate.py"]
# How it is run: the words before the program.
WAYS = {"bare": [], "off": ["--mode", "off"], "vmm": ["--mode", "vmm"],
        "moved": ["--mode", "vmm", "--move-every", "300"]}
LIMIT_S = 600


def run(command, environment):
    start = time.monotonic()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT_S)
    return done, time.monotonic() - start


def last_line(text):
    return (text.strip().splitlines() or [""])[-1]


def check_program(program, shim, environment, result):
    rows, answers = {}, {}
    for way, flags in WAYS.items():
        command = [sys.executable, "-B", str(HERE / program)]
        if way != "bare":
            command = [*shim, *flags, "--", *command]
        try:
            done, seconds = run(command, environment)
        except subprocess.TimeoutExpired:
            rows[way] = {"error": f"not over after {LIMIT_S} s"}
            continue
        if done.returncode != 0:
            if way == "bare":
                result["not_checked"][program] = last_line(done.stderr)
                return
            rows[way] = {"error": f"status {done.returncode}: {done.stderr.strip()[-400:]}"}
            continue
        answers[way] = done.stdout
        rows[way] = {"seconds": round(seconds, 3), "same": done.stdout == answers.get("bare")}
        if way == "moved":
            rows[way]["moves"] = last_line(done.stderr)
    result["programs"][program] = rows
    for way, row in rows.items():
        print(f"{program:20} {way:6} {row.get('seconds', '-'):>9} s   "
              f"{row.get('error') or ('same answer' if row['same'] else 'ANOTHER ANSWER')}")
        if "error" in row or not row["same"]:
            result["failures"].append(f"{program} {way}")


def measure(name, command, environment, result):
    """Its last line is JSON; it may end with 1 and say there what is wrong."""
    done, _ = run(command, environment)
    if done.returncode != 0 and not last_line(done.stdout).startswith("{"):
        result["not_checked"][name] = (done.stderr.strip() or f"status {done.returncode}")[-400:]
        return
    result[name] = json.loads(last_line(done.stdout))
    print(done.stdout)


def find_kernels(prefix):
    """The bundle of linear algebra: of a build, or of a pack."""
    built = prefix / "share/lambent/kernels/blas"
    return built if built.exists() else prefix / "data/blas"


def cublas_libraries():
    """Those that may be here: by the loader's paths, of toolkits, and of Python's packages; newer ones first."""
    found = []
    for name in ("libcublas.so.13", "libcublas.so.12"):
        found.append(name)
        folders = [pathlib.Path("/usr/local/cuda/lib64")]
        for path in sys.path:
            folders += sorted(pathlib.Path(path).glob("nvidia/*/lib"))
        found += [str(folder / name) for folder in folders if (folder / name).exists()]
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prefix", type=pathlib.Path, default=pathlib.Path("build/release"))
    parser.add_argument("--driver", default="/usr/lib/x86_64-linux-gnu/libcuda.so.1", help="path of NVIDIA's libcuda.so.1")
    parser.add_argument("--emulated", action="store_true", help="a dry run on the emulated GPU")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("gpu-acceptance.json"))
    options = parser.parse_args()
    prefix = options.prefix.resolve()
    result = {"name": "gpu-acceptance", "emulated": options.emulated, "programs": {}, "failures": [], "not_checked": {}}
    shim = [str(prefix / "bin/lambent-shim")]
    environment = dict(os.environ)
    with tempfile.TemporaryDirectory() as folder:
        if options.emulated:
            shim.append("--emulated")
            environment.update(EMULATED_CUDA_NODE=os.path.join(folder, "node"), EMULATED_CUDA_CONFIG="v100-16gb",
                               LD_LIBRARY_PATH=str(prefix / "lib/emulated"))
            drivers = {"shim": [], "swap": []}
        else:
            shim += ["--driver", options.driver]
            drivers = {"shim": ["--driver", options.driver], "swap": ["--real", options.driver]}
        for program in PROGRAMS:
            check_program(program, shim, environment, result)
        drivers["shim"] += ["--shim", str(prefix / "lib/shim/liblambent_shim.so")]
        for name in ("shim", "swap"):
            measure(name, [str(prefix / f"bin/{name}_bench"), "--quick", *drivers[name]], os.environ, result)
        blas = [str(prefix / "bin/blas_bench"), "--quick", "--kernels", str(find_kernels(prefix))]
        for library in [str(prefix / "lib/testing/libcublas_double.so")] if options.emulated else cublas_libraries():
            blas += ["--cublas", library]
        if options.emulated:
            blas += ["--edge", "24"]  # the host computes it
        measure("blas", blas, environment, result)
        measure("checkpoint", [sys.executable, "-B", str(HERE / "checkpoint_probe.py")], environment, result)
    if result.get("blas", {}).get("beyond_tolerance", 0) > 0:
        result["failures"].append("blas: cuBLAS and our kernels disagree")
    if result.get("checkpoint", {}).get("memory") == "changed":
        result["failures"].append("checkpoint: memory has changed")
    options.out.write_text(json.dumps(result, indent=1) + "\n")
    for name, reason in result["not_checked"].items():
        print(f"not checked: {name}: {reason}")
    print(f"{len(result['failures'])} failures; {options.out}")
    return 1 if result["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
