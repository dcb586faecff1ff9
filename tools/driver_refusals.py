#!/usr/bin/env python3
"""What the emulated driver does not do, each with its reason: src/emulator/emulated_cuda/refusals.txt, read and held against the driver.

usage: driver_refusals.py check DOCUMENT OBJECT...   every exported name is either defined in one of the objects or has one
                                                     line with its reason, no line is idle, and the document says the same
       driver_refusals.py write DOCUMENT OBJECT...   writes the document's table

A line reads 'CLASS NAME... : reason'. CLASS is 'refused' (could be emulated, is not), 'meaningless' (nothing here that it
could mean) or 'answered' (the driver's own code refuses, after it has checked the arguments). A name covers every ABI and
stream variant of it; with * at its end, every name that begins so; with ! at its end, that one symbol alone.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SYMBOLS = ROOT / "src/gpu/cuda_abi/driver_symbols.txt"
REFUSALS = ROOT / "src/emulator/emulated_cuda/refusals.txt"
BEGIN, END = "<!-- the table below is written by tools/driver_refusals.py -->", "<!-- end of the table -->"
CLASSES = ("refused", "meaningless", "answered")


def base_name(symbol):
    """cuMemcpyHtoD_v2_ptds -> cuMemcpyHtoD: the name that cuGetProcAddress is asked for."""
    return re.sub(r"_v\d+$", "", re.sub(r"_pt(sz|ds)$", "", symbol))


class Line:
    def __init__(self, number, text):
        self.number = number
        head, _, self.reason = (part.strip() for part in text.partition(" : "))
        self.kind, *self.names = head.split()
        if self.kind not in CLASSES or not self.names or not self.reason:
            sys.exit(f"{REFUSALS}:{number}: expected 'CLASS NAME... : reason'")

    def covers(self, symbol):
        return any(base_name(symbol).startswith(name[:-1]) if name.endswith("*") else
                   symbol == name[:-1] if name.endswith("!") else base_name(symbol) == name for name in self.names)


def read_lines():
    texts = REFUSALS.read_text(encoding="utf-8").splitlines()
    return [Line(number, text) for number, text in enumerate(texts, 1) if text.strip() and not text.startswith("#")]


def read_symbols():
    return SYMBOLS.read_text(encoding="utf-8").split()


def reason_of(lines, symbol):
    """The reason, or None: for the driver's log."""
    return next((line.reason for line in lines if line.covers(symbol)), None)


def defined_in(objects):
    """The exported names that some object defines for good (the stubs' own refusals are weak)."""
    out = subprocess.run(["nm", "--defined-only", *objects], stdout=subprocess.PIPE, check=True, text=True).stdout
    return set(re.findall(r"^[0-9a-f]+ T emulated_(cu\w+)$", out, re.MULTILINE))


def classify(defined):
    """(symbol -> its line, or None if it is done; complaints)."""
    lines, classes, complaints = read_lines(), {}, []
    idle = set(lines)
    for symbol in read_symbols():
        covering = [line for line in lines if line.covers(symbol)]
        idle -= set(covering)
        if len(covering) > 1:
            complaints.append(f"{symbol} has {len(covering)} lines: {[line.number for line in covering]}")
        line = covering[0] if covering else None
        if line is None and symbol not in defined:
            complaints.append(f"{symbol} is not emulated, and no line says why")
        if line and (line.kind == "answered") != (symbol in defined):
            complaints.append(f"{symbol}: line {line.number} says '{line.kind}', but the driver "
                              f"{'defines' if symbol in defined else 'does not define'} it")
        classes[symbol] = line
    complaints += [f"line {line.number} concerns no exported name: {line.names}" for line in idle]
    return classes, [f"{REFUSALS.relative_to(ROOT)}: {text}" for text in complaints]


def table(classes):
    rows = {}
    for symbol, line in classes.items():
        rows.setdefault(base_name(symbol), set()).add(line)
    done = [name for name, lines in rows.items() if None in lines]
    count = sum(line is None for line in classes.values())
    out = [BEGIN, "", f"Of {len(classes)} exported names ({len(rows)} functions), {count} names ({len(done)} functions) are done.", "",
           "| function | | |", "|---|---|---|"]
    # A function whose first ABI alone is refused is done.
    for name, lines in sorted(rows.items()):
        if None in lines:
            out.append(f"| `{name}` | done | |")
            continue
        line = next(iter(lines))
        out.append(f"| `{name}` | {'refused' if line.kind == 'answered' else line.kind} | {line.reason} |")
    return "\n".join(out + ["", END])


def main():
    command, document, *objects = sys.argv[1:]
    classes, complaints = classify(defined_in(objects))
    path = pathlib.Path(document)
    text = path.read_text(encoding="utf-8")
    written = text[:text.index(BEGIN)] + table(classes) + text[text.index(END) + len(END):]
    if command == "write":
        if not complaints:
            path.write_text(written, encoding="utf-8")
    elif written != text:
        complaints.append(f"{path.name} is out of date: ninja -C build/release emulated_cuda_calls")
    print("\n".join(complaints) or f"{len(classes)} exported names are accounted for")
    sys.exit(1 if complaints else 0)


if __name__ == "__main__":
    main()
