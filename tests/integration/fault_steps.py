#!/usr/bin/env python3
"""What test_durability.py holds a worker against: for each step of an asynchronous invocation, what becomes of it when a process is killed
there. docs/internals/durability.md has the same as tables: python3 tests/integration/fault_steps.py --write puts them there.
"""
import dataclasses
import pathlib
import re
import sys

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/internals/durability.md"

NOT_TOLD, TOLD = "nothing", "202"


@dataclasses.dataclass(frozen=True)
class Step:
    """The worker is killed at a fault point (src/core/base/fault_points.h), or by hand where there is none."""
    point: str      # empty: while the handler is at work
    what: str
    warm: bool      # a sandbox stands ready before
    told: str       # what the client got
    first: int      # runs that the killed worker began
    then: int       # runs that the next worker began, without the client's doing
    recorded: tuple  # attempts in the catalog when the worker was dead; None: it has no such invocation
    holds: bool = False  # only the thread that reaches the point rests

    @property
    def name(self):
        return (self.point or "at_work") + ("_held" if self.holds else "")

    @property
    def runs(self):
        return self.first + self.then


STEPS = (
    Step("received", "asked for", True, NOT_TOLD, 0, 0, (None,)),
    Step("request_written", "in the catalog's transaction", True, NOT_TOLD, 0, 0, (None,)),
    Step("request_durable", "committed", True, NOT_TOLD, 0, 1, (0,)),
    Step("sandbox_asked", "the launcher was told to start a sandbox", False, NOT_TOLD, 0, 1, (0,)),
    Step("dispatched", "given to a warm sandbox, before the 202 is sent", True, NOT_TOLD, 1, 1, (0, 1)),
    Step("acknowledged", "202 sent, its sandbox starts", False, TOLD, 0, 1, (0,)),
    Step("placed", "its sandbox is ready, and does not have it", False, TOLD, 0, 1, (0,)),
    Step("delivered", "its sandbox has it", False, TOLD, 1, 1, (0, 1)),
    Step("attempt_written", "it runs, and the catalog was kept from counting that", True, TOLD, 1, 1, (0,), holds=True),
    Step("", "the handler is at work", True, TOLD, 1, 1, (1,)),
    Step("answered", "the answer is here", True, TOLD, 1, 1, (1,)),
    Step("result_written", "the result is in the catalog's transaction", True, TOLD, 1, 1, (1,)),
    Step("result_durable", "the result is committed", True, TOLD, 1, 0, (1,)),
)


@dataclasses.dataclass(frozen=True)
class Kill:
    """Another process is killed while the worker rests at a point, and then goes on."""
    victim: str      # the name of a process, or "program": what runs the function
    point: str
    warm: bool       # a sandbox stands ready before
    runs: tuple      # any of these
    outcome: str     # "succeeded", or the error type; several with " or "
    handler: str = ""     # "works": it is in the middle; "ended": its answer waits; "frozen": it is kept from reading its event
    short: bool = False   # also in the short form of the test


KILLS = (
    Kill("program", "received", True, (1,), "succeeded"),
    Kill("program", "placed", True, (0,), "Runtime.ExitError"),
    Kill("program", "delivered", True, (0,), "Runtime.ExitError", handler="frozen"),
    Kill("program", "delivered", True, (1,), "Runtime.ExitError", handler="works", short=True),
    Kill("program", "delivered", True, (1,), "succeeded", handler="ended"),
    Kill("program", "answered", True, (1,), "succeeded", short=True),
    Kill("program", "result_written", True, (1,), "succeeded"),
    Kill("lambent-init", "placed", True, (0,), "Runtime.ExitError"),
    Kill("lambent-init", "delivered", True, (1,), "Runtime.ExitError", handler="works"),
    Kill("lambent-init", "answered", True, (1,), "succeeded"),
    Kill("lambent-launcher", "received", True, (1,), "succeeded"),
    Kill("lambent-launcher", "sandbox_asked", False, (1,), "succeeded", short=True),
    Kill("lambent-launcher", "placed", True, (0,), "Runtime.ExitError"),
    Kill("lambent-launcher", "delivered", True, (1,), "Runtime.ExitError", handler="works", short=True),
    # The worker may hear of the death before it has read the answer.
    Kill("lambent-launcher", "delivered", True, (1,), "succeeded or Runtime.ExitError", handler="ended"),
    Kill("lambent-launcher", "answered", True, (1,), "succeeded"),
    Kill("lambent-launcher", "result_written", True, (1,), "succeeded"),
    Kill("lambent-zygote", "received", True, (1,), "succeeded"),
    Kill("lambent-zygote", "delivered", True, (1,), "succeeded", handler="works"),
    Kill("lambent-zygote", "answered", True, (1,), "succeeded"),
)


def column(values):
    words = ["none" if each is None else str(each) for each in values]
    return " or ".join(words)


def steps_table():
    lines = ["| killed when | step | the client got | runs before | runs after | attempts recorded |", "|---|---|---|---|---|---|"]
    for step in STEPS:
        point = f"`{step.point}`" + (":hold" if step.holds else "") if step.point else ""
        lines.append(f"| {step.what} | {point} | {step.told} | {step.first} | {step.then} | {column(step.recorded)} |")
    return "\n".join(lines)


# Of a function with a shared GPU runtime.
GPU_KILLS = (
    Kill("lambent-executor", "received", True, (1,), "succeeded"),
    Kill("lambent-executor", "placed", True, (0, 1), "Sandbox.Failure"),
    Kill("lambent-executor", "delivered", True, (1,), "Sandbox.Failure", handler="works", short=True),
    Kill("lambent-executor", "answered", True, (1,), "succeeded"),
    Kill("lambent-device", "received", True, (1,), "succeeded"),
    Kill("lambent-device", "delivered", True, (1,), "succeeded", handler="works", short=True),
    Kill("lambent-device", "answered", True, (1,), "succeeded"),
)

@dataclasses.dataclass(frozen=True)
class Cut:
    """PostgreSQL ends the sessions of all nodes of a cluster while one rests at a point with an invocation, and then goes on."""
    point: str
    told: str         # what the client got; several with " or "
    runs: tuple       # any of these, with what its client repeated if it got nothing
    taken_over: bool = False  # it rests until another node has run the invocation
    short: bool = False       # also in the short form of the test


CUTS = (
    Cut("request_written", NOT_TOLD + " or " + TOLD, (1,), short=True),
    Cut("request_durable", TOLD, (1,)),
    Cut("request_durable", TOLD, (1, 2), taken_over=True, short=True),
    Cut("attempt_written", TOLD, (1,)),
    Cut("answered", TOLD, (1,)),
    Cut("result_written", TOLD, (1,), short=True),
    Cut("result_written", TOLD, (2,), taken_over=True),
)

WORDS = {"program": "the function's program", "lambent-launcher": "`lambent-launcher`", "lambent-init": "its sandbox's init", "lambent-zygote": "the zygote",
         "lambent-executor": "`lambent-executor` of a shared runtime", "lambent-device": "`lambent-device`"}
HANDLER = {"": "", "works": ", the handler works", "ended": ", the handler has ended", "frozen": ", the program has not read it"}


def kills_table():
    lines = ["| killed | step | runs | outcome |", "|---|---|---|---|"]
    for kill in KILLS + GPU_KILLS:
        state = "warm" if kill.warm else "cold"
        outcome = " or ".join(each if each == "succeeded" else f"`{each}`" for each in kill.outcome.split(" or "))
        lines.append(f"| {WORDS[kill.victim]} | `{kill.point}`, {state}{HANDLER[kill.handler]} | {column(kill.runs)} | {outcome} |")
    return "\n".join(lines)


def cuts_table():
    lines = ["| step | another node takes over | the client got | runs |", "|---|---|---|---|"]
    for cut in CUTS:
        lines.append(f"| `{cut.point}` | {'yes' if cut.taken_over else 'no'} | {cut.told} | {column(cut.runs)} |")
    return "\n".join(lines)


def tables():
    return {"steps": steps_table(), "kills": kills_table(), "cuts": cuts_table()}


def main():
    page = PAGE.read_text()
    for name, table in tables().items():
        page = re.sub(rf"(<!-- {name} -->\n).*?(<!-- end of {name} -->)", lambda found: found[1] + table + "\n" + found[2], page, flags=re.DOTALL)
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(page)
    else:
        print(*tables().values(), sep="\n\n")


if __name__ == "__main__":
    main()
