#!/usr/bin/env python3
"""Holds every #include under src/ against the DEPENDS lines of src/rooms.cmake.

A room may include its own headers, those of rooms it names, and system headers. src/bin may include anything.
Also checks: no environment reads outside src/bin and the preloaded libraries, no clocks, threads, files or sockets in pure rooms.
Prints each offence as file:line: why, and exits with 1 if there is any.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"
PURE = {"scheduling", "slice_scheduling", "dispatch", "journal", "protocol", "workload", "simulator", "slice_simulator", "pipeline", "mig"}
# Preloaded libraries have no main; each reads its environment in one file.
MAY_READ_ENVIRONMENT = {"bin", "shim", "forwarded_cuda", "emulated_node", "runtime_client"}
IMPURE = re.compile(
    r"\b(std::chrono::\w*_clock|std::(mutex|shared_mutex|thread|jthread|condition_variable|random_device)|"
    r"std::(filesystem|[io]?fstream|this_thread)|pthread_\w+)\b")
# Calls of the system by their plain names, with or without '::'. Those that take arguments are told from a class's
# own read() or close() by having some.
SYSTEM_CALL = re.compile(
    r"(?<![\w.>:])(?:::)?(?:(?:open|openat|creat|close|read|pread|write|pwrite|fcntl|flock|ioctl|mmap|munmap|ftruncate|"
    r"unlink|rename|mkdir|stat|fstat|fopen|fdopen|popen|system|socket|connect|bind|listen|accept4?|send|recv|sendmsg|"
    r"recvmsg|poll|epoll_\w+|kill|usleep|nanosleep|sleep|clock_gettime|gettimeofday|time|srand)\((?!\s*\))|"
    r"(?:fork|vfork|getpid|gettid|rand|random|clock)\(\s*\))")
# Words that may stand before a call; any other word before it makes it a declaration.
BEFORE_CALL = {"return", "else", "do", "case", "co_return", "co_await"}


def read_rooms():
    rooms = {}
    for line in (SOURCE / "rooms.cmake").read_text().splitlines():
        match = re.match(r"room\((\w+)\s*(.*)\)", line)
        if not match:
            continue
        name, rest = match.groups()
        words = rest.split()
        lists = {"DEPENDS": [], "LINKS": [], "TEST_USES": []}
        current = None
        for word in words:
            if word in lists:
                current = word
            elif word == "OWN_BUILD":
                current = None
            elif current:
                lists[current].append(word)
        rooms[name] = (set(lists["DEPENDS"]), set(lists["TEST_USES"]))
    return rooms


def reachable(rooms, name):
    """The rooms that `name` may include: those it names. Naming is not inherited."""
    return rooms[name][0] | {name}


def check_cycles(rooms):
    offences, state = [], {}

    def visit(name, path):
        if state.get(name) == "done":
            return
        if state.get(name) == "open":
            offences.append("src/rooms.cmake:1: rooms depend on each other: " + " -> ".join(path + [name]))
            return
        state[name] = "open"
        for other in sorted(rooms[name][0]):
            if other not in rooms:
                offences.append(f"src/rooms.cmake:1: {name} depends on {other}, which is no room")
            else:
                visit(other, path + [name])
        state[name] = "done"

    for name in rooms:
        visit(name, [])
    return offences


def calls_system(code):
    code = re.sub(r'"(\\.|[^"\\])*"', '""', code)
    for match in SYSTEM_CALL.finditer(code):
        before = re.search(r"([A-Za-z_]\w*)[\s*&]+$", code[: match.start()])
        if not before or before.group(1) in BEFORE_CALL:
            return True
    return False


def check_file(path, room, rooms):
    offences = []
    is_test = path.stem.endswith("_test") or path.name in {"testing.h", "virtual_host.h", "random_world.h"} or "testing" in path.relative_to(SOURCE).parts
    allowed = reachable(rooms, room) | (rooms[room][1] if is_test else set())
    for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
        where = f"{path.relative_to(ROOT)}:{number}"
        match = re.match(r'\s*#\s*include\s+"([^"/]+)/', line)
        if match and match.group(1) in rooms and match.group(1) not in allowed:
            offences.append(f"{where}: room {room} may not use {match.group(1)} (see src/rooms.cmake)")
        code = line.split("//")[0]
        if room not in MAY_READ_ENVIRONMENT and not is_test and re.search(r"\b(secure_)?getenv\(", code):
            offences.append(f"{where}: the environment is read in src/bin only")
        if room in PURE and not is_test and (IMPURE.search(code) or calls_system(code)):
            offences.append(f"{where}: {room} is pure: no clocks, threads, locks, files or sockets")
    return offences


def main():
    rooms = read_rooms()
    offences = check_cycles(rooms)
    for folder in sorted(p for p in SOURCE.iterdir() if p.is_dir() and p.name != "bin"):
        if folder.name not in rooms:
            offences.append(f"src/{folder.name}:1: a folder without a line in src/rooms.cmake")
            continue
        for path in sorted(folder.rglob("*")):
            if path.suffix in (".h", ".cc", ".inc"):
                offences += check_file(path, folder.name, rooms)
    print("\n".join(offences) or f"{len(rooms)} rooms keep to their doors")
    return 1 if offences else 0


if __name__ == "__main__":
    sys.exit(main())
