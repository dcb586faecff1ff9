"""P. Packages that say one thing here and another there, lead outside, or unpack without end."""
import io
import stat
import struct
import zipfile

from ground import status_of
from verdicts import checks, require


def zip_of(entries, method=zipfile.ZIP_STORED):
    """[(name, mode, content)] as a zip, which has a file app.py besides."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, mode, content in [*entries, ("app.py", stat.S_IFREG | 0o644, "def handler(e, c): return 1")]:
            info = zipfile.ZipInfo(name)
            info.create_system, info.external_attr, info.compress_type = 3, mode << 16, method
            archive.writestr(info, content)
    return out.getvalue()


def patched(code, mark, offset, content, which=0):
    """`content` at an offset of the n-th header with this mark."""
    at = -1
    for _ in range(which + 1):
        at = code.index(mark, at + 1)
    return code[:at + offset] + content + code[at + offset + len(content):]


LOCAL, CENTRAL, END = b"PK\3\4", b"PK\1\2", b"PK\5\6"
FILE = stat.S_IFREG | 0o644


def many_over_one():
    """500 entries of the directory over one local header."""
    code = zip_of([])
    begin, end = code.index(CENTRAL), code.index(END)
    record = code[begin:end]
    directory = b"".join(record[:46] + b"f%05d" % n + record[52:] for n in range(500))
    return code[:begin] + directory + END + struct.pack("<HHHHIIH", 0, 0, 500, 500, len(directory), begin, 0)


def lying():
    plain = zip_of([("first", FILE, "one"), ("second", FILE, "two")])
    return {
        "500 entries over one header": many_over_one(),
        "another name": patched(plain, LOCAL, 30, b"fIrst"),
        "another method": patched(plain, LOCAL, 8, b"\x08\0"),
        "method 99": patched(patched(plain, LOCAL, 8, b"\x63\0"), CENTRAL, 10, b"\x63\0"),
        "method 12": patched(patched(plain, LOCAL, 8, b"\x0c\0"), CENTRAL, 10, b"\x0c\0"),
        "encrypted here": patched(plain, CENTRAL, 8, b"\1"),
        "encrypted there": patched(patched(plain, CENTRAL, 8, b"\1"), LOCAL, 6, b"\1"),
        "another size": patched(plain, CENTRAL, 24, b"\7"),
        "sizes that both lie": patched(patched(zip_of([("f", FILE, "x" * 100)], zipfile.ZIP_DEFLATED), CENTRAL, 24, b"\7"), LOCAL, 22, b"\7"),
        "one entry fewer": patched(plain, END, 8, b"\2\0\2\0"),
        "one entry more": patched(plain, END, 8, b"\4\0\4\0"),
        "overlapping": patched(plain, CENTRAL, 42, struct.pack("<I", plain.index(LOCAL, 4)), 0),
        "a wrong sum": patched(patched(plain, LOCAL, 14, b"zzzz"), CENTRAL, 16, b"zzzz"),
        "cut off": plain[:-3],
        "something added": plain + b"x",
    }


def leading_outside():
    return {
        "absolute": zip_of([("/tmp/lambent-adversary", FILE, "x")]), "parent": zip_of([("a/../../x", FILE, "x")]),
        "backslash": zip_of([("..\\x", FILE, "x")]), "absolute link": zip_of([("l", stat.S_IFLNK | 0o777, "/etc")]),
        "parent link": zip_of([("l", stat.S_IFLNK | 0o777, "../../..")]),
        "file behind a link": zip_of([("l", stat.S_IFLNK | 0o777, "d"), ("l/x", FILE, "x")]),
        "twice": zip_of([("d", FILE, "x"), ("d/x", FILE, "x")]), "fifo": zip_of([("odd", stat.S_IFIFO | 0o644, "")]),
        "device": zip_of([("odd", stat.S_IFCHR | 0o644, "")]), "block device": zip_of([("odd", stat.S_IFBLK | 0o644, "")]),
        "socket": zip_of([("odd", stat.S_IFSOCK | 0o644, "")]), "too deep": zip_of([("d/" * 3000 + "x", FILE, "x")]),
        "no zip": b"hello", "nothing": b"",
    }


@checks("P", "packages whose directory lies are refused by name")
def lies(ground):
    for name, code in lying().items():
        status, error = status_of(ground.worker.create, ground.name("lying"), code)
        require(status == 400, f"{name}: {status}")
        require(b"zip" in error.body, f"{name}: {error.body[:200]}")
    return {"packages": len(lying())}


@checks("P", "packages that lead outside are refused by name")
def outside(ground):
    for name, code in leading_outside().items():
        status, error = status_of(ground.worker.create, ground.name("outside"), code)
        require(status == 400, f"{name}: {status} {error.body[:200] if status >= 400 else ''}")
    return {"packages": len(leading_outside())}


@checks("P", "what honest tools pack is taken: stored, deflated, streamed, with a comment, behind a line")
def honest(ground):
    class Stream(io.RawIOBase):  # cannot seek, so sizes follow the content
        def __init__(self):
            self.bytes = bytearray()

        def writable(self):
            return True

        def write(self, data):
            self.bytes += data
            return len(data)

    streamed = Stream()
    with zipfile.ZipFile(streamed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("app.py", "def handler(e, c): return 1")
        with archive.open(zipfile.ZipInfo("large"), "w", force_zip64=True) as entry:
            entry.write(bytes(100_000))
    commented = io.BytesIO()
    with zipfile.ZipFile(commented, "w") as archive:
        archive.writestr("app.py", "def handler(e, c): return 1")
        archive.writestr("umläute.txt", "x")
        archive.comment = b"made by hand"
    for code in (zip_of([]), zip_of([("data", FILE, "x" * 1000)], zipfile.ZIP_DEFLATED), bytes(streamed.bytes), commented.getvalue(),
                 b"#!/usr/bin/env python3\n" + zip_of([])):
        name = ground.name("honest")
        status, reply = status_of(ground.worker.create, name, code)
        require(status == 201, f"{status} {getattr(reply, 'body', b'')[:200]}")
        require(ground.worker.invoke(name).json == 1, "it does not run")
        ground.worker.delete(name)


@checks("P", "bombs end at the limits, and the API goes on meanwhile")
def bombs(ground):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("app.py", "def handler(e, c): return 1")
        for n in range(3):
            archive.writestr(f"zeros{n}", bytes(90 << 20))
    status, _ = status_of(ground.worker.create, ground.name("bomb"), out.getvalue())
    require(status == 400, f"270 MiB of zeros: {status}")
    crowd = zip_of([(f"d/{n}", FILE, "") for n in range(21_000)])
    status, _ = status_of(ground.worker.create, ground.name("bomb"), crowd)
    require(status == 400, f"21,000 entries: {status}")
    ground.neighbour_is_well()


@checks("P", "bits that give rights do not survive")
def rights(ground):
    name = ground.name("setuid")
    ground.worker.create(name, zip_of([("tool", stat.S_IFREG | 0o6755, "#!/bin/sh\n"), ("app2.py", FILE,
                         "import os\ndef handler(e, c): return os.stat('/var/task/tool').st_mode")]), handler="app2.handler")
    mode = ground.worker.invoke(name).json
    ground.worker.delete(name)
    require(mode & 0o7000 == 0, f"mode {mode:o}")
