"""A process that has imported what handlers need, and is forked into their sandboxes.

python3 -m lambent_runtime.zygote [module...]: descriptor 3 is the socket of its root. It says "ready", or why it cannot serve. For
each message "fork", whose descriptors are a socket, six namespaces, a user namespace and the entries of cgroups, it forks into
them. The fork gives its rights up, says its number on the socket, waits there for the plan of a sandbox, and becomes its handler.
Until then no code of a function and nothing of its environment is in here. The init at the other end of the socket checks all of
it from outside.
"""
import sys

# What each Python has loaded before it runs a function, so that no file of the function can take its place.
FROM_THE_START = frozenset(sys.modules) | frozenset(sys.builtin_module_names)

import array
import ctypes
import gc
import importlib.machinery
import os
import socket
import threading
import time

ROOT = 3
NAMESPACES = 6
MOST_PLAN_BYTES = 256 * 1024
MOST_DESCRIPTORS = 32
PR_CAPBSET_DROP = 24
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_CLEAR_ALL = 4
CAPABILITY_VERSION_3 = 0x20080522


class ZygoteError(Exception):
    """Why it cannot serve."""


def main(modules):
    root = socket.socket(fileno=ROOT)
    try:
        _load(modules)
        libc = ctypes.CDLL(None, use_errno=True)
        _check_threads()
        _check_driver()
    except BaseException as error:  # SystemExit of a package, too
        root.send(("%s: %s" % (type(error).__name__, error)).encode("utf-8", "replace")[:1500])
        return 1
    gc.collect()
    gc.freeze()  # what is loaded stays where it is: collections would copy its pages in each fork
    root.send(b"ready")
    channel = _serve(root, libc)
    return _run(channel) if channel is not None else 0


def _load(modules):
    """All of the runtime, as its files may be another version's when a fork needs them, then what the function's package names."""
    from . import api, context, cuda_errors, handler, logs, loop, network_errors, several, shared_memory, streaming  # noqa: F401
    import difflib, json, traceback  # noqa: E401, F401

    for name in modules:
        try:
            __import__(name)
        except ImportError as error:
            raise ZygoteError("preload of '%s': %s" % (name, error)) from None


def _check_threads():
    """A thread is not there any more after a fork, but the locks that it held are. Libraries that end theirs before a fork
    (OpenBLAS) are fine."""
    names = [thread.name for thread in threading.enumerate() if thread is not threading.main_thread()]
    if names:
        raise ZygoteError("a preloaded module starts threads: %s" % ", ".join(names)[:500])
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    left = len(os.listdir("/proc/self/task")) - 1
    if left > 0:
        raise ZygoteError("a preloaded module leaves %d threads that do not end before a fork" % left)


def _check_driver():
    """A driver that was called before the fork does not work after it, and has seen no GPU."""
    driver = os.environ.get("LAMBENT_SHIM_DRIVER")
    with open("/proc/self/maps") as maps:
        if driver and any(line.rstrip().endswith(os.path.realpath(driver)) for line in maps):
            raise ZygoteError("a preloaded module uses CUDA while it is imported")


def _serve(root, libc):
    """Forks until the root is gone. In a fork: the socket on which its plan comes."""
    while True:
        word, descriptors = _receive(root, 64)
        if not word:
            return None
        if word == b"fork" and len(descriptors) >= NAMESPACES + 2:
            try:
                # For children: pid namespaces are entered by being born in them.
                _setns(libc, descriptors[1])
                born = os.fork()
            except OSError as error:
                _say(descriptors[0], error)
                born = None
            if born == 0:
                root.detach()
                return _become(libc, descriptors)
            if born is not None:
                os.waitpid(born, 0)
        for descriptor in descriptors:
            os.close(descriptor)


def _become(libc, descriptors):
    """In a child that is born in the sandbox's pid namespace: enters the rest, and goes on as the child of its init."""
    channel, namespaces, user, cgroups = (descriptors[0], descriptors[2:NAMESPACES + 1], descriptors[NAMESPACES + 1],
                                          descriptors[NAMESPACES + 2:])
    try:
        for entry in cgroups:
            os.write(entry, b"0")
        for namespace in namespaces:
            _setns(libc, namespace)
        _setns(libc, user)
        _drop_capabilities(libc)
        os.chdir("/")
        between = os.getpid()
        if os.fork() != 0:
            os._exit(0)
        while os.getppid() == between or os.path.exists("/proc/%d" % between):
            time.sleep(0.0002)
        os.setsid()
        null = os.open("/dev/null", os.O_RDWR)
        for standard in range(3):
            os.dup2(null, standard)
        os.dup2(channel, ROOT)
        os.closerange(ROOT + 1, 1 << 20)
        connection = socket.socket(fileno=ROOT)
        connection.send(b"%d" % os.getpid())
        return connection
    except BaseException as error:
        _say(channel, error)
        os._exit(1)


def _say(descriptor, error):
    try:
        with socket.socket(fileno=os.dup(descriptor)) as connection:
            connection.send(("%s: %s" % (type(error).__name__, error)).encode("utf-8", "replace")[:1500])
    except OSError:
        pass


def _setns(libc, descriptor):
    if libc.setns(descriptor, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, "enter a namespace: " + os.strerror(number))


def _drop_capabilities(libc):
    for capability in range(64):
        libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    none = (ctypes.c_uint32 * 6)()
    if libc.capset(header, none) != 0:
        raise OSError(ctypes.get_errno(), "give capabilities up")


def _receive(connection, size):
    word, ancillary, flags, _ = connection.recvmsg(size, socket.CMSG_SPACE(MOST_DESCRIPTORS * 4), socket.MSG_CMSG_CLOEXEC)
    descriptors = array.array("i")
    for level, kind, content in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(content[:len(content) - len(content) % descriptors.itemsize])
    return word, list(descriptors)


def _run(connection):
    """Takes the plan of a sandbox, and serves as its handler."""
    text, descriptors = _receive(connection, MOST_PLAN_BYTES)
    if len(descriptors) != 1:
        return 1
    parts = text.split(b"\0")
    folder, count = parts[0], int(parts[1])
    arguments, variables = parts[2:2 + count], parts[2 + count:-1]
    os.dup2(descriptors[0], 1)
    os.dup2(descriptors[0], 2)
    os.close(descriptors[0])
    os.environ.clear()
    for variable in variables:
        name, _, value = variable.partition(b"=")
        os.environb[name] = value
    os.chdir(folder)
    _renew()
    _make_way(os.environ.get("LAMBDA_TASK_ROOT", os.getcwd()))
    # As python3 -m lambent_runtime HANDLER has it.
    sys.argv = [os.path.join(os.path.dirname(__file__), "__main__.py"), *(os.fsdecode(each) for each in arguments[3:])]
    connection.send(b"go")
    connection.close()
    from .loop import serve

    handler = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("_HANDLER", "")
    return serve(os.environ["AWS_LAMBDA_RUNTIME_API"], handler)


def _make_way(folder):
    """The function's own modules go before all others, also before those that were loaded here."""
    loaded = {name.partition(".")[0] for name in sys.modules} - FROM_THE_START
    for name in {entry.partition(".")[0] for entry in os.listdir(folder)} & loaded:
        found = importlib.machinery.PathFinder.find_spec(name, [folder])
        if name == __package__ or found is None or found.loader is None:
            continue
        for other in [each for each in sys.modules if each == name or each.startswith(name + ".")]:
            del sys.modules[other]


def _renew():
    """What two forks must not have in common, and what was looked up elsewhere."""
    time.tzset()
    sys.path_importer_cache.clear()
    if "random" in sys.modules:
        sys.modules["random"].seed()
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()
    asyncio = sys.modules.get("asyncio")
    if asyncio is not None:
        asyncio._set_running_loop(None)
        asyncio.set_event_loop_policy(None)
    gc.enable()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
