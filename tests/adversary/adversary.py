"""./dev adversary: what an attacker, a careless tenant and bad luck do to a worker, again and again, with a count of what held.

It starts workers of its own on free ports with temporary state. Standard library only; LAMBENT_PREFIX names the build.
"""
import argparse
import os
import pathlib
import resource
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
os.environ.setdefault("LAMBENT_PREFIX", str(ROOT / "build/release"))
sys.path.append(str(ROOT / "tests/integration"))

import disk_checks  # noqa: E402
import verdicts  # noqa: E402
from ground import Ground  # noqa: E402
from verdicts import SECTIONS, checks  # noqa: E402

for module in ("sandbox", "runtime", "http", "package", "gpu", "death", "overload", "user", "clock"):
    __import__(module + "_checks")

SHORT_SCALE = 0.15
SKIPPED = 77  # the exit status that ctest knows


def parse():
    parser = argparse.ArgumentParser(prog="./dev adversary", description=__doc__)
    parser.add_argument("--short", action="store_true", help="less load for less time, under a minute; what ./dev test runs")
    parser.add_argument("--only", default="", metavar="SECTIONS", help="no other sections than these letters: " +
                        ", ".join(f"{letter} {name}" for letter, name in SECTIONS.items()))
    parser.add_argument("--match", default="", metavar="WORDS", help="no other checks than those that have these words in their title")
    parser.add_argument("--list", action="store_true", help="only say what would be tried")
    parser.add_argument("--json", metavar="FILE", help="the report goes there, too")
    parser.add_argument("--keep", metavar="FOLDER", help="work in this empty folder, and leave logs and state in it")
    options = parser.parse_args()
    unknown = set(options.only) - set(SECTIONS)
    if unknown:
        parser.error(f"no such section: {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}")
    if options.keep and os.path.isdir(options.keep) and os.listdir(options.keep):
        parser.error(f"{options.keep} is not empty")
    return options


def commit():
    asked = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return asked.stdout.strip() or None


def refused_here():
    """Why no worker can start on this machine; empty: it can."""
    probe = subprocess.run([str(pathlib.Path(os.environ["LAMBENT_PREFIX"]) / "bin/lambent-launcher"), "--probe"], capture_output=True, text=True)
    return "" if probe.returncode == 0 else (probe.stderr or probe.stdout).strip()


def main():
    options = parse()
    chosen = [each for each in checks.chosen(options.short, options.only) if options.match in each.title]
    if options.list:
        for each in chosen:
            print(each.section, each.title + (f"  (known: {each.known})" if each.known else ""))
        return 0
    if reason := refused_here():
        print(f"SKIPPED: no sandbox can be made here: {reason}")
        return SKIPPED
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65536), hard))
    if os.geteuid() == 0:
        disk_checks.private_mounts()
    started, outcomes = time.monotonic(), []
    if options.keep:
        os.makedirs(options.keep, exist_ok=True)
    ground = Ground(SHORT_SCALE if options.short else 1, options.keep)
    try:
        for each in chosen:
            outcomes.append(verdicts.judge(each, ground))
            print(verdicts.line_of(outcomes[-1]), flush=True)
    finally:
        ground.close()
    facts = {"commit": commit(), "short": options.short, "root": os.geteuid() == 0, "cores": os.cpu_count(),
             "seconds": round(time.monotonic() - started, 1)}
    print("\n" + verdicts.table(outcomes))
    report = verdicts.report(outcomes, facts)
    if options.json:
        pathlib.Path(options.json).write_text(report + "\n")
    print(report)
    return verdicts.exit_code(outcomes)


if __name__ == "__main__":
    sys.exit(main())
