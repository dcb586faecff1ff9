#!/usr/bin/env python3
"""The tour: a worker on an emulated GPU, functions deployed and invoked as a user would, then one workload under five
schedulers, a table and a page of plots. Standard library only; stops and removes all that it started.
"""
import argparse
import contextlib
import json
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

PRESET = "emulated:v100-16gb"
# Modelled seconds per second, in the comparison: real delays count so many times. At 20 those of a busy machine decided the order;
# at 4 the means are within 5 % of the simulator's, also at a load of 12 on two cores.
TIME_SCALE = 4
MEMORY_SCALE = 64  # modelled bytes per byte: the workers of the comparison run at the same time
FUNCTIONS = 24
# Sandboxes that may stay warm: fewer than functions, as on a shared machine.
POOL = 16
CONCURRENCY = 2
# Device seconds asked for per second: enough for queues, which is where schedulers differ.
LOAD = 0.9
NOT_FOUND = 15  # the exit status of an unknown function

EXAMPLES = [
    ("01_python_vector_add", "vector_add", {"count": 1000, "check": True}),
    ("02_python_matmul", "matmul", {"size": 48, "check": True}),
    ("03_python_fft", "fft", {"points": 256, "check": True}),
    ("04_python_jacobi", "jacobi", {"size": 24, "check": True}),
]
NATIVE = ("05_native_handler", "native")
NATIVE_EVENTS = [{"kernel": what, "check": True} for what in ("vector_add", "matmul", "fft", "jacobi")]


class DemoError(Exception):
    pass


class Screen:
    """Shows what is done: headings, commands as a user would type them, what they printed."""

    def __init__(self):
        colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        self.bold, self.dim, self.off = ("\033[1m", "\033[2m", "\033[0m") if colour else ("", "", "")
        self.part = 0

    def heading(self, text):
        self.part += 1
        print(f"\n{self.bold}{self.part}. {text}{self.off}", flush=True)

    def note(self, text):
        print(f"   {self.dim}{text}{self.off}", flush=True)

    def command(self, arguments):
        print(f"{self.bold}$ lambent {' '.join(typed(a) for a in arguments)}{self.off}", flush=True)

    def output(self, text):
        for line in text.rstrip("\n").splitlines():
            print("  " + (line if len(line) <= 150 else line[:147] + "..."), flush=True)


def typed(argument):
    """As it would be typed in a shell."""
    argument = str(argument)
    if argument == "&":
        return argument
    return f"'{argument}'" if argument.startswith("{") else shlex.quote(argument)


class Worker:
    """A worker in a folder of its own, on a free port."""

    def __init__(self, prefix, folder, flags):
        self.folder = folder
        self.log_path = folder / "worker.log"
        endpoint = folder / "run/endpoint"
        with open(self.log_path, "ab") as log:
            # A session of its own: Ctrl-C reaches us, and we stop it in order.
            self.process = subprocess.Popen(
                [str(prefix / "bin/lambent"), "serve", "--listen", "127.0.0.1:0", "--state", str(folder / "state"),
                 "--run", str(folder / "run"), "--log-level", "warning", "--drain", "1", *flags],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        deadline = time.monotonic() + 60
        try:
            while not endpoint.exists():
                if self.process.poll() is not None:
                    raise DemoError("the worker did not start:\n" + self.log())
                if time.monotonic() > deadline:
                    raise DemoError("the worker did not listen within a minute:\n" + self.log())
                time.sleep(0.02)
        except BaseException:
            self.stop()
            raise
        self.endpoint = endpoint.read_text().strip()

    def log(self):
        return self.log_path.read_text(errors="replace")[-3000:]

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


class Demo:
    def __init__(self, prefix, work, report, results, quick):
        self.prefix, self.work, self.report, self.results, self.quick = prefix, work, report, results, quick
        self.screen = Screen()
        self.worker = None

    @contextlib.contextmanager
    def serve(self, name, *flags, show=True):
        folder = self.work / name
        folder.mkdir()
        if show:
            self.screen.command(["serve", *flags, "&"])
        begin = time.monotonic()
        self.worker = Worker(self.prefix, folder, flags)
        if show:
            self.screen.note(f"listening on {self.worker.endpoint} after {time.monotonic() - begin:.1f} s")
        try:
            yield
        finally:
            self.worker.stop()
            self.worker = None
            shutil.rmtree(folder, ignore_errors=True)

    def run(self, *arguments, expect=0, show=True):
        """Runs `lambent ARGUMENTS` as typed; what it printed on standard output."""
        if show:
            self.screen.command(arguments)
        done = subprocess.run([str(self.prefix / "bin/lambent"), *map(str, arguments)], cwd=self.prefix, text=True,
                              env={**os.environ, "LAMBENT_ENDPOINT": self.worker.endpoint}, capture_output=True,
                              timeout=120)
        if show:
            self.screen.output(done.stdout)
            self.screen.output(done.stderr)
        if done.returncode != expect:
            raise DemoError(f"'lambent {arguments[0]}' ended with status {done.returncode}, not {expect}\n{done.stdout}"
                            f"{done.stderr}\n{self.worker.log()}")
        return done.stdout

    def invoke(self, name, event):
        answer = json.loads(self.run("invoke", name, "-d", json.dumps(event)))
        if answer.get("correct") is not True:
            raise DemoError(f"{name} answered {answer}, which its check against the CPU did not find correct")

    def tour(self):
        screen = self.screen
        print(f"Commands as you would type them in {self.prefix}, with its bin on PATH.")
        screen.heading("A worker on an emulated GPU: real kernels, run by the CPU")
        with self.serve("tour", "--gpu", PRESET):
            self.run("version")
            screen.heading("Deploy: folders with a lambent.toml, in Python and in C++")
            for folder, _, _ in EXAMPLES:
                self.run("deploy", f"examples/{folder}")
            self.run("deploy", f"examples/{NATIVE[0]}")
            screen.heading("Invoke: the answer, and a line that says where the time went (the second is warm)")
            self.invoke(EXAMPLES[0][1], EXAMPLES[0][2])
            for _, name, event in EXAMPLES:
                self.invoke(name, event)
            for event in NATIVE_EVENTS:
                self.invoke(NATIVE[1], event)
            screen.heading("Asynchronously: acknowledged once it is on disk")
            event = json.dumps(NATIVE_EVENTS[0])
            invocation = self.run("invoke", NATIVE[1], "--async", "-d", event).strip()
            self.run("result", invocation, "--wait")
            screen.heading("Look, and make a mistake")
            self.run("ls")
            self.run("ps")
            self.run("invoke", "vector_ad", expect=NOT_FOUND)

    def replays(self, runs):
        """The runs (name, policy, label, flags of replay), each on a worker of its own, all at the same time; their result files."""
        screen, began, results = self.screen, [], []
        try:
            for name, policy, label, flags in runs:
                began.append(self.begin_replay(name, policy, label, flags))
            screen.note(f"they run at the same time, each on a worker and an emulated GPU of its own; this one is {runs[-1][2]}:")
            for name, worker, process, out in began:
                if process.wait(240) != 0:
                    raise DemoError(f"'lambent replay' of {name} ended with status {process.returncode}\n{self.said(name)}{worker.log()}")
                results.append(str(out))
        finally:
            for _, worker, process, _ in began:
                if process.poll() is None:
                    process.terminate()
                    process.wait()
                worker.stop()
        return results

    def said(self, name):
        said = self.work / f"{name}.replay"
        return said.read_text(errors="replace")[-1000:] if said.exists() else ""

    def begin_replay(self, name, policy, label, flags):
        serve = ["--gpu", PRESET, "--time-scale", str(TIME_SCALE), "--memory-scale", str(MEMORY_SCALE), "--policy", policy, "--pool", str(POOL),
                 "--concurrency", str(CONCURRENCY)]
        folder, out = self.work / name, self.work / f"{name}.jsonl"
        folder.mkdir()
        self.screen.command(["serve", *serve, "&"])
        worker = Worker(self.prefix, folder, serve)
        arguments = ["replay", "--deploy", "--time-scale", str(TIME_SCALE), "--busiest", str(FUNCTIONS), "--load", str(LOAD), *flags,
                     "--label", label, "--out", f"{name}.jsonl"]
        self.screen.command([*arguments, "&"])
        # One of them shows how far it is.
        shown = policy == "density"
        with open(self.work / f"{name}.replay", "wb") as said:
            try:
                process = subprocess.Popen([str(self.prefix / "bin/lambent"), *arguments[:-1], str(out)], stdout=subprocess.DEVNULL,
                                           stderr=None if shown else said, env={**os.environ, "LAMBENT_ENDPOINT": worker.endpoint})
            except BaseException:
                worker.stop()
                raise
        return name, worker, process, out

    def comparison(self):
        window = 60 if self.quick else 400
        sample = 40 if self.quick else 100
        screen = self.screen
        screen.heading(f"{FUNCTIONS} functions on one GPU under five schedulers: {window} s of modelled time, "
                       f"{TIME_SCALE} times as fast")
        screen.note(f"open loop: arrivals come when they come, for {LOAD:.0%} of the GPU; sandboxes kept: {POOL}; at once on the GPU: "
                    f"{CONCURRENCY}")
        window_flags = ["--duration", str(window)]
        # The baselines are stronger with one sandbox for each function.
        one = [*window_flags, "--max-concurrency", "1"]
        results = self.replays([
            # It never catches up: a new sandbox for each invocation needs more time than there is.
            ("fcfs-naive", "fcfs-naive", f"FCFS naive, {sample} s", ["--duration", str(sample), "--give-up", str(sample), "--max-concurrency", "1"]),
            ("fcfs", "fcfs", "FCFS", one),
            ("batch", "batch", "Batch", one),
            ("mqfq-sticky", "mqfq-sticky", "MQFQ-Sticky", one),
            ("density", "density", "Density, what ships", window_flags),
        ])
        screen.heading("The comparison (times of an emulated V100, modelled; nothing here was measured on a GPU)")
        self.report.parent.mkdir(parents=True, exist_ok=True)
        done = subprocess.run([str(self.prefix / "bin/lambent"), "report", *results, "-o", str(self.report), "--title",
                               f"One workload of {FUNCTIONS} functions, five schedulers"], capture_output=True, text=True)
        if done.returncode != 0:
            raise DemoError("'lambent report' failed: " + done.stderr)
        print(done.stdout, end="", flush=True)
        if self.results:
            self.results.mkdir(parents=True, exist_ok=True)
            for result in results:
                shutil.copy(result, self.results)
        screen.note(f"FCFS naive starts a new sandbox for each invocation and never catches up: it got the first {sample} s "
                    f"of the workload and {sample} s more;")
        screen.note("what had no answer by then counts as failed, and its other figures are of those answered, the lucky ones.")


def main():
    parser = argparse.ArgumentParser(prog="lambent demo", description=__doc__)
    parser.add_argument("--help-all", action="help", help=argparse.SUPPRESS)  # as every verb has it
    parser.add_argument("--prefix", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2],
                        help="where Lambent is: bin, lib, share and examples")
    parser.add_argument("--report", type=pathlib.Path, default=pathlib.Path("lambent-demo.html"), help="the page to write")
    parser.add_argument("--results", type=pathlib.Path, help="a folder that keeps the result files, for 'lambent report'")
    parser.add_argument("--quick", action="store_true", help="a shorter comparison, which proves little")
    options = parser.parse_args()
    report, results = options.report.resolve(), options.results and options.results.resolve()
    work = pathlib.Path(tempfile.mkdtemp(prefix="lambent-demo-"))
    # Asked to stop, we stop what we started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    begin = time.monotonic()
    try:
        demo = Demo(options.prefix.resolve(), work, report, results, options.quick)
        demo.tour()
        demo.comparison()
        print(f"\nThe page with plots: {report}   (took {time.monotonic() - begin:.0f} s)")
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
        return 130
    except (DemoError, OSError, subprocess.SubprocessError, ValueError) as error:
        print(f"\ndemo: {error}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
