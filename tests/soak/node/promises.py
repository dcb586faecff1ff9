"""What the node owes its clients, and whether it kept it: promises are entered as they are acknowledged, outcomes as they are seen, and every broken
one is a violation. Used by all threads of the sceptic; a fault opens a window in which those whom it concerns may be refused, and nobody else.
"""
import contextlib
import dataclasses
import threading
import time


@dataclasses.dataclass
class Window:
    """From begun to ended (none: still open) this group's calls may fail. They may never be answered wrongly or be lost."""
    group: str
    fault: str
    begun: float
    ended: float = float("inf")


@dataclasses.dataclass
class Accepted:
    """An asynchronous invocation that was acknowledged with 202."""
    node: str
    function: str
    groups: frozenset
    right: object  # the answer, as a predicate over the decoded JSON
    at: float
    outcome: tuple = None  # (x-lambent-outcome, body), once it is known; it never changes again


class Promises:
    most_violations_kept = 500

    def __init__(self):
        self.lock = threading.Lock()
        self.started = time.monotonic()
        self.windows, self.violations, self.violation_count = [], [], 0
        self.outcomes = {}  # {group of functions: {outcome: count}}
        self.faults = {}  # {kind: count}
        self.last_faults = []
        self.accepted = {}  # {invocation: Accepted}

    def violation(self, what):
        with self.lock:
            self.violation_count += 1
            if len(self.violations) < self.most_violations_kept:
                self.violations.append({"at_seconds": round(time.monotonic() - self.started, 1), "what": what,
                                        "last_faults": list(self.last_faults[-4:])})
                print(f"VIOLATION {self.violations[-1]['at_seconds']} s: {what}\n  after {self.last_faults[-3:]}", flush=True)

    def count(self, kind, outcome):
        with self.lock:
            of_kind = self.outcomes.setdefault(kind, {})
            of_kind[outcome] = of_kind.get(outcome, 0) + 1

    def fault(self, kind, words):
        with self.lock:
            self.faults[kind] = self.faults.get(kind, 0) + 1
            self.last_faults.append(f"{time.monotonic() - self.started:.1f} s: {kind} {words}".strip())
            del self.last_faults[:-20]

    @contextlib.contextmanager
    def window(self, *groups, linger_seconds=0.0):
        """These groups are struck inside the block, and for linger_seconds after it."""
        with self.lock:
            opened = [Window(group, self.last_faults[-1] if self.last_faults else "", time.monotonic()) for group in groups]
            self.windows += opened
        try:
            yield
        finally:
            for each in opened:
                each.ended = time.monotonic() + linger_seconds

    def excused(self, groups, begun):
        """Whether a fault that concerns one of the groups was there at some time since begun."""
        with self.lock:
            return any(each.group in groups and each.ended >= begun for each in self.windows)

    # Asynchronous invocations.
    def accept(self, invocation, promise):
        with self.lock:
            twice = invocation in self.accepted
            self.accepted[invocation] = promise
        if twice:
            self.violation(f"two acknowledgements bear the id {invocation}")

    def pending(self, node):
        with self.lock:
            return [(key, each) for key, each in self.accepted.items() if each.node == node and each.outcome is None]

    def finished(self, node):
        with self.lock:
            return [(key, each) for key, each in self.accepted.items() if each.node == node and each.outcome is not None]
