#!/usr/bin/env python3
"""Programs of others on the emulated GPU: compiled, run bare, run while their memory moves, and judged. See README.md.

    ./dev strangers --samples FOLDER --rodinia FOLDER --hecbench FOLDER [--only NAME...] [--out FOLDER]

Prints a line for each program and writes strangers.json and strangers.md into FOLDER (build/strangers). Ends with 1 if any output was wrong.
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

import build
import judge
import programs
import references

# Times its limit that a program may take which does not work, or for which others leave no time.
MOST_WAIT = 5
MOVE_EVERY_MS = 2
MOST_OF_A_LINE = 190
# What many programs say, in fewer words.
SHORTER = (
    (r'.*module holds no code for this device.*', "code of a GPU, made while the program runs"),
    (r'.*cuGetExportTable.*', "a library over NVIDIA's runtime"),
    (r'.*(?:CUBLAS|CUSPARSE|CUSOLVER|CUFFT|CURAND)_STATUS.*|.*CUFFT_INTERNAL_ERROR.*|.*!!!! CUBLAS init.*', "a library over NVIDIA's runtime"),
    (r'^lambent-bundle: ', ""),
)
# For programs that are over before.
MOVE_AT_ONCE_MS = 0.3


class Runner:
    def __init__(self, options):
        self.options = options
        self.prefix = options.prefix.resolve()
        self.scratch = options.scratch.resolve()
        self.answers = {}  # of versions for the CPU, by program
        self.builder = build.Builder(self.prefix, options.toolkit.resolve(), options.arch, self.scratch)

    def environment(self, program, built, node):
        path = [self.prefix / "lib/emulated", self.prefix / "lib/emulated_runtime", self.options.toolkit.resolve() / "lib64"]
        node.unlink(missing_ok=True)
        return {**os.environ, "LD_LIBRARY_PATH": ":".join(map(str, path)), "EMULATED_CUDA_NODE": str(node), "EMULATED_CUDA_CONFIG": program.preset,
                "EMULATED_CUDA_KERNELS": ":".join(map(str, built.kernels)), "OMP_NUM_THREADS": "2"}

    def run(self, command, folder, environment, stdin=""):
        """(status, or None if it was stopped; what it wrote; what it said on standard error)"""
        process = subprocess.Popen(list(map(str, command)), cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True)
        self.worked_s, begin = 0, time.monotonic()
        while True:
            try:
                out, err = process.communicate(stdin, timeout=min(1, self.options.limit))
                return process.returncode, out, err
            except subprocess.TimeoutExpired:
                self.worked_s, self.took_s, stdin = processor_time(process.pid), time.monotonic() - begin, None  # what is given is given
            if self.worked_s >= self.options.limit or self.took_s >= MOST_WAIT * self.options.limit:
                os.killpg(process.pid, signal.SIGKILL)
                out, err = process.communicate()
                return None, out, err

    def results(self, program, folder, out):
        """What a run answered: its files, or else its output."""
        if program.results:
            found = []
            for name in program.results:
                path = folder / name
                found += path.read_text(errors="replace").splitlines() if path.exists() else [f"no file {name}"]
            return found
        return judge.comparable(out, program.keep, program.extract)

    def one_run(self, program, built, words, name):
        for result in program.results:
            (built.folder / result).unlink(missing_ok=True)
        start = time.monotonic()
        status, out, err = self.run([*words, f"./{program.name}", *program.arguments], built.folder,
                                    self.environment(program, built, self.scratch / program.collection / program.name / f"{name}.node"), program.stdin)
        log = self.scratch / program.collection / program.name / f"{name}.txt"
        log.write_text(f"{out}\n-- standard error\n{err}\n-- status {status}, {time.monotonic() - start:.1f} s\n")
        return status, out, err

    def judge_run(self, program, built, status, out, err, results):
        """(word for the table, why) of one run."""
        if status is None:
            return "no end", f"not over after {self.worked_s:.0f} s of work, in {self.took_s:.0f} s"
        said, by = judge.own_check(out + err, program)
        if status == 2 and re.search(r"waiv", out + err, re.IGNORECASE):
            return "waived", last_words(out + err)
        if status != 0:
            return "wrong" if said is False and by != "CUDA error at" else "ended", f"status {status}: {last_words(err or out)}"
        if said is False:
            return "wrong", program.known or f"its own check: {by}"
        if program.reference is not None:
            return self.against_the_cpu(program, built, results)
        if said is None and programs.tells_by_its_status(program):
            said, by = True, "its exit status"
        return ("right", by) if said else ("ends", "it has no check of its own")

    def answer_of_the_cpu(self, program, built):
        """(what the program's version for the CPU answers, or None; whose that is, or why there is none)."""
        if "python" in program.reference:
            return references.CALCULATED[program.reference["python"]](built.folder, program), "the same in Python"
        folder, reference, trouble = self.builder.build_reference(program, self.options.checkouts[program.collection])
        if reference is None:
            return None, "its version for the CPU does not build: " + trouble
        for result in program.results:
            (folder / result).unlink(missing_ok=True)
        status, out, err = self.run([reference, *program.reference["arguments"]], folder, {**os.environ, "OMP_NUM_THREADS": "2"}, program.stdin)
        if status is None or status < 0:  # some answer nothing in particular from main
            return None, "its version for the CPU " + ("does not end" if status is None else f"ends by signal {-status}")
        answer = self.results(program, folder, out + err)
        return (answer, "its version for OpenMP") if any(answer) else (None, "its version for the CPU answers nothing")

    def against_the_cpu(self, program, built, results):
        if program.name not in self.answers:
            self.answers[program.name] = self.answer_of_the_cpu(program, built)
        answer, whose = self.answers[program.name]
        if answer is None:
            return "ends", whose
        different = judge.same(results, answer, program.reference.get("tolerance", 0.0), program.reference.get("apart", 0))
        return ("right", whose) if different is None else ("wrong", f"against {whose}, {different}")

    def moving(self, program, built, bare_results, bare):
        """The same while its memory is moved off and back."""
        for every in (MOVE_EVERY_MS, MOVE_AT_ONCE_MS):
            status, out, err = self.one_run(program, built, [self.prefix / "bin/lambent-shim", "--emulated", "--move-every", every, "--"], "moving")
            said = re.search(r"moved out (\d+) times", err)
            moves = int(said[1]) if said else 0
            if moves > 1 or status != 0:
                break
        own_words = "\n".join(line for line in err.splitlines() if not line.startswith("lambent shim:"))
        results = self.results(program, built.folder, out)
        word, why = self.judge_run(program, built, status, out, own_words, results)
        if word in ("right", "ends"):
            different = judge.same(results, bare_results, program.reference.get("tolerance", 0.0) if program.reference else 0.0)
            if word == "ends":
                word, why = ("same", "") if different is None else ("different", program.known or different)
        if moves == 0 and word in ("right", "same"):
            why = "never moved"
        return word, why, moves

    def program(self, program):
        row = {"name": program.name, "collection": program.collection, "bare": "", "checked_by": "", "moving": "", "moves": 0, "why": "",
               "notes": []}
        if program.not_tried:
            return {**row, "bare": "not tried", "why": program.not_tried}
        built = self.builder.build(program, self.options.checkouts[program.collection])
        if built.trouble:
            return {**row, "bare": "not built", "why": built.trouble}
        row["notes"] = built.notes
        status, out, err = self.one_run(program, built, [], "bare")
        results = self.results(program, built.folder, out)
        row["bare"], why = self.judge_run(program, built, status, out, err, results)
        if row["bare"] not in ("right", "ends"):
            return {**row, "why": why}
        row["checked_by"] = why
        row["moving"], why, row["moves"] = self.moving(program, built, results, row["bare"])
        if row["moving"] not in ("right", "same") or row["moves"] == 0:
            row["why"] = why
        return row


def processor_time(session):
    """Seconds that the processes of a session have worked."""
    ticks = 0
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session:
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def last_words(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if re.search(r"error|fail|refus|not support|emulated", line, re.IGNORECASE)]
    return (telling or lines or ["no word"])[-1][:200]


def kept_rows(path):
    """What an earlier run told of other programs."""
    rows = json.loads(path.read_text())["rows"] if path.exists() else []
    return {(row["collection"], row["name"]): row for row in rows}


def table(rows):
    """The table of docs/internals/strangers.md."""
    lines = ["| program | runs | checked by | while moving | moves | why not |", "|---|---|---|---|---|---|"]
    for row in rows:
        if row["bare"] == "not tried":
            continue
        begin = f"| {row['name']} | {row['bare']} | {row['checked_by']} | {row['moving']} | {row['moves'] or ''} | "
        why = "; ".join(filter(None, [row["why"], *row["notes"]])).replace("|", "/")
        for prefix, words in SHORTER:
            why = re.sub(prefix, words, why)
        lines.append(begin + shorten(why, MOST_OF_A_LINE - len(begin)) + " |")
    reasons = {}
    for row in rows:
        if row["bare"] == "not tried":
            reasons.setdefault(row["why"], []).append(row["name"])
    lines += [""] if reasons else []
    lines += [f"Not tried, {why}: {', '.join(names)}." + ("\n" if why != list(reasons)[-1] else "") for why, names in reasons.items()]
    return "\n".join(lines) + "\n"


def shorten(text, most):
    """At most so many characters, cut off between words."""
    return text if len(text) <= most else text[:most - 4].rsplit(" ", 1)[0] + " ..."


def summary(rows):
    count = {}
    for row in rows:
        key = f"{row['bare']}{', moving: ' + row['moving'] if row['moving'] else ''}"
        count[key] = count.get(key, 0) + 1
    return ", ".join(f"{number} {key}" for key, number in sorted(count.items(), key=lambda item: -item[1]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=pathlib.Path, help="a checkout of NVIDIA's CUDA samples")
    parser.add_argument("--rodinia", type=pathlib.Path, help="a checkout of Rodinia")
    parser.add_argument("--hecbench", type=pathlib.Path, help="a checkout of HeCBench")
    parser.add_argument("--only", nargs="+", default=[], help="programs of these names; what was told of others before is kept")
    parser.add_argument("--prefix", type=pathlib.Path, default=pathlib.Path("build/release"))
    parser.add_argument("--toolkit", type=pathlib.Path, default=pathlib.Path("/usr/local/cuda"), help="a CUDA toolkit of 13.0")
    parser.add_argument("--arch", default="sm_90")
    parser.add_argument("--scratch", type=pathlib.Path, default=pathlib.Path("build/strangers"), help="where programs are built and run")
    parser.add_argument("--out", type=pathlib.Path, help="folder of the results; --scratch, if not named")
    parser.add_argument("--limit", type=float, default=120, help=f"seconds of work for one run, in at most {MOST_WAIT} times as many")
    parser.add_argument("--build-only", action="store_true")
    options = parser.parse_args()
    if not options.samples and not options.rodinia and not options.hecbench:
        parser.error("name a checkout: --samples FOLDER, --rodinia FOLDER, --hecbench FOLDER")
    if not (options.toolkit / "bin/nvcc").exists():
        parser.error(f"there is no nvcc in {options.toolkit}: name a toolkit with --toolkit")
    options.checkouts, found = {}, []
    for name, folder, mark in (("rodinia", options.rodinia, "cuda"), ("samples", options.samples, "Samples"),
                               ("hecbench", options.hecbench, "src")):
        if folder is None:
            continue
        if not (folder / mark).is_dir():
            parser.error(f"{folder} is no checkout of {name}: it has no folder '{mark}'")
        options.checkouts[name] = folder.resolve()
    if options.rodinia:
        found += programs.rodinia(options.checkouts["rodinia"], options.checkouts.get("samples"))
    if options.samples:
        found += programs.samples(options.checkouts["samples"])
    if options.hecbench:
        found += programs.hecbench(options.checkouts["hecbench"])
    unknown = set(options.only) - {program.name for program in found}
    if unknown:
        parser.error("no such program: " + ", ".join(sorted(unknown)))
    out = options.out or options.scratch
    out.mkdir(parents=True, exist_ok=True)
    options.scratch.mkdir(parents=True, exist_ok=True)
    runner, rows = Runner(options), kept_rows(out / "strangers.json") if options.only else {}
    for program in found:
        if options.only and program.name not in options.only:
            continue
        if options.build_only:
            if not program.not_tried:
                print(program.name, runner.builder.build(program, options.checkouts[program.collection]).trouble, flush=True)
            continue
        row = runner.program(program)
        rows[row["collection"], row["name"]] = row
        told = [rows[key] for key in ((each.collection, each.name) for each in found) if key in rows]
        print(f"{row['collection']:8} {row['name']:32} {row['bare']:10} {row['moving']:10} {row['moves']:5}  {row['checked_by']}  {row['why']}",
              flush=True)
        (out / "strangers.json").write_text(json.dumps({"name": "strangers", "rows": told}, indent=1) + "\n")
        (out / "strangers.md").write_text(table(told))
    print(summary(rows.values()))
    known = {program.name for program in found if program.known}
    wrong = [row["name"] for row in rows.values() if "wrong" in (row["bare"], row["moving"]) or row["moving"] == "different"]
    return 1 if set(wrong) - known else 0


if __name__ == "__main__":
    sys.exit(main())
