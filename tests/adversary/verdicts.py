"""What the adversary tried and what came of it: the list of checks, their outcomes, the table and the JSON."""
import dataclasses
import json
import time
import traceback

HELD, FAILED, KNOWN, SKIPPED = "held", "failed", "known", "skipped"
SECTIONS = {"A": "sandbox", "B": "Runtime API", "C": "HTTP", "D": "GPU", "E": "deaths", "F": "overload", "G": "disk", "P": "packages",
            "T": "clock", "U": "ordinary user"}


class Skip(Exception):
    """The check cannot run here: the text says why, and what would run it."""


class Broken(Exception):
    """Something got through, or a neighbour was harmed."""


def require(truth, why):
    if not truth:
        raise Broken(why)


@dataclasses.dataclass
class Check:
    section: str
    title: str
    run: object  # called with the ground; what it returns (a dictionary of numbers, or nothing) goes into the report
    short: bool  # part of --short
    known: str  # where an open weakness that it shows is described; empty: there is none


@dataclasses.dataclass
class Outcome:
    section: str
    title: str
    verdict: str
    words: str
    seconds: float
    numbers: dict


class Checks:
    def __init__(self):
        self.all = []

    def __call__(self, section, title, short=True, known=""):
        assert section in SECTIONS, section

        def add(run):
            self.all.append(Check(section, title, run, short, known))
            return run
        return add

    def chosen(self, short, sections):
        return [each for each in self.all if (each.short or not short) and (not sections or each.section in sections)]


def judge(check, ground):
    """The outcome of one check. What it did not foresee is a failure, too."""
    started, numbers, words = time.monotonic(), {}, ""
    try:
        numbers = check.run(ground) or {}
        verdict = HELD
        if check.known:
            words = f"no longer seen: take it off the list of {check.known}"
    except Skip as skip:
        verdict, words = SKIPPED, str(skip)
    except Broken as broken:
        verdict = KNOWN if check.known else FAILED
        words = f"{broken} ({check.known})" if check.known else str(broken)
    except Exception as error:  # a check that breaks has shown nothing
        verdict, words = FAILED, f"{type(error).__name__}: {error}; {traceback.format_exc(limit=-2)}"
    return Outcome(check.section, check.title, verdict, words, round(time.monotonic() - started, 2), numbers)


def count(outcomes):
    return {verdict: sum(each.verdict == verdict for each in outcomes) for verdict in (HELD, FAILED, KNOWN, SKIPPED)}


def line_of(outcome):
    line = f"{outcome.section}  {outcome.verdict:8}{outcome.seconds:7.1f} s  {outcome.title}"
    if outcome.numbers:
        line += "\n" + " " * 23 + json.dumps(outcome.numbers)
    if outcome.words:
        line += "\n" + " " * 23 + " ".join(outcome.words.split())[:1000]
    return line


def table(outcomes):
    rows = [f"{'':18}{HELD:>8}{FAILED:>8}{KNOWN:>8}{SKIPPED:>9}"]
    for section, name in SECTIONS.items():
        its = count([each for each in outcomes if each.section == section])
        if any(its.values()):
            rows.append(f"{section} {name:16}{its[HELD]:8}{its[FAILED]:8}{its[KNOWN]:8}{its[SKIPPED]:9}")
    return "\n".join(rows)


def report(outcomes, facts):
    """As JSON: the facts of the run, the counts, every outcome."""
    return json.dumps({**facts, "counts": count(outcomes), "checks": [dataclasses.asdict(each) for each in outcomes]})


def exit_code(outcomes):
    """1 if anything failed, or nothing was tried at all."""
    return 1 if any(each.verdict == FAILED for each in outcomes) or not outcomes else 0


checks = Checks()
