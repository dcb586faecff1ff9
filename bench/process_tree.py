"""What a program and all its descendants use, through /proc; Linux, standard library only."""
import contextlib
import ctypes
import os
import pathlib
import signal
import subprocess
import sys
import time

TICK_S = 1 / os.sysconf("SC_CLK_TCK")
PR_SET_CHILD_SUBREAPER = 36


def _stat(pid):
    """(parent, CPU seconds of the process and of its children that were waited for)."""
    words = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(words[1]), sum(int(word) for word in words[11:15]) * TICK_S


def descendants(root):
    """{pid: CPU seconds} of root and of all below it that live now."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, ValueError):
                found[int(entry.name)] = _stat(entry.name)
    tree, grown = {root}, True
    while grown:
        new = {pid for pid, (parent, _) in found.items() if parent in tree and pid not in tree}
        tree |= new
        grown = bool(new)
    return {pid: found[pid][1] for pid in tree if pid in found}


def cpu_seconds(root):
    return sum(descendants(root).values())


def pss_mb(root):
    """Proportional memory (PSS) of the tree in MiB: a page that n processes share counts 1/n for each."""
    total = 0
    for pid in descendants(root):
        with contextlib.suppress(OSError):
            for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1])
    return total / 1024


def start(words, **options):
    """The program below a process that adopts its daemons, so that the whole tree is found and ended. The process, whose pid is the root."""
    return subprocess.Popen([sys.executable, "-B", __file__, *words], start_new_session=True, **options)


def end(process, seconds=15):
    """Asks the programs of the tree to end, then ends them."""
    for number, patience in ((signal.SIGTERM, seconds), (signal.SIGKILL, seconds)):
        for pid in set(descendants(process.pid)) - {process.pid}:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        deadline = time.monotonic() + patience
        while len(descendants(process.pid)) > 1 and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
    process.kill()
    process.wait()


def main():
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    child = subprocess.Popen(sys.argv[1:])
    sys.stdout.close()
    os.close(0)
    while True:
        try:
            os.wait()
        except ChildProcessError:
            sys.exit(child.returncode or 0)


if __name__ == "__main__":
    main()
