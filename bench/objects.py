"""What it takes to put and to get an object, by the way it takes and by its size: through the object socket, over HTTP, and from
inside a handler; beside a bare copy of the bytes and a bare descriptor sent over a socket and answered, in the same run.

Standard library only, client included: the figures are those of a Python client. A get through the object socket maps the
object and touches none of its pages: it is the same for every size, as nothing is copied.
"""
import argparse
import array
import json
import os
import socket
import statistics
import sys
import time

from last_line import write_last_line
from worker_under_test import PREFIX, Worker, invocations_path, machine, make_zip

sys.path.insert(0, str(PREFIX / "share/lambent/python"))
from lambent.client import Client  # noqa: E402
from lambent.local_objects import sealed_memory  # noqa: E402

HANDLER = """
import time
from lambent import objects

def handler(event, context):
    data = bytes(event["bytes"])
    puts, gets = [], []
    for _ in range(event["rounds"]):
        begin = time.perf_counter()
        reference = objects.put(data, ttl=5)
        middle = time.perf_counter()
        objects.get(reference)
        gets.append(time.perf_counter() - middle)
        puts.append(middle - begin)
        objects._reach().remove(reference["object"])
    return {"puts": puts, "gets": gets}
"""


def median_us(seconds):
    return round(statistics.median(seconds) * 1e6, 1)


def timed(rounds, call):
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return times


def bare_copy(size, rounds):
    source, target = memoryview(os.urandom(size)), memoryview(bytearray(size))

    def copy():
        target[:] = source

    return median_us(timed(rounds, copy))


def bare_descriptor(rounds):
    """A descriptor to another process, and a word back."""
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    child = os.fork()
    if child == 0:
        here.close()
        while True:
            data, fds, _, _ = socket.recv_fds(there, 16, 1)
            if not data:
                os._exit(0)
            for fd in fds:
                os.close(fd)
            there.send(b"y")
    there.close()
    memory = sealed_memory(b"x" * 4096)
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [memory]))]

    def there_and_back():
        here.sendmsg([b"x"], rights)
        here.recv(16)

    times = timed(rounds, there_and_back)
    here.close()
    os.waitpid(child, 0)
    os.close(memory)
    return median_us(times)


def through(client, size, rounds):
    data = os.urandom(min(size, 1 << 20)) * max(1, size >> 20)
    puts, gets = [], []
    for _ in range(rounds):
        begin = time.perf_counter()
        reference = client.put(data, ttl=60)
        middle = time.perf_counter()
        tensor = client.get(reference)
        gets.append(time.perf_counter() - middle)
        puts.append(middle - begin)
        if len(tensor) != size:
            raise SystemExit(f"an object of {size} bytes came back with {len(tensor)}")
        del tensor
        client.remove(reference)
    return median_us(puts), median_us(gets)


def inside(worker, size, rounds):
    answer = json.loads(worker.request("POST", invocations_path("objects"),
                                       json.dumps({"bytes": size, "rounds": rounds})))
    return median_us(answer["puts"]), median_us(answer["gets"])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller sizes, fewer rounds")
    parser.add_argument("--rounds", type=int, help="of each measurement")
    parser.add_argument("--out")
    parser.add_argument("--traces", help="not used")
    options = parser.parse_args()
    sizes = [4 << 10, 1 << 20, 16 << 20] if options.quick else [4 << 10, 1 << 20, 16 << 20, 64 << 20]
    rounds = {size: options.rounds or max(5, min(300 if options.quick else 1000, (512 << 20) // size)) for size in sizes}
    result = {"bench": "objects", "quick": options.quick, "client": "python", "machine": machine(),
              "put_us": {}, "get_us": {}, "bare": {}}
    with Worker("--gpu", "none", "--object-memory", "2G") as worker:
        worker.create("objects", make_zip({"app.py": HANDLER.encode()}), "python3", "app.handler")
        local, http = Client(worker.endpoint), Client(worker.endpoint, local=False)
        if not local.local:
            raise SystemExit("the worker's object socket cannot be reached")
        ways = {"local_socket": lambda size: through(local, size, rounds[size]),
                "http": lambda size: through(http, size, rounds[size]),
                "in_sandbox": lambda size: inside(worker, size, max(3, rounds[size] // 4))}
        for way, measure in ways.items():
            measure(sizes[0])  # warm
            figures = {size: measure(size) for size in sizes}
            result["put_us"][way] = {str(size): put for size, (put, _) in figures.items()}
            result["get_us"][way] = {str(size): get for size, (_, get) in figures.items()}
        result["bare"]["copy_us"] = {str(size): bare_copy(size, rounds[size]) for size in sizes}
        result["bare"]["descriptor_us"] = bare_descriptor(2000)
    # From one kernel function to the next in an executor: bench kernel has it.
    result["put_us"]["executor"] = result["get_us"]["executor"] = None
    print(f"{'microseconds, medians':>24} " + " ".join(f"{size >> 10:>9} KiB" for size in sizes))
    for way in ways:
        for what in ("put_us", "get_us"):
            row = result[what][way]
            print(f"{way + ' ' + what[:3]:>24} " + " ".join(f"{row[str(size)]:>13}" for size in sizes))
    print(f"{'bare copy':>24} " + " ".join(f"{result['bare']['copy_us'][str(size)]:>13}" for size in sizes))
    print(f"{'bare descriptor':>24} {result['bare']['descriptor_us']:>13}")
    write_last_line(result, options.out)


if __name__ == "__main__":
    main()
