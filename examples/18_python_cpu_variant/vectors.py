"""What both variants do alike. LAMBENT_DEVICE says on which of them this runs."""
import array
import os


def inputs(event):
    count = int(event.get("count", 1 << 16))
    if count < 1:
        raise ValueError("count must be at least 1")
    return array.array("f", range(count)), array.array("f", (i % 7 for i in range(count)))


def answer(event, a, b, c):
    reply = {"count": len(c), "first": c[0], "last": c[-1], "on": os.environ.get("LAMBENT_DEVICE")}
    if event.get("check"):
        reply["correct"] = c == array.array("f", (x + y for x, y in zip(a, b)))
    return reply
