#!/usr/bin/env python3
"""Holds every #include under src/ against the floor and DEPENDS lines of src/modules.cmake.

A module may include its own headers, those of modules that it names, and system headers; it may name modules of its own floor
and of those that its floor uses. src/bin may include anything. Tests and testing/ folders may also include TEST_USES.
Also checks: no environment reads outside src/bin and the preloaded libraries, no clocks, threads, locks, files or sockets in pure modules (all of floor decide).
Prints each offence as file:line: why, and exits with 1 if there is any.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"
PURE_FLOORS = {"decide"}
PURE = {"protocol", "workload", "simulator", "slice_simulator", "sweep", "mig", "device_memory"}
# Preloaded libraries have no main; each reads its environment in one file.
MAY_READ_ENVIRONMENT = {"bin", "shim", "forward_client", "emulated_node", "runtime_client"}
IMPURE = re.compile(
    r"\b(std::chrono::\w*_clock|std::(mutex|shared_mutex|thread|jthread|condition_variable|random_device)|"
    r"std::(filesystem|[io]?fstream|this_thread)|pthread_\w+|Mutex|MutexLock)\b")
# Calls of the system by their plain names, with or without '::'. Those that take arguments are told from a class's
# own read() or close() by having some.
SYSTEM_CALL = re.compile(
    r"(?<![\w.>:])(?:::)?(?:(?:open|openat|creat|close|read|pread|write|pwrite|fcntl|flock|ioctl|mmap|munmap|ftruncate|"
    r"unlink|rename|mkdir|stat|fstat|fopen|fdopen|popen|system|socket|connect|bind|listen|accept4?|send|recv|sendmsg|"
    r"recvmsg|poll|epoll_\w+|kill|usleep|nanosleep|sleep|clock_gettime|gettimeofday|time|srand)\((?!\s*\))|"
    r"(?:fork|vfork|getpid|gettid|rand|random|clock)\(\s*\))")
# Words that may stand before a call; any other word before it makes it a declaration.
BEFORE_CALL = {"return", "else", "do", "case", "co_return", "co_await"}


class Layout:
    """What src/modules.cmake says."""

    def __init__(self):
        self.floors = {}  # floor: the floors and FLOOR/MODULEs that it uses
        self.floor_of = {}  # module: its floor
        self.depends = {}  # module: the modules that it names
        self.test_uses = {}
        self.mistakes = []


def read_layout():
    layout, floor = Layout(), None
    for number, line in enumerate((SOURCE / "modules.cmake").read_text().splitlines(), 1):
        match = re.match(r"(floor|module)\((\w+)\s*(.*)\)", line)
        if not match:
            continue
        kind, name, rest = match.groups()
        lists, current = {}, None
        for word in rest.split():
            if word in ("USES", "DEPENDS", "LINKS", "TEST_USES", "OWN_BUILD"):
                current = lists.setdefault(word, [])
            elif current is not None:
                current.append(word)
        if kind == "floor":
            floor = name
            layout.floors[name] = lists.get("USES", [])
        elif floor is None:
            layout.mistakes.append(f"src/modules.cmake:{number}: {name} has no floor above it")
        else:
            layout.floor_of[name] = floor
            layout.depends[name] = lists.get("DEPENDS", [])
            layout.test_uses[name] = lists.get("TEST_USES", [])
    return layout


def check_floors(layout):
    """Modules that name one of a floor which theirs does not use, and floors that use one that stands below them in the file."""
    offences, known = [], set()
    for floor, uses in layout.floors.items():
        for used in uses:
            used_floor, _, module = used.partition("/")
            if used_floor not in known:
                offences.append(f"src/modules.cmake:1: floor {floor} uses {used_floor}, which is no floor above it")
            elif module and layout.floor_of.get(module) != used_floor:
                offences.append(f"src/modules.cmake:1: floor {floor} uses {used}, which is no module")
        known.add(floor)
    for name, others in layout.depends.items():
        floor = layout.floor_of[name]
        for other in others:
            theirs = layout.floor_of.get(other)
            if theirs is not None and theirs != floor and not {theirs, f"{theirs}/{other}"} & set(layout.floors[floor]):
                offences.append(f"src/modules.cmake:1: {name} of floor {floor} depends on {other} of floor {theirs}, "
                                "which its floor does not use")
    return offences


def check_cycles(layout):
    offences, state = [], {}

    def visit(name, path):
        if state.get(name) == "done":
            return
        if state.get(name) == "open":
            offences.append("src/modules.cmake:1: modules depend on each other: " + " -> ".join(path + [name]))
            return
        state[name] = "open"
        for other in sorted(layout.depends[name]):
            if other not in layout.depends:
                offences.append(f"src/modules.cmake:1: {name} depends on {other}, which is no module")
            else:
                visit(other, path + [name])
        state[name] = "done"

    for name in layout.depends:
        visit(name, [])
    return offences


def calls_system(code):
    code = re.sub(r'"(\\.|[^"\\])*"', '""', code)
    for match in SYSTEM_CALL.finditer(code):
        before = re.search(r"([A-Za-z_]\w*)[\s*&]+$", code[: match.start()])
        if not before or before.group(1) in BEFORE_CALL:
            return True
    return False


def check_file(path, module, layout):
    offences = []
    is_test = path.stem.endswith("_test") or "testing" in path.relative_to(SOURCE).parts
    allowed = {module, *layout.depends[module], *(layout.test_uses[module] if is_test else ())}
    for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
        where = f"{path.relative_to(ROOT)}:{number}"
        match = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
        if match:
            floor, _, rest = match.group(1).partition("/")
            other = rest.partition("/")[0]
            if floor == "bin":
                offences.append(f"{where}: only mains include headers of bin")
            elif floor in layout.floors and layout.floor_of.get(other) != floor:
                offences.append(f"{where}: there is no module {floor}/{other}")
            elif floor in layout.floors and other not in allowed:
                offences.append(f"{where}: module {module} may not use {other} (see src/modules.cmake)")
            elif floor not in layout.floors and floor in layout.floor_of:
                offences.append(f"{where}: the path of an include begins with a floor")
        code = line.split("//")[0]
        if module not in MAY_READ_ENVIRONMENT and not is_test and re.search(r"\b(secure_)?getenv\(", code):
            offences.append(f"{where}: the environment is read in src/bin only")
        is_pure = module in PURE or layout.floor_of[module] in PURE_FLOORS
        if is_pure and not is_test and (IMPURE.search(code) or calls_system(code)):
            offences.append(f"{where}: {module} is pure: no clocks, threads, locks, files or sockets")
    return offences


def check_own_lists(layout):
    """Names in this file that src/modules.cmake does not have."""
    unknown = sorted((PURE | MAY_READ_ENVIRONMENT - {"bin"}) - set(layout.floor_of)) + sorted(PURE_FLOORS - set(layout.floors))
    return [f"tools/check_layering.py:1: there is no {name} in src/modules.cmake" for name in unknown]


def main(own_lists=False):
    layout = read_layout()
    offences = layout.mistakes + check_floors(layout) + check_cycles(layout)
    if own_lists:
        offences += check_own_lists(layout)
    for folder in sorted(p for p in SOURCE.iterdir() if p.is_dir() and p.name != "bin"):
        if folder.name not in layout.floors:
            offences.append(f"src/{folder.name}:1: a folder without a floor's line in src/modules.cmake")
            continue
        for below in sorted(p for p in folder.iterdir() if p.is_dir()):
            if layout.floor_of.get(below.name) != folder.name:
                offences.append(f"src/{folder.name}/{below.name}:1: a folder without a module's line in src/modules.cmake")
                continue
            for path in sorted(below.rglob("*")):
                if path.suffix in (".h", ".cc", ".inc"):
                    offences += check_file(path, below.name, layout)
    for name, floor in layout.floor_of.items():
        if not (SOURCE / floor / name).is_dir():
            offences.append(f"src/modules.cmake:1: module {name} has no folder src/{floor}/{name}")
    print("\n".join(offences) or f"{len(layout.floor_of)} modules on {len(layout.floors)} floors keep to what they may use")
    return 1 if offences else 0


if __name__ == "__main__":
    sys.exit(main(own_lists=True))
