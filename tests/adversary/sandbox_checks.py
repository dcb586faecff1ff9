"""A. Code in a sandbox that wants out of it, and that takes all it can get."""
import os
import socket
import threading
import time

from ground import MIB, memory_of
from verdicts import checks, require

# Numbers of x86-64. Each is made in a child, so that a call that ends the caller ends no check.
CALLS = """
import ctypes, errno, os, signal
libc = ctypes.CDLL(None, use_errno=True)
CALLS = {
  "ptrace": (101, 16, 1, 0, 0), "mount": (165, b"none", b"/tmp", b"tmpfs", 0, 0), "umount2": (166, b"/tmp", 2), "pivot_root": (155, b"/tmp", b"/tmp"),
  "chroot": (161, b"/tmp"), "unshare user": (272, 0x10000000), "unshare net": (272, 0x40000000), "unshare pid": (272, 0x20000000),
  "unshare mount": (272, 0x20000), "setns": (308, 0, 0), "clone user": (56, 0x10000011, 0, 0, 0, 0), "clone3": (435, 0, 88), "bpf": (321, 0, 0, 0),
  "perf_event_open": (298, 0, 0, 0, 0, 0), "userfaultfd": (323, 0), "io_uring_setup": (425, 1, 0), "io_uring_enter": (426, 0, 1, 0, 0, 0, 0),
  "io_uring_register": (427, 0, 0, 0, 0), "keyctl": (250, 0, 0), "add_key": (248, b"user", b"x", b"x", 1, -2), "request_key": (249, b"user", b"x", 0, -2),
  "process_vm_readv": (310, 1, 0, 0, 0, 0, 0), "process_vm_writev": (311, 1, 0, 0, 0, 0, 0), "pidfd_getfd": (438, 0, 0, 0), "kcmp": (312, 1, 1, 0, 0, 0),
  "init_module": (175, 0, 0, b""), "finit_module": (313, 0, b"", 0), "delete_module": (176, b"x", 0), "kexec_load": (246, 0, 0, 0, 0),
  "kexec_file_load": (320, 0, 0, 0, 0, 0), "fanotify_init": (300, 0, 0), "mknod device": (133, b"/tmp/dev", 0o60666, 0x800),
  "open_by_handle_at": (304, -100, 0, 0), "reboot": (169, 0xfee1dead, 672274793, 0), "swapon": (167, b"/tmp/x", 0), "swapoff": (168, b"/tmp/x"),
  "sethostname": (170, b"x", 1), "setdomainname": (171, b"x", 1), "iopl": (172, 3), "ioperm": (173, 0, 1, 1), "acct": (163, b"/tmp/x"),
  "settimeofday": (164, b"\\1" * 16, 0), "clock_settime": (227, 0, b"\\1" * 16), "adjtimex": (159, b"\\1" * 208), "quotactl": (179, 0, 0, 0, 0),
  "setuid root": (105, 0), "setgid root": (106, 0), "setgroups": (116, 0, 0), "capset": (126, 0, 0), "syslog": (103, 3, 0, 0), "vhangup": (153,),
  "lookup_dcookie": (212, 0, 0, 0), "name_to_handle_at": (303, -100, b"/", 0, 0, 0), "move_mount": (429, -100, b"/", -100, b"/tmp", 0),
  "open_tree": (428, -100, b"/", 1), "fsopen": (430, b"tmpfs", 0), "fsmount": (432, 0, 0, 0), "mount_setattr": (442, -100, b"/", 0, 0, 0),
  "nfsservctl": (180, 0, 0, 0), "modify_ldt": (154, 1, 0, 0), "seccomp unfiltered": (317, 2, 0, 0), "socket vsock": (41, 40, 1, 0),
  "socket packet": (41, 17, 3, 0), "socket alg": (41, 38, 5, 0), "socket raw": (41, 2, 3, 1), "socket bluetooth": (41, 31, 3, 0),
  "signal init": (62, 1, 0 + 9) , "nice": (141, 0, 0, -20), "sched fifo": (144, 0, 1, b"\\1\\0\\0\\0"), "x32 getpid": (0x40000000 + 39,),
}
HARMLESS = ("signal init",)  # a signal that init ignores is no harm: it lives on
def attempt(arguments):
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        ctypes.set_errno(0)
        result = libc.syscall(*(ctypes.c_long(each) if isinstance(each, int) else each for each in arguments))
        os.write(writing, b"done" if result >= 0 else errno.errorcode.get(ctypes.get_errno(), "?").encode())
        os._exit(0)
    os.close(writing)
    said = os.read(reading, 100).decode()
    os.close(reading)
    status = os.waitpid(child, 0)[1]
    return said or "signal %d" % os.WTERMSIG(status)
def handler(event, context):
    return {name: attempt(arguments) for name, arguments in CALLS.items() if name not in HARMLESS}
"""


@checks("A", "system calls that lead outside are refused")
def calls(ground):
    answers = ground.ask(CALLS)
    # An empty transfer of memory is none; a filter on top of ours only takes away.
    harmless = {"process_vm_readv", "process_vm_writev", "nice"}
    done = {name for name, said in answers.items() if said == "done"} - harmless
    require(not done, f"these succeeded: {sorted(done)}")
    require(answers["x32 getpid"] in ("signal 31", "ENOSYS", "EPERM"), f"x32 numbers: {answers['x32 getpid']}")
    return {"calls": len(answers)}


@checks("A", "what lies on the host is out of sight")
def sight(ground):
    seen = ground.ask("""
import os
PATHS = ["/proc/1/mem", "/proc/1/fd/0", "/proc/1/root/root", "/proc/1/environ", "/proc/kcore", "/proc/kmsg", "/proc/keys", "/proc/sysrq-trigger",
         "/proc/sys/kernel/core_pattern", "/sys/kernel", "/sys/fs/cgroup", "/dev/mem", "/dev/kvm", "/dev/fuse", "/dev/sda", "/etc/shadow", "/root",
         "/home", "/run", "/var/lib", "/var/run/docker.sock"]
def handler(event, context):
    opened = []
    for path in PATHS + event["paths"]:
        try:
            found = os.listdir(path) if os.path.isdir(path) else open(path, "r+b" if path.startswith("/proc/sys") else "rb").read(1)
            if found: opened.append(path)  # those that are covered are empty
        except OSError:
            pass
    written = []
    for path in ("/", "/usr", "/etc", "/var/task", "/opt", "/proc/self/oom_score_adj", "/proc/sys/vm/drop_caches", "/dev"):
        try:
            if os.path.isdir(path): open(path + "/adversary", "w").close()
            else: os.write(os.open(path, os.O_WRONLY), b"-1000" if "oom" in path else b"1")
            written.append(path)
        except OSError:
            pass
    status = dict(line.split(":\\t") for line in open("/proc/self/status").read().splitlines() if ":\\t" in line)
    files = {os.readlink("/proc/self/fd/%s" % each) for each in os.listdir("/proc/self/fd") if os.path.lexists("/proc/self/fd/%s" % each)}
    return {"opened": opened, "written": written, "capabilities": status["CapEff"], "no_new_privs": status["NoNewPrivs"],
            "seccomp": status["Seccomp"], "files": sorted(files)}
""", {"paths": [str(ground.folder), str(ground.folder / "main/state"), str(ground.folder / "main/run"), "/proc/%d/environ" % os.getpid()]})
    require(not seen["opened"], f"it opened {seen['opened']}")
    require(not seen["written"], f"it wrote {seen['written']}")
    require(int(seen["capabilities"], 16) == 0, f"capabilities {seen['capabilities']}")
    require(seen["no_new_privs"] == "1" and seen["seccomp"] == "2", "no filter, or privileges to gain")
    strange = [each for each in seen["files"] if not each.startswith(("pipe:", "/dev/null", "socket:", "/proc/", "/dev/urandom"))]
    require(not strange, f"descriptors of others: {strange}")


@checks("A", "sockets of the host are out of reach")
def reach(ground):
    with socket.socket(socket.AF_UNIX) as abstract, socket.socket() as tcp:
        abstract.bind(f"\0lambent-adversary-{os.getpid()}")
        abstract.listen()
        tcp.bind(("127.0.0.1", 0))
        tcp.listen()
        reached = ground.ask("""
import socket
def attempt(family, address):
    try:
        with socket.socket(family) as s:
            s.settimeout(1); s.connect(address)
        return True
    except OSError:
        return False
def handler(event, context):
    inet = [("127.0.0.1", event["tcp"]), ("127.0.0.1", event["worker"]), ("169.254.169.254", 80), ("1.1.1.1", 53), ("10.0.0.1", 22)]
    unix = ["\\0" + event["abstract"]] + event["paths"]
    return [str(each) for each in inet if attempt(socket.AF_INET, each)] + [each for each in unix if attempt(socket.AF_UNIX, each)]
""", {"tcp": tcp.getsockname()[1], "worker": ground.worker.address[1], "abstract": f"lambent-adversary-{os.getpid()}",
            "paths": [str(ground.folder / "main/run/objects.sock"), "/run/lambent/objects.sock"]})
    require(not reached, f"it reached {reached}")


GLUTTONS = {  # name: (source, how it may end: words in the answer or the error's type)
    "processes": ("import os, time\ndef handler(e, c):\n  n = 0\n  try:\n    while n < 5000:\n      if os.fork() == 0: time.sleep(20); os._exit(0)\n"
                  "      n += 1\n  except OSError: pass\n  return ['ended', n < 600]", ["ended", True]),
    "memory": ("def handler(e, c):\n  hoard = []\n  while True: hoard.append(bytearray(1 << 22))", ("Runtime.OutOfMemory", "MemoryError")),
    "files in memory": ("import os\ndef handler(e, c):\n  f = os.memfd_create('x')\n  while True: os.write(f, bytes(1 << 22))",
                        ("Runtime.OutOfMemory", "OSError")),
    "unlinked scratch": ("import os\ndef handler(e, c):\n  f = os.open('/tmp/x', os.O_RDWR | os.O_CREAT); os.unlink('/tmp/x')\n"
                         "  while True: os.write(f, bytes(1 << 22))", ("Runtime.OutOfMemory", "OSError")),
    "descriptors": ("import os\ndef handler(e, c):\n  kept = []\n  try:\n    while len(kept) < 5000: kept.append(os.open('/dev/null', 0))\n"
                    "  except OSError: pass\n  for f in kept: os.close(f)\n  return ['ended', len(kept) < 2000]", ["ended", True]),
    "inodes": ("import os\ndef handler(e, c):\n  n = 0\n  try:\n    while n < 2000000: os.mkdir('/tmp/%d' % n); n += 1\n  except OSError: pass\n"
               "  return ['ended', n < 1000000]", ["ended", True]),
    "time": ("def handler(e, c):\n  while True: pass", ("Sandbox.Timeout",)),
    "stopping itself": ("import os, signal\ndef handler(e, c): os.kill(os.getpid(), signal.SIGSTOP)", ("Sandbox.Timeout",)),
}


@checks("A", "gluttons end at their own limits, and a neighbour goes on")
def gluttons(ground):
    replies = {}

    def run(name, source):
        own = ground.name("glutton")
        ground.worker.create_python(own, source, timeout=4, memory=256)
        replies[name] = ground.worker.invoke(own)
        ground.worker.delete(own)

    threads = [threading.Thread(target=run, args=(name, source)) for name, (source, _) in GLUTTONS.items()]
    for each in threads:
        each.start()
    slowest = 0
    while any(each.is_alive() for each in threads):
        slowest = max(slowest, ground.neighbour_is_well(seconds=8))
        time.sleep(0.05)
    for name, (_, end) in GLUTTONS.items():
        require(name in replies, f"{name}: no answer")
        answer = replies[name].json
        if isinstance(end, tuple):
            kind = answer.get("errorType") if isinstance(answer, dict) else None
            require(kind in end, f"{name}: ended as {str(answer)[:200]}")
        else:
            require(answer == end, f"{name}: answered {str(answer)[:200]}")
    return {"slowest_neighbour_s": round(slowest, 2)}


@checks("A", "output without end does not fill the worker")
def output(ground):
    before = memory_of(ground.worker.process.pid)
    ground.ask("import os\ndef handler(e, c):\n  for _ in range(200): os.write(1, b'x' * (1 << 20))\n  return 'done'", timeout=60)
    grown = memory_of(ground.worker.process.pid) - before
    require(grown < 64 * MIB, f"the worker grew by {grown // MIB} MiB")
    return {"grown_bytes": grown}


@checks("A", "the peak of host memory is told of warm calls, too")
def peaks(ground):
    name = ground.name("peaks")
    ground.worker.create_python(name, "def handler(e, c):\n  hoard = bytearray(e['mib'] << 20)\n  return len(hoard)", memory=512)
    seen = {}
    for mib in (1, 200, 1):
        reply = ground.worker.invoke(name, {"mib": mib})
        seen.setdefault(mib, []).append((reply.headers["x-lambent-start"], int(reply.headers["x-lambent-host-memory-peak-bytes"])))
    ground.worker.delete(name)
    large, small = seen[200][0], seen[1][1]
    require(large[0] == "warm" and large[1] >= 200 * MIB, f"200 MiB in a warm call are told as {large}")
    require(small[0] == "warm" and 0 < small[1] < 200 * MIB, f"a call after it has the peak of another: {small}")
    return {"large_bytes": large[1], "small_bytes": small[1]}
