#!/usr/bin/env python3
"""The shim and moves of memory on this machine's GPU: real programs bare, under the shim, and moved; benches; probes. See README.md.

Writes one JSON object after every step, so that what was measured before it was cut off is kept, and prints a table; ends with 1 if
anything that could be checked was wrong.
"""
import argparse
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

import machine

HERE = pathlib.Path(__file__).resolve().parent
# The steps, what matters most first: who has little time gets that.
PROGRAMS = ["driver_memory.py", "cublas_gemm.py", "torch_steps.py", "llm_generate.py"]
STEPS = ["driver_memory", "swap", "torch_steps", "cublas_gemm", "llm_generate", "shim", "checkpoint", "green_contexts", "blas"]
# How a program is run: the words before it. Those that move must have moved to say anything.
WAYS = {
    "bare": None,
    "off": ["--mode", "off"],
    "vmm": ["--mode", "vmm"],
    "moved": ["--mode", "vmm", "--move-every", "300"],
    "touched": ["--mode", "vmm", "--move-every", "300", "--working-set", "touched"],
    "uvm": ["--mode", "uvm"],
    "uvm_moved": ["--mode", "uvm", "--move-every", "300"],
}
LIMIT_S = 180  # for one program in one way, or one bench
LEAST_S = 20   # with less left nothing is begun


class Stopped(Exception):
    pass


def last_line(text):
    return (text.strip().splitlines() or [""])[-1]


class Acceptance:
    def __init__(self, options):
        self.options = options
        self.prefix = options.prefix.resolve()
        self.end = time.monotonic() + options.minutes * 60
        self.environment = dict(os.environ)
        self.shim = [str(self.prefix / "bin/lambent-shim")]
        # Of a pack: for our own programs alone, for others bring their own.
        self.libraries = str(options.libraries.resolve()) if options.libraries else None
        self.driver = None
        self.result = {"name": "gpu-acceptance", "emulated": options.emulated, "complete": False, "machine": {}, "programs": {},
                       "failures": [], "not_checked": {}}

    def keep(self):
        self.options.out.write_text(json.dumps(self.result, indent=1) + "\n")

    def fail(self, what):
        self.result["failures"].append(what)
        print("FAILED: " + what, flush=True)

    def cannot(self, what, why):
        self.result["not_checked"][what] = why.strip()[-400:]

    def run(self, command, environment):
        """What it wrote and how it ended; a process that hangs goes with all that it has started."""
        left = self.end - time.monotonic()
        if left < LEAST_S:
            raise Stopped("no time was left (--minutes)")
        limit = min(LIMIT_S, left)
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
                                   text=True, errors="replace", start_new_session=True)
        try:
            out, err = process.communicate(timeout=limit)
            return process.returncode, out, err
        except subprocess.TimeoutExpired:
            raise Stopped(f"not over after {limit:.0f} s") from None
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()

    def with_libraries(self, environment):
        """For one of our own programs."""
        path = ":".join(filter(None, [self.libraries, environment.get("LD_LIBRARY_PATH")]))
        return {**environment, "LD_LIBRARY_PATH": path} if self.libraries else environment

    def command(self, program, way):
        """The words that run a program, and their environment: the program sees the loader's path that we were given."""
        words = [self.options.python, "-B", str(HERE / program)]
        if WAYS[way] is None:
            return words, self.environment
        if self.libraries:
            path = self.environment.get("LD_LIBRARY_PATH")
            words = ["env", *(["LD_LIBRARY_PATH=" + path] if path else ["-u", "LD_LIBRARY_PATH"]), *words]
        return [*self.shim, *WAYS[way], "--", *words], self.with_libraries(self.environment)

    def check_program(self, program):
        rows = {}
        answer, rate = None, None
        for way in WAYS:
            if way != "bare" and way not in self.options.ways:
                continue
            row = rows[way] = {}
            start = time.monotonic()
            try:
                status, out, err = self.run(*self.command(program, way))
            except Stopped as stopped:
                del rows[way]
                self.cannot(f"{program} {way}", str(stopped))
                if str(stopped).startswith("not over"):
                    self.fail(f"{program} {way}: {stopped}")
                if way == "bare":
                    break
                continue
            row["seconds"] = round(time.monotonic() - start, 3)
            if status != 0 and way == "bare":
                del rows[way]
                self.cannot(program, last_line(err) or f"status {status}")
                break
            if status != 0:
                row["error"] = f"status {status}: {err.strip()[-400:]}"
                self.fail(f"{program} {way}: {last_line(err)}")
                continue
            answer = out if way == "bare" else answer
            row["same"] = out == answer
            said = re.findall(r"^rate ([\d.]+) (.*)$", err, re.MULTILINE)
            if said:
                row["rate"], row["of"] = float(said[-1][0]), said[-1][1]
                rate = row["rate"] if way == "bare" else rate
                row["of_bare"] = round(row["rate"] / rate, 4) if rate else None
            self.look_at_words(program, way, row, err)
            if not row["same"]:
                self.fail(f"{program} {way}: another answer than bare")
            print(f"{program:18} {way:10} {row['seconds']:8.1f} s  {row.get('rate', '-'):>10}  {row.get('of_bare') or '':<7} "
                  f"{'same answer' if row['same'] else 'ANOTHER ANSWER'}  {row.get('moves', '')}", flush=True)
        if rows:
            self.result["programs"][program] = rows

    def look_at_words(self, program, way, row, err):
        """What the shim itself said on standard error."""
        row["words"] = [line for line in err.strip().splitlines() if "rate " not in line][-12:]
        if WAYS[way] is None or "--move-every" not in WAYS[way]:
            return
        said = re.findall(r"moved out (\d+) times, (.*)$", err, re.MULTILINE)
        row["moves"] = f"{said[-1][0]} moves: {said[-1][1]}" if said else "no word of moves"
        if not said or int(said[-1][0]) == 0:
            self.cannot(f"{program} {way}", "its memory was never moved: " + row["moves"])

    def measure(self, name, command, environment):
        """Its last line is JSON; it may end with 1 and say there what is wrong."""
        try:
            status, out, err = self.run(command, environment)
            self.result[name] = json.loads(last_line(out))
        except (Stopped, OSError) as error:
            return self.cannot(name, str(error))
        except ValueError:
            return self.cannot(name, err.strip() or f"status {status}")
        print(out, flush=True)
        if status != 0:
            self.fail(f"{name}: status {status}: {last_line(err)}")
        return None

    def bench(self, name, flags):
        self.measure(name, [str(self.prefix / f"bin/{name}_bench"), "--quick", *flags], self.with_libraries(dict(os.environ)))

    def probe(self, name, program):
        self.measure(name, [self.options.python, "-B", str(HERE / program)], self.environment)

    def step(self, name):
        emulated = self.options.emulated
        if name + ".py" in PROGRAMS:
            return self.check_program(name + ".py")
        if name == "shim":
            flags = [] if emulated else ["--driver", self.driver]
            return self.bench(name, [*flags, "--shim", str(self.prefix / "lib/shim/liblambent_shim.so")])
        if name == "swap":
            return self.bench(name, [] if emulated else ["--real", self.driver])
        if name == "blas":
            return self.compare_blas()
        return self.probe(name, name + "_probe.py")

    def compare_blas(self):
        # The bundle of linear algebra: of a build, or of a pack.
        built = self.prefix / "share/lambent/kernels/blas"
        flags = ["--kernels", str(built if built.exists() else self.prefix / "data/blas")]
        emulated = self.options.emulated
        for library in [str(self.prefix / "lib/testing/libcublas_double.so")] if emulated else cublas_libraries():
            flags += ["--cublas", library]
        self.bench("blas", flags + (["--edge", "24"] if emulated else []))  # the host computes it
        if self.result.get("blas", {}).get("beyond_tolerance", 0) > 0:
            self.fail("blas: cuBLAS and our kernels disagree")

    def judge(self):
        """What the figures have to be, where they are a GPU's."""
        if self.result.get("checkpoint", {}).get("memory") == "changed":
            self.fail("checkpoint: memory has changed")
        if self.result.get("green_contexts", {}).get("shares_memory") is False:
            self.fail("green_contexts: two contexts of one process do not see the same memory")

    def all(self, folder):
        if self.options.emulated:
            self.shim.append("--emulated")
            self.environment.update(EMULATED_CUDA_NODE=os.path.join(folder, "node"), EMULATED_CUDA_CONFIG="v100-16gb",
                                    LD_LIBRARY_PATH=str(self.prefix / "lib/emulated"))
            self.driver = str(self.prefix / "lib/emulated/libcuda.so.1")
        else:
            self.driver = self.options.driver or machine.find_driver()
            if not self.driver or not os.path.exists(self.driver):
                sys.exit(f"no libcuda.so.1 at {self.driver or 'a usual place'}: name the driver's with --driver")
            self.shim += ["--driver", self.driver]
        try:  # in a process of its own: a driver that was asked must not stay with us
            status, out, err = self.run([self.options.python, "-B", str(HERE / "machine.py"), self.driver], self.environment)
            self.result["machine"] = json.loads(last_line(out))
        except (Stopped, OSError, ValueError) as error:
            self.cannot("machine", str(error))
        print(json.dumps(self.result["machine"]), flush=True)
        self.keep()
        for name in self.options.only or STEPS:
            start = time.monotonic()
            self.step(name)
            self.result.setdefault("took_s", {})[name] = round(time.monotonic() - start, 1)
            self.keep()
        self.judge()
        for name in STEPS:
            if self.options.only and name not in self.options.only:
                self.cannot(name, "not asked for (--only)")
        self.result["complete"] = True
        self.keep()


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
    parser.add_argument("--driver", help="path of NVIDIA's libcuda.so.1, if not the loader's or a usual one")
    parser.add_argument("--python", default=sys.executable, help="the Python of the programs: one that has PyTorch")
    parser.add_argument("--libraries", type=pathlib.Path, help="folder of libraries that Lambent's own programs need")
    parser.add_argument("--only", nargs="+", choices=STEPS, help="these steps alone, in this order")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS), help="of running a program, these; bare is always one")
    parser.add_argument("--minutes", type=float, default=25, help="begin nothing new after so long")
    parser.add_argument("--emulated", action="store_true", help="a dry run on the emulated GPU")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("gpu-acceptance.json"))
    options = parser.parse_args()
    acceptance = Acceptance(options)
    with tempfile.TemporaryDirectory() as folder:
        acceptance.all(folder)
    for name, reason in acceptance.result["not_checked"].items():
        print(f"not checked: {name}: {reason}")
    print(f"{len(acceptance.result['failures'])} failures; {options.out}")
    return 1 if acceptance.result["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
