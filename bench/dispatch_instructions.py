#!/usr/bin/env python3
"""bench dispatch-instructions: what an invocation costs dispatch in instructions and, by callgrind's model of a cache, in lines that are fetched
from memory. It is the same on a busy machine, so small changes are seen where wall times show noise.

Each case runs twice, the second time with more invocations; the difference divided by how many more there were is what is told, without what the start takes.
Cases: the default as a worker has it (`shipped`), the same without what is foreseen, and MQFQ-Sticky. docs/internals/benchmarks.md says what each figure means.
Usage: dispatch_instructions.py [--quick] [--out FILE] [--bench PROGRAM]
"""
import argparse
import pathlib
import re
import shutil
import subprocess
import tempfile

from last_line import write_last_line

ROOT = pathlib.Path(__file__).resolve().parents[1]
CASES = {"shipped": "shipped,{flows},{count}", "foresee_off": "shipped,{flows},{count},no-foresee", "mqfq-sticky": "mqfq-sticky,{flows},{count}"}
# Of them without any, for what the start takes, and in one run.
FLOWS = {False: (24, 4000), True: (24,)}
COUNTS = {False: (20_000, 60_000), True: (2_000, 6_000)}


def counted(bench, case):
    """Instructions, and misses of the last level of cache, of one whole run."""
    with tempfile.TemporaryDirectory(prefix="lambent-callgrind-") as folder:
        command = ["valgrind", "--tool=callgrind", "--cache-sim=yes", "--LL=1048576,16,64", f"--callgrind-out-file={folder}/out", str(bench), "--one", case]
        done = subprocess.run(command, capture_output=True, text=True, timeout=1800)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command)} failed: {done.stderr[-400:]}")
    def figure(name):
        return int(re.search(rf"{name}:\s+([\d,]+)", done.stderr).group(1).replace(",", ""))
    return figure("I +refs"), figure("LLd misses")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer invocations, 24 functions alone")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--bench", type=pathlib.Path, default=ROOT / "build/release/bin/dispatch_bench")
    arguments = parser.parse_args()
    if shutil.which("valgrind") is None:
        raise SystemExit("there is no valgrind: install it (apt-get install valgrind)")
    if not arguments.bench.exists():
        raise SystemExit(f"there is no {arguments.bench}: build it with ./dev build")
    few, many = COUNTS[arguments.quick]
    instructions, misses = {}, {}
    print(f"an invocation, by callgrind, from {few} to {many} invocations")
    print(f"{'case':14}{'flows':>7}{'instructions':>14}{'fetched lines':>15}")
    for name, text in CASES.items():
        instructions[name], misses[name] = {}, {}
        for flows in FLOWS[arguments.quick]:
            first, second = (counted(arguments.bench, text.format(flows=flows, count=count)) for count in (few, many))
            instructions[name][flows], misses[name][flows] = (round((b - a) / (many - few), 2) for a, b in zip(first, second))
            print(f"{name:14}{flows:7}{instructions[name][flows]:14.0f}{misses[name][flows]:15.2f}", flush=True)
    write_last_line({"bench": "dispatch-instructions", "quick": arguments.quick, "invocations": [few, many],
                     "instructions_per_invocation": instructions, "last_level_misses_per_invocation": misses}, arguments.out)


if __name__ == "__main__":
    main()
