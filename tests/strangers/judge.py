"""Whether an output is right: by the program's own words, by the answer of its version for the CPU, by the answer of another run."""
import re

# What the checks of CUDA samples say in the end; each of them has its own words.
PASSED = (r"\bpass(?:ed)?\b|\bPASS\b|test summary:?\s*0 errors|completed successfully|results? (?:are |is )?(?:correct|ok|match)"
          r"|returned ok|compare ok|\b0 failures|inspecting keys array: OK|test succeeded|verif(?:ied|ication)[^\n]*\bok\b|\bsuccess(?:ful|fully)?\b|within tolerance|= PASS")
FAILED = r"\bFAIL(?:ED|URE)?\b|(?<!0 )\bmismatch|CUDA error at|does not match|don't match|Result = FAIL"
# Lines with figures of a run's own: times, rates, addresses, processes.
OF_THIS_RUN = (r"\b(?:m?s|[mu]sec|msec\.|seconds?|time|timing|elapsed|clocks?|ticks|took)\b|[GM]B/s|Flop|/sec|/s\b|bandwidth|throughput|speed"
               r"|0x[0-9a-f]+|\bpid\b|iterations/|MKeys|GPixels|latency|while waiting|lshmName|memcopy:|kernel:")
NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?\Z")


def own_check(out, program):
    """(right, what said so) by the program's own words; right is None if it has none."""
    if program.never and re.search(program.never, out, re.MULTILINE):
        return False, re.search(program.never, out, re.MULTILINE)[0]
    if program.says:
        said = re.search(program.says, out, re.MULTILINE)
        return said is not None, "its own check"
    if program.never:
        return True, "its own check"
    failed = re.search(FAILED, out)
    if failed:
        return False, failed[0]
    return (True, "its own check") if re.search(PASSED, out, re.IGNORECASE) else (None, "")


def comparable(text, keep="", extract=""):
    """The lines that have to be the same in every run."""
    if extract:
        return sorted(re.findall(extract, text))
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if keep:
        return [line for line in lines if re.search(keep, line)]
    return [line for line in lines if not re.search(OF_THIS_RUN, line, re.IGNORECASE)]


def same(texts, others, tolerance=0.0, apart=0):
    """None if they are the same, else where they first differ. Numbers may differ by their tolerance, relative and below one absolute, or by
    so much apart."""
    if len(texts) != len(others):
        return f"{len(texts)} lines beside {len(others)}"
    for number, (line, other) in enumerate(zip(texts, others), 1):
        if line == other:
            continue
        words, other_words = re.split(r"[\s,]+", line), re.split(r"[\s,]+", other)
        if len(words) != len(other_words) or not all(map(lambda a, b: _close(a, b, tolerance, apart), words, other_words)):
            return f"line {number}: '{line[:60]}' beside '{other[:60]}'"
    return None


def _close(word, other, tolerance, apart):
    if word == other:
        return True
    if not (NUMBER.match(word) and NUMBER.match(other)):
        return False
    a, b = float(word), float(other)
    return abs(a - b) <= max(apart, tolerance * max(1.0, abs(a), abs(b)))
