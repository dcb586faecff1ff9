"""What processes spend on requests, in counts that hold on a noisy machine: wake-ups by the scheduler's own, instructions by callgrind or, where
there is one, by the processor's counter."""
import contextlib
import functools
import os
import pathlib
import re
import select
import shutil
import signal
import subprocess


def spent(pid):
    """What the process had of processors, in ns, and how often it went to sleep, all threads together."""
    processors, sleeps = 0, 0
    threads = []
    with contextlib.suppress(FileNotFoundError):
        threads = list(pathlib.Path(f"/proc/{pid}/task").iterdir())
    for thread in threads:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it ended meanwhile
            processors += int((thread / "schedstat").read_text().split()[0])
            status = (thread / "status").read_text().split("\n")
            sleeps += int(next(line for line in status if line.startswith("voluntary_ctxt_switches")).split()[1])
    return processors, sleeps


def read_count(words):
    """Of what `perf stat -x ';'` says; None where the processor does not count, as on most virtual machines."""
    match = re.search(r"^(\d+);[^;]*;instructions", words, re.MULTILINE)
    return int(match[1]) if match else None


def _perf(event, *words):
    return ["perf", "stat", "-x", ";", "-e", event, *words]


@functools.cache
def processor_counts():
    if shutil.which("perf") is None:
        return False
    return read_count(subprocess.run(_perf("instructions", "true"), capture_output=True, text=True, check=False).stderr) is not None


@contextlib.contextmanager
def counted(pids, event):
    """perf counts the event of these processes, and of those that they start, while the body runs, and no sooner: it says when it has begun.
    Yields a list; what perf said is in it afterwards, unless it did not begin."""
    said = []
    asked, ask = os.pipe()
    answers, answer = os.pipe()
    perf = subprocess.Popen(_perf(event, "--delay", "-1", "--control", f"fd:{asked},{answer}", "-p", ",".join(map(str, pids))),
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, pass_fds=(asked, answer))
    os.close(asked)
    os.close(answer)  # so that its end shows

    def did(command):
        with contextlib.suppress(BrokenPipeError):
            os.write(ask, command)
            return bool(select.select([answers], [], [], 10)[0] and os.read(answers, 16))
        return False

    began = did(b"enable\n")
    try:
        yield said
        if began:
            did(b"disable\n")
    finally:
        perf.send_signal(signal.SIGINT)
        words = perf.communicate(timeout=60)[1]
        os.close(ask)
        os.close(answers)
        if began:
            said.append(words)


@contextlib.contextmanager
def instructions_of(pids):
    """Counts what these processes, and those that they start, do while the body runs. Yields a list; the count is in it afterwards, unless the
    processor does not count."""
    found = []
    if not processor_counts():
        yield found
        return
    with counted(pids, "instructions") as said:
        yield found
    count = read_count(said[0]) if said else None
    if count is not None:
        found.append(count)


class Callgrind:
    """Instructions of a program in user space, kernel and children apart, between two moments of its run."""

    def __init__(self, folder):
        self.folder, self.dumps = pathlib.Path(folder), 0

    @staticmethod
    def is_here():
        return all(shutil.which(program) for program in ("valgrind", "callgrind_control"))

    def words(self):
        """What goes before the program's own words."""
        return ["valgrind", "--tool=callgrind", f"--callgrind-out-file={self.folder}/counts"]

    def since_last(self, pid):
        """Instructions since the last call; pid: of the program."""
        self.dumps += 1
        subprocess.run(["callgrind_control", "--dump", str(pid)], check=True, timeout=120, capture_output=True)
        dump = next(path for path in self.folder.glob(f"counts*.{self.dumps}"))
        return int(re.search(r"^(?:totals|summary): (\d+)", dump.read_text(), re.MULTILINE).group(1))
