#!/usr/bin/env python3
"""A real program on this machine's GPU bare, under the shim, and moved; or the built-in linear algebra beside cuBLAS. See README.md.

Its last line is a JSON object. It ends with 1 if anything that could be checked was wrong, with 77 if nothing could be checked.
"""
import argparse
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = ["driver_memory", "torch_steps", "cublas_gemm", "onnx_session", "llm_generate"]
# NVIDIA's runtime is in these, and does not run over an emulated driver.
OVER_NVIDIAS_RUNTIME = PROGRAMS[1:]
NOT_HERE = 77  # the exit status of a program that lacks what it needs
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
LEAST_S = 5    # with less left nothing is begun
MARGIN_S = 3   # to tell of it before the step itself is ended


class Stopped(Exception):
    pass


def last_line(text):
    return (text.strip().splitlines() or [""])[-1]


class Acceptance:
    def __init__(self, options):
        self.options = options
        self.prefix = options.prefix.resolve()
        self.end = time.monotonic() + options.seconds - MARGIN_S
        self.environment = dict(os.environ)
        self.shim = [str(self.prefix / "bin/lambent-shim")]
        # Of a pack: for our own programs alone, for others bring their own.
        self.libraries = str(options.libraries.resolve()) if options.libraries else None
        self.result = {"ways": {}, "failures": [], "not_checked": {}}

    def fail(self, what):
        self.result["failures"].append(what)
        print("FAILED: " + what, file=sys.stderr, flush=True)

    def cannot(self, what, why):
        self.result["not_checked"][what] = why.strip()[-400:]

    def run(self, command, environment):
        """What it wrote and how it ended; a process that hangs goes with all that it has started."""
        left = self.end - time.monotonic()
        if left < LEAST_S:
            raise Stopped("no time was left")
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
        words = [sys.executable, "-B", str(HERE / (program + ".py"))]
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
            if way == "bare" and (status == NOT_HERE or (status != 0 and self.options.emulated and program in OVER_NVIDIAS_RUNTIME)):
                del rows[way]
                self.cannot(program, last_line(err) or f"status {status}")
                break
            if status != 0:
                row["error"] = f"status {status}: {err.strip()[-400:]}"
                self.fail(f"{program} {way}: {last_line(err) or f'status {status}'}")
                if way == "bare":
                    break
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
            print(f"{program:14} {way:10} {row['seconds']:8.1f} s  {row.get('rate', '-'):>10}  {row.get('of_bare') or '':<7} "
                  f"{'same answer' if row['same'] else 'ANOTHER ANSWER'}  {row.get('moves', '')}", flush=True)
        self.result["ways"] = rows

    def look_at_words(self, program, way, row, err):
        """What the shim itself said on standard error."""
        row["words"] = [line for line in err.strip().splitlines() if "rate " not in line][-12:]
        if WAYS[way] is None or "--move-every" not in WAYS[way]:
            return
        said = re.findall(r"moved out (\d+) times, (.*)$", err, re.MULTILINE)
        row["moves"] = f"{said[-1][0]} moves: {said[-1][1]}" if said else "no word of moves"
        if not said or int(said[-1][0]) == 0:
            self.cannot(f"{program} {way}", "its memory was never moved: " + row["moves"])

    def compare_blas(self):
        """The bundle of linear algebra, of a build or of a pack, beside cuBLAS where that is; on an emulated GPU beside a double of it."""
        built = self.prefix / "share/lambent/kernels/blas"
        emulated = self.options.emulated
        flags = ["--quick", "--kernels", str(built if built.exists() else self.prefix / "data/blas"), *(["--edge", "24"] if emulated else [])]
        for library in [str(self.prefix / "lib/testing/libcublas_double.so")] if emulated else cublas_libraries():
            flags += ["--cublas", library]
        try:
            status, out, err = self.run([str(self.prefix / "bin/blas_bench"), *flags], self.with_libraries(dict(os.environ)))
            self.result.update(json.loads(last_line(out)))
        except Stopped as error:
            return self.fail(f"blas: {error}")
        except ValueError:
            return self.fail(f"blas: {last_line(err) or f'status {status}'}")
        if status != 0:
            self.fail(f"blas: status {status}: {last_line(err)}")
        if self.result.get("beyond_tolerance", 0) > 0:
            self.fail("blas: cuBLAS and our kernels disagree")
        return None

    def step(self, name):
        if self.options.emulated:
            self.shim.append("--emulated")
            self.environment.update(EMULATED_CUDA_CONFIG="v100-16gb")
        elif not os.path.exists(self.options.driver):
            sys.exit(f"no libcuda.so.1 at {self.options.driver}: name the driver's with --driver")
        else:
            self.shim += ["--driver", self.options.driver]
        if name == "blas":
            self.compare_blas()
        else:
            self.check_program(name)


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
    parser.add_argument("--step", choices=[*PROGRAMS, "blas"], required=True)
    parser.add_argument("--prefix", type=pathlib.Path, default=pathlib.Path("build/release"))
    parser.add_argument("--driver", default="", help="path of NVIDIA's libcuda.so.1")
    parser.add_argument("--libraries", type=pathlib.Path, help="folder of libraries that Lambent's own programs need")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS), help="of running a program, these; bare is always one")
    parser.add_argument("--seconds", type=float, default=600, help="what is not over after so long is ended")
    parser.add_argument("--emulated", action="store_true", help="a dry run on the emulated GPU")
    options = parser.parse_args()
    acceptance = Acceptance(options)
    acceptance.step(options.step)
    for name, reason in acceptance.result["not_checked"].items():
        print(f"not checked: {name}: {reason}", file=sys.stderr)
    for failure in acceptance.result["failures"]:
        print(failure, file=sys.stderr)
    print(json.dumps(acceptance.result))
    if acceptance.result["failures"]:
        return 1
    return 0 if acceptance.result["ways"] or options.step == "blas" else NOT_HERE


if __name__ == "__main__":
    sys.exit(main())
