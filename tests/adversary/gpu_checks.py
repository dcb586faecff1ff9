"""D. Programs that want more of the GPU than they may have, in every way that the driver has."""
import functools
import json
import threading
import time

import harness
from ground import MIB, process_name, status_of
from harness import HttpError
from verdicts import checks, require

LIMIT_MIB = 64
LIMIT = {"lambent:gpu-memory": f"{LIMIT_MIB}MiB"}

# Takes pieces of device memory by one call until the driver refuses, and says how many bytes it has then and what the driver said.
TAKE = """
import ctypes, os
from ctypes import byref, c_int, c_size_t, c_uint, c_uint64, c_ulonglong, c_void_p

PIECE = 4 << 20
MOST = 1 << 30  # of the device: a limit that does not hold is seen before

def open_driver(route):
    if route == "soname": return ctypes.CDLL("libcuda.so.1")
    if route == "plain name": return ctypes.CDLL("libcuda.so")
    if route == "path":
        ctypes.CDLL("libcuda.so.1").cuInit(c_uint(0))  # so that the driver itself is loaded
        return ctypes.CDLL(next(line.split()[-1] for line in open("/proc/self/maps") if line.rstrip().endswith("/libcuda.so.1") and "shim" not in line))
    if route == "own namespace":
        libc = ctypes.CDLL(None)
        libc.dlmopen.restype = c_void_p
        libc.dlmopen.argtypes = [ctypes.c_long, ctypes.c_char_p, c_int]
        libc.dlerror.restype = ctypes.c_char_p
        handle = libc.dlmopen(-1, b"libcuda.so.1", 2)
        if not handle: raise OSError(libc.dlerror().decode())
        return ctypes.CDLL("libcuda.so.1", handle=handle)
    raise ValueError(route)

def by_address(library, name, route):
    if route == "cuGetProcAddress":
        entry, status = c_void_p(), c_int()
        found = library.cuGetProcAddress_v2(name.replace("_v2", "").encode(), byref(entry), c_int(12000), c_uint64(0), byref(status))
        if found != 0 or not entry.value: raise OSError("cuGetProcAddress of %s: %d" % (name, found))
        return ctypes.CFUNCTYPE(c_int)(entry.value)
    if route == "dlsym":
        libc = ctypes.CDLL(None)
        libc.dlsym.restype = c_void_p
        libc.dlsym.argtypes = [c_void_p, ctypes.c_char_p]
        entry = libc.dlsym(c_void_p(library._handle), name.encode())
        return ctypes.CFUNCTYPE(c_int)(entry)
    return getattr(library, name)

class Location(ctypes.Structure):
    _fields_ = [("type", c_int), ("id", c_int)]
class AllocationProp(ctypes.Structure):
    _fields_ = [("type", c_int), ("handles", c_int), ("location", Location), ("win32", c_void_p), ("flags", ctypes.c_ubyte * 8), ("padding", c_uint64 * 2)]
class PoolProps(ctypes.Structure):
    _fields_ = [("type", c_int), ("handles", c_int), ("location", Location), ("security", c_void_p), ("most", c_size_t), ("usage", ctypes.c_ushort),
                ("reserved", ctypes.c_ubyte * 54)]
class Array3D(ctypes.Structure):
    _fields_ = [("width", c_size_t), ("height", c_size_t), ("depth", c_size_t), ("format", c_int), ("channels", c_uint), ("flags", c_uint)]
class Array2D(ctypes.Structure):
    _fields_ = [("width", c_size_t), ("height", c_size_t), ("format", c_int), ("channels", c_uint)]

def ways(library, route):
    find = lambda name: by_address(library, name, route)
    address, pitch, handle = c_uint64(), c_size_t(), c_void_p()
    def physical():
        prop, made = AllocationProp(type=1, location=Location(1, 0)), c_uint64()
        return find("cuMemCreate")(byref(made), c_size_t(PIECE), byref(prop), c_ulonglong(0))
    pools = []
    def own_pool():
        if not pools:
            pool, props = c_void_p(), PoolProps(type=1, location=Location(1, 0))
            code = library.cuMemPoolCreate(byref(pool), byref(props))
            if code: return code
            pools.append(pool)
        return find("cuMemAllocFromPoolAsync")(byref(address), c_size_t(PIECE), pools[0], c_void_p())
    return {
        "cuMemAlloc_v2": lambda: find("cuMemAlloc_v2")(byref(address), c_size_t(PIECE)),
        "cuMemAllocPitch_v2": lambda: find("cuMemAllocPitch_v2")(byref(address), byref(pitch), c_size_t(4096), c_size_t(PIECE // 4096), c_uint(4)),
        "cuMemAllocManaged": lambda: find("cuMemAllocManaged")(byref(address), c_size_t(PIECE), c_uint(1)),
        "cuMemAllocAsync": lambda: find("cuMemAllocAsync")(byref(address), c_size_t(PIECE), c_void_p()),
        "cuMemAllocFromPoolAsync": own_pool,
        "cuMemCreate": physical,
        "cuArrayCreate_v2": lambda: find("cuArrayCreate_v2")(byref(handle), byref(Array2D(1024, PIECE // 4096, 0x20, 1))),
        "cuArray3DCreate_v2": lambda: find("cuArray3DCreate_v2")(byref(handle), byref(Array3D(1024, 64, PIECE // 4096 // 64, 0x20, 1, 0))),
        "cuMipmappedArrayCreate": lambda: find("cuMipmappedArrayCreate")(byref(handle), byref(Array3D(1024, PIECE // 4096, 0, 0x20, 1, 0)), c_uint(1)),
    }

def take(route, way):
    library = open_driver(route if route in ("soname", "plain name", "path", "own namespace") else "soname")
    device, context, total = c_int(), c_void_p(), 0
    for code in (library.cuInit(c_uint(0)), library.cuDeviceGet(byref(device), c_int(0)), library.cuDevicePrimaryCtxRetain(byref(context), device),
                 library.cuCtxSetCurrent(context)):
        if code: return {"taken": 0, "code": code, "step": "begin"}
    call = ways(library, route)[way]
    while total < MOST:
        code = call()
        if code: return {"taken": total, "code": code}
        total += PIECE
    return {"taken": total, "code": 0}

def handler(event, context):
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        import json
        try:
            answer = take(event["route"], event["way"])
        except Exception as error:
            answer = {"taken": 0, "code": -1, "error": repr(error)}
        os.write(writing, json.dumps(answer).encode())
        os._exit(0)
    os.close(writing)
    said = b""
    while piece := os.read(reading, 65536): said += piece
    os.close(reading)
    os.waitpid(child, 0)
    import json
    return json.loads(said) if said else {"taken": 0, "code": -1, "error": "the process died"}
"""
WAYS = ("cuMemAlloc_v2", "cuMemAllocPitch_v2", "cuMemAllocManaged", "cuMemAllocAsync", "cuMemAllocFromPoolAsync", "cuMemCreate", "cuArrayCreate_v2",
        "cuArray3DCreate_v2", "cuMipmappedArrayCreate")
NO_MEMORY, NOT_SUPPORTED = 2, 801


def held_to(ground, routes, ways):
    name = ground.name("taker")
    ground.worker.create_python(name, TAKE, memory=1024, tags=LIMIT)
    most, tried = {}, 0
    try:
        for route in routes:
            for way in ways:
                answer = ground.worker.invoke(name, {"route": route, "way": way}).json
                require("taken" in answer, f"{way} by {route}: {str(answer)[:300]}")
                require(answer["code"] != -1, f"{way} by {route}: {answer.get('error')}")
                require(answer["taken"] <= LIMIT_MIB * MIB, f"{way} by {route}: took {answer['taken'] // MIB} MiB of {LIMIT_MIB}")
                require(answer["code"] in (NO_MEMORY, NOT_SUPPORTED), f"{way} by {route}: refused with {answer['code']}")
                most[way] = max(most.get(way, 0), answer["taken"] // MIB)
                tried += 1
    finally:
        ground.worker.delete(name)
    return {"tried": tried, "most_mib": most}


@checks("D", "the memory limit holds by every call that allocates")
def every_call(ground):
    return held_to(ground, ("soname",), WAYS)


@checks("D", "the memory limit holds however the call was found")
def every_route(ground):
    return held_to(ground, ("plain name", "path", "dlsym", "cuGetProcAddress"), ("cuMemAlloc_v2", "cuMemAllocAsync", "cuMemCreate"))


@checks("D", "the memory limit holds in a namespace of the loader's own", known="docs/reference/shim.md#which-programs-it-reaches")
def own_namespace(ground):
    return held_to(ground, ("own namespace",), ("cuMemAlloc_v2",))


@checks("D", "the limit is one for all processes of a function together")
def together(ground):
    answer = ground.ask(TAKE.replace("def handler(", "def alone(") + """
import time
def handler(event, context):
    readers = []
    for n in range(4):
        reading, writing = os.pipe()
        if os.fork() == 0:
            os.write(writing, str(take("soname", "cuMemAlloc_v2")["taken"]).encode() + b"\\n")
            time.sleep(1.5)  # with all of it held
            os._exit(0)
        os.close(writing)
        readers.append(reading)
    return [int(os.read(each, 100)) for each in readers]
""", tags=LIMIT, memory=1024)
    require(sum(answer) <= LIMIT_MIB * MIB, f"four processes took {[each // MIB for each in answer]} MiB of {LIMIT_MIB}")
    return {"mib_of_each": [each // MIB for each in answer]}


@checks("D", "memory of another process is had by its handle, and counted once")
def shared_between(ground):
    """cuIpcOpenMemHandle: what is exported is counted by its maker; an importer takes nothing."""
    answer = ground.ask(TAKE.replace("def handler(", "def alone(") + """
def begin():
    library, device, context = open_driver("soname"), c_int(), c_void_p()
    for code in (library.cuInit(c_uint(0)), library.cuDeviceGet(byref(device), c_int(0)), library.cuDevicePrimaryCtxRetain(byref(context), device),
                 library.cuCtxSetCurrent(context)):
        if code: raise OSError(code)
    return library
def handler(event, context):
    to_parent, to_child = os.pipe(), os.pipe()
    if os.fork() == 0:
        library, address, handle = begin(), c_uint64(), ctypes.create_string_buffer(64)
        code = library.cuMemAlloc_v2(byref(address), c_size_t(40 << 20)) or library.cuIpcGetMemHandle(handle, address)
        os.write(to_parent[1], bytes([code != 0]) + handle.raw)
        os.read(to_child[0], 1)
        os._exit(0)
    said = os.read(to_parent[0], 65)
    library, opened, free, total = begin(), c_uint64(), c_size_t(), c_size_t()
    class Handle(ctypes.Structure): _fields_ = [("bytes", ctypes.c_char * 64)]
    code = -1 if said[0] else library.cuIpcOpenMemHandle_v2(byref(opened), Handle.from_buffer_copy(said[1:]), c_uint(1))
    library.cuMemGetInfo_v2(byref(free), byref(total))
    more = library.cuMemAlloc_v2(byref(c_uint64()), c_size_t(40 << 20))
    os.write(to_child[1], b"x")
    os.wait()
    return {"opened": code, "free": free.value >> 20, "total": total.value >> 20, "more": more}
""", tags={**LIMIT, "lambent:memory-mode": "off"}, memory=1024)
    require(answer["total"] == LIMIT_MIB and answer["free"] <= LIMIT_MIB - 40, f"free and total: {answer}")
    require(answer["more"] == NO_MEMORY, f"40 MiB more beside 40 MiB of {LIMIT_MIB}: {answer}")
    return answer


@functools.cache
def kernels():
    import test_kernel_functions
    return test_kernel_functions.bundle_files()


LAUNCH = """
import os
import lambent_cuda as cuda
device = cuda.Device()
kernels = device.load(os.path.join(os.environ["LAMBDA_TASK_ROOT"], "bundles/k"))
flag, y = device.buffer(4), device.buffer(16)
def handler(event, context):
    flag.fill(0)
    if event.get("kernel"):
        kernels.kernel(event["kernel"])(grid=1, block=1, args=[flag, y])
        device.synchronize()
    return "done"
"""


@checks("D", "a kernel without an end is ended by its time-out, and neighbours on the GPU go on")
def endless(ground):
    beside, name = ground.name("beside"), ground.name("endless")
    for each in (beside, name):
        ground.worker.create(each, harness.make_zip({"app.py": LAUNCH, **kernels()}), tags=LIMIT, timeout=3 if each == name else 20)
    require(ground.worker.invoke(beside).json == "done", "the neighbour does not work at all")
    replies = []
    caller = threading.Thread(target=lambda: replies.append(ground.worker.invoke(name, {"kernel": "endless"})))
    started = time.monotonic()
    caller.start()
    served = 0
    while caller.is_alive():
        require(ground.worker.invoke(beside).json == "done", "the neighbour on the GPU failed")
        ground.neighbour_is_well()
        served += 1
    took = time.monotonic() - started
    require(replies and replies[0].json.get("errorType") == "Sandbox.Timeout", f"ended as {replies and replies[0].body[:200]}")
    require(took < 10, f"ended after {took:.1f} s, its time-out is 3 s")
    require(served >= 2, f"the neighbour was served {served} times in {took:.1f} s")
    require(ground.worker.invoke(name, {}).json == "done", "the function itself does not come back")
    for each in (beside, name):
        ground.worker.delete(each)
    return {"ended_after_s": round(took, 2), "neighbour_calls_meanwhile": served}


@checks("D", "a kernel that reads wild memory ends its own process only")
def wild(ground):
    beside, name = ground.name("beside"), ground.name("wild")
    for each in (beside, name):
        ground.worker.create(each, harness.make_zip({"app.py": LAUNCH, **kernels()}), tags=LIMIT, timeout=10)
    ground.worker.invoke(beside)
    reply = ground.worker.invoke(name, {"kernel": "wild"})
    require("x-amz-function-error" in reply.headers, f"answered {reply.body[:200]}")
    require(ground.worker.invoke(beside).json == "done", "the neighbour on the GPU failed")
    require(ground.worker.invoke(name, {}).json == "done", "the function itself does not come back")
    for each in (beside, name):
        ground.worker.delete(each)


RING = """
import ctypes, os, random
import lambent_cuda as cuda
device = cuda.Device()
y = device.buffer(16)
def handler(event, context):
    if "seed" not in event: return y.bytes() is not None
    line = next(line for line in open("/proc/self/maps") if "lambent-forward" in line)
    begin, end = (int(each, 16) for each in line.split()[0].split("-"))
    dice = random.Random(event["seed"])
    view = (ctypes.c_ubyte * (end - begin)).from_address(begin)
    if event["seed"] == 0: ctypes.memset(begin, 0xa5, end - begin)
    if event["seed"] == 1: ctypes.memset(begin, 0xff, end - begin)
    if event["seed"] == 2: ctypes.memset(begin, 0, end - begin)
    for _ in range(20000): view[dice.randrange(end - begin)] = dice.randrange(256)
    device.synchronize()
    return "went on"
"""


@checks("D", "nonsense in the ring of a shared runtime ends its own sandbox only")
def ring(ground):
    shared = {"lambent:gpu-memory": "32MiB", "lambent:gpu-runtime": "shared"}
    beside, name = ground.name("beside"), ground.name("ring")
    for each in (beside, name):
        ground.worker.create_python(each, RING, tags={**shared, "lambent:gpu-domain": "ring"}, timeout=3, memory=256)
    require(ground.worker.invoke(beside).json is True, "the neighbour does not work at all")
    seeds = range(12 if ground.scale == 1 else 4)
    for seed in seeds:
        ground.worker.invoke(name, {"seed": seed})  # whatever it is: an answer
        require(ground.worker.invoke(beside).json is True, f"seed {seed}: the neighbour in the same executor failed")
    require(ground.worker.invoke(name, {}).json is True, "the function itself does not come back")
    for each in (beside, name):
        ground.worker.delete(each)
    return {"seeds": len(seeds)}


SOCKETS = """
import os, random, socket
import lambent_cuda as cuda
device = cuda.Device()
y = device.buffer(16)
def handler(event, context):
    dice, sent = random.Random(event["seed"]), 0
    for path in ("/opt/lambent/memory", "/opt/lambent/link"):
        for crowd in range(40):
            try:
                with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
                    s.settimeout(0.2); s.connect(path)
                    for _ in range(20):
                        message = bytes([dice.randrange(12)]) + os.urandom(dice.randrange(64)) if dice.random() < 0.9 else os.urandom(60000)
                        with open("/dev/null", "rb") as null:
                            socket.send_fds(s, [message], [null.fileno()] * dice.randrange(3)); sent += 1
            except OSError:
                pass
    return sent
"""


@checks("D", "nonsense over the sockets for memory and links harms no neighbour, nor lambent-device")
def sockets(ground):
    beside, name = ground.name("beside"), ground.name("babbler")
    ground.worker.create(beside, harness.make_zip({"app.py": LAUNCH, **kernels()}), tags=LIMIT)
    ground.worker.create_python(name, SOCKETS, tags=LIMIT, timeout=20)
    before = [each for each in harness.descendants(ground.worker.process.pid) if process_name(each) == "lambent-device"]
    sent = 0
    for seed in range(1 if ground.short else 5):
        reply = ground.worker.invoke(name, {"seed": seed})
        sent += reply.json if isinstance(reply.json, int) else 0
        require(ground.worker.invoke(beside).json == "done", f"seed {seed}: the neighbour on the GPU failed")
    require(sent > 0, "nothing was sent")
    after = [each for each in harness.descendants(ground.worker.process.pid) if process_name(each) == "lambent-device"]
    require(before == after and before, f"lambent-device was {before} and is {after}")
    for each in (beside, name):
        ground.worker.delete(each)
    return {"messages": sent}


@checks("D", "damaged bundles are refused or fail for themselves, and the executor serves others")
def bundles(ground):
    import test_kernel_functions as tests
    graph = {"graph.json": json.dumps(tests.scale_graph())}
    kernel = {"runtime": "provided.al2023", "handler": "graph.json", "tags": {"lambent:kind": "kernel"}}
    fine = ground.name("kernel")
    ground.worker.create(fine, harness.make_zip({**graph, **kernels()}), **kernel)
    event = {"inputs": [{"name": "x", "data": [1, 2, 3, 4]}]}
    before = ground.worker.invoke(fine, event).json
    refused = 0
    for path, content in kernels().items():
        content = content[0] if isinstance(content, tuple) else content
        for cut in (b"", content[:len(content) // 2], bytes(len(content)), content[:200] + b"\xff" * 64 + content[264:]):
            status, reply = status_of(ground.worker.create, name := ground.name("broken"), harness.make_zip({**graph, **kernels(), path: cut}), **kernel)
            require(status in (201, 400), f"{path}: {status}")
            if status == 201:
                ground.worker.invoke(name, event)  # may be the other processor's image: whatever it is, an answer
                ground.worker.delete(name)
            refused += status == 400
            require(ground.worker.invoke(fine, event).json == before, f"{path}: the neighbour's answer changed")
    require(refused > 0, "none was refused")
    ground.worker.delete(fine)
    return {"refused": refused}


NODE_FILE = """
import fcntl, os, struct, time
import lambent_cuda as cuda
device = cuda.Device()
PATH = "/opt/lambent/gpu-node"
def handler(event, context):
    try:
        file = os.open(PATH, os.O_RDWR)
        if event["how"] == "lock" and os.fork() == 0:
            fcntl.fcntl(file, 38, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 1 << 40, 1, 0))  # F_OFD_SETLKW, which children keep
            time.sleep(event["seconds"])
            os._exit(0)
        if event["how"] == "cut": os.ftruncate(file, 0)
        if event["how"] == "fill": os.pwrite(file, os.urandom(1 << 20), 4096)
        if event["how"] == "grow": os.pwrite(file, bytes(1 << 20), 400 << 20)
    except OSError as error:
        return error.strerror
    time.sleep(0.3)
    return "done"
"""
BESIDE = """
import lambent_cuda as cuda
device = cuda.Device()
y = device.buffer(1 << 20)
def handler(event, context):
    y.fill(event["n"] & 255)
    return y.bytes() == bytes([event["n"] & 255]) * (1 << 20)
"""


@checks("D", "the file of the emulated node: a tenant that locks, cuts, fills or grows it harms no other", short=False)
def node_file(ground):
    harmed, said = [], {}
    for how in ("lock", "cut", "fill", "grow"):
        worker = ground.new_worker(ground.name("node"), "--concurrency", "4")
        try:
            worker.create_python("beside", BESIDE, tags=LIMIT, timeout=3)
            worker.create_python("hostile", NODE_FILE, tags=LIMIT, timeout=6)
            require(worker.invoke("beside", {"n": 1}).json is True, "the neighbour does not work at all")
            said[how] = str(worker.invoke("hostile", {"how": how, "seconds": 5}).json)[:60]
            started = time.monotonic()
            answers = [worker.invoke("beside", {"n": n}, timeout=30).json for n in (2, 3)]
            if answers != [True, True] or time.monotonic() - started > 4:
                harmed.append(f"{how}: the neighbour answered {str(answers)[:160]} after {time.monotonic() - started:.1f} s")
            worker.create_python("newcomer", BESIDE, tags=LIMIT, timeout=3)
            if worker.invoke("newcomer", {"n": 4}, timeout=30).json is not True:
                harmed.append(f"{how}: a new function does not start")
        except (OSError, HttpError) as error:
            harmed.append(f"{how}: {error}")
        finally:
            worker.close()
    require(not harmed, "; ".join(harmed))
    return {"said": said}
