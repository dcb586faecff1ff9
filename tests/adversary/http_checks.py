"""C. Clients that speak nonsense, smuggle, crowd, and never end."""
import collections
import contextlib
import random
import resource
import socket
import statistics
import threading
import time

from harness import make_zip
from ground import MIB, memory_of, raw, status_of, statuses
from verdicts import checks, require

INVOKE = "POST /2015-03-31/functions/good/invocations HTTP/1.1\r\nHost: localhost\r\n"
NEXT = "GET /v1/version HTTP/1.1\r\nHost: localhost\r\n\r\n"

# Requests of which two servers could see different ends. After each comes NEXT as a part of what may be a body: one answer, an error, and the
# end of the connection.
AMBIGUOUS = {
    "two lengths": INVOKE + "Content-Length: 2\r\nContent-Length: 60\r\n\r\n{}",
    "two lengths in one": INVOKE + "Content-Length: 2, 60\r\n\r\n{}",
    "length and chunks": INVOKE + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks and length": INVOKE + "Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n0\r\n\r\n",
    "chunked not last": INVOKE + "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "unknown coding": INVOKE + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "two codings": INVOKE + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    "coding with a tab": INVOKE + "Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n",
    "space before colon": INVOKE + "Content-Length : 2\r\n\r\n{}",
    "space before coding's colon": INVOKE + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    "folded header": INVOKE + "X: a\r\n Content-Length: 2\r\n\r\n{}",
    "folded coding": INVOKE + "Transfer-Encoding:\r\n chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    "negative length": INVOKE + "Content-Length: -2\r\n\r\n{}",
    "length with a sign": INVOKE + "Content-Length: +2\r\n\r\n{}",
    "length in hexadecimal": INVOKE + "Content-Length: 0x2\r\n\r\n{}",
    "length with a letter": INVOKE + "Content-Length: 2a\r\n\r\n{}",
    "length beyond 64 bits": INVOKE + "Content-Length: 18446744073709551618\r\n\r\n{}",
    "empty length": INVOKE + "Content-Length: \r\n\r\n{}",
    "chunk size with a sign": INVOKE + "Transfer-Encoding: chunked\r\n\r\n+2\r\n{}\r\n0\r\n\r\n",
    "chunk size with 0x": INVOKE + "Transfer-Encoding: chunked\r\n\r\n0x2\r\n{}\r\n0\r\n\r\n",
    "chunk size beyond 64 bits": INVOKE + "Transfer-Encoding: chunked\r\n\r\n10000000000000002\r\n{}\r\n0\r\n\r\n",
    "chunk longer than its size": INVOKE + "Transfer-Encoding: chunked\r\n\r\n1\r\n{}\r\n0\r\n\r\n",
    "nul in a header": INVOKE + "X: a\0b\r\nContent-Length: 2\r\n\r\n{}",
    "no colon": INVOKE + "Content-Length\r\n\r\n{}",
    "no name": INVOKE + ": 2\r\n\r\n{}",
    "no host": "POST /2015-03-31/functions/good/invocations HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}",
    "two hosts": INVOKE + "Host: other\r\nContent-Length: 2\r\n\r\n{}",
    "foreign host": "GET /v1/functions HTTP/1.1\r\nHost: rebind.example\r\n\r\n",
    "foreign origin": INVOKE + "Origin: https://evil.example\r\nContent-Length: 2\r\n\r\n{}",
    "version 3": "GET /v1/version HTTP/3.0\r\nHost: localhost\r\n\r\n",
    "no version": "GET /v1/version\r\nHost: localhost\r\n\r\n",
    "h2 preface": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "lower-case method": "get /v1/version HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "space in the target": "GET /v1/ version HTTP/1.1\r\nHost: localhost\r\n\r\n",
}


@checks("C", "what two servers could read differently is refused, and its connection closed")
def smuggling(ground):
    ground.neighbour_is_well()
    for name, text in AMBIGUOUS.items():
        answers = statuses(ground.raw((text + NEXT).encode("latin-1"), 1))
        refused = bool(answers) and 400 <= answers[0] < 600
        if name in ("foreign host", "foreign origin"):  # well-formed, but from elsewhere
            require(answers[:1] == [403], f"{name}: answered {answers}")
            continue
        require(refused and len(answers) == 1, f"{name}: answered {answers}")
    return {"variants": len(AMBIGUOUS)}


@checks("C", "bodies and names made to hurt a parser get an error of the client's")
def parsers(ground):
    bodies = ("[" * 200_000, '{"FunctionName": ' * 50_000, '{"FunctionName": "' + "x" * 100_000 + '"}', '{"a": 1e99999}', "\xff\xfe", "null", "[]",
              '{"FunctionName": 5}', '{"FunctionName": "a", "Code": {"ZipFile": "!!!"}}', '{"FunctionName": "../a"}', "")
    for body in bodies:
        status, _ = status_of(ground.worker.request, "POST", "/2015-03-31/functions", body.encode("latin-1"))
        require(status == 400, f"{body[:40]!r}: {status}")
    paths = ("/2015-03-31/functions/%2e%2e%2f%2e%2e", "/2015-03-31/functions/" + "x" * 3000, "/v1/invocations/nonsense", "/" + "%" * 100, "//",
             "/v1/functions/good/log?offset=" + "9" * 40, "/2015-03-31/functions/%00")
    for path in paths:
        status, _ = status_of(ground.worker.request, "GET", path)
        require(400 <= status < 500, f"{path[:40]}: {status}")
    require(statuses(ground.raw(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * (128 << 10) + b"\r\n\r\n"))[:1] == [431], "a head of 128 KiB")
    return {"bodies": len(bodies), "paths": len(paths)}


@checks("C", "what comes after a 413 is bounded in bytes, of one and of many")
def draining(ground):
    """What was refused is not read on for long: the connection ends."""
    def flood(sent, place):
        with socket.create_connection(ground.worker.address, 10) as connection:
            connection.settimeout(5)
            block = bytes(1 << 20)
            with contextlib.suppress(OSError):
                connection.sendall(INVOKE.encode() + b"Content-Length: 1000000000000\r\n\r\n")
                while sent[place] < 20_000 * MIB:
                    sent[place] += connection.send(block)
    worst = 0
    for clients in (1, 6):
        sent = [0] * clients
        threads = [threading.Thread(target=flood, args=(sent, place)) for place in range(clients)]
        started = time.monotonic()
        for each in threads:
            each.start()
        slowest = 0
        while any(each.is_alive() for each in threads):
            slowest = max(slowest, ground.neighbour_is_well())
            time.sleep(0.02)
        require(sum(sent) < 1024 * MIB, f"{clients} clients sent {sum(sent) // MIB} MiB before they were stopped")
        require(time.monotonic() - started < 9, f"{clients} clients were read for {time.monotonic() - started:.1f} s")
        worst = max(worst, sum(sent))
    return {"most_sent_bytes": worst}


@checks("C", "the time-outs of heads and bodies end what trickles, and crowds of them stop no client")
def crowd(ground):
    """Slow loris: thousands of connections that sit idle or send a byte now and then."""
    crowd, before = [], memory_of(ground.worker.process.pid)
    how_many = int(2000 * ground.scale)
    try:
        for n in range(how_many):
            connection = socket.create_connection(ground.worker.address, 10)
            connection.setblocking(False)
            if n % 2:
                connection.send(b"POST /2015-03-31/functions/good/invocations HTTP/1.1\r\nHost: localhost\r\nContent-Le")
            crowd.append(connection)
        slowest, deadline = 0, time.monotonic() + 12 * max(ground.scale, 0.2)
        while time.monotonic() < deadline:
            slowest = max(slowest, ground.neighbour_is_well())
            for connection in crowd[1::2]:
                with contextlib.suppress(OSError):
                    connection.send(b"x")
        grown = memory_of(ground.worker.process.pid) - before
        require(grown < 256 * MIB, f"the worker grew by {grown // MIB} MiB")
    finally:
        for connection in crowd:
            connection.close()
    return {"connections": how_many, "slowest_neighbour_s": round(slowest, 2), "grown_bytes": grown}


# Takes bodies of any pace and has an answer that no client reads at once.
SERVER = """
import asyncio, os
async def serve(reader, writer):
    try:
        head = await reader.readuntil(b"\\r\\n\\r\\n")
        if head.startswith(b"POST"):
            await reader.readexactly(int(head.lower().split(b"content-length:")[1].split(b"\\r\\n")[0]))
        body = bytes(4 << 20) if b" /large " in head else b"served"
        writer.write(b"HTTP/1.1 200 OK\\r\\nConnection: close\\r\\nContent-Length: %d\\r\\n\\r\\n" % len(body))
        for at in range(0, len(body), 16384):
            writer.write(body[at:at + 16384])
            await writer.drain()
    except (OSError, asyncio.IncompleteReadError):
        pass
    writer.close()
async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", int(os.environ["PORT"]), backlog=512)
    await server.serve_forever()
asyncio.run(main())
"""
SENDS = b"POST /f/crowded/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n" + b"x" * 1000
READS = b"GET /f/crowded/large HTTP/1.1\r\nHost: localhost\r\n\r\n"


def slow_client(address, number):
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(10)
    connection.connect(address)
    connection.sendall(SENDS if number % 2 else READS)
    connection.setblocking(False)
    return connection


def go_on_slowly(crowd, statuses_seen):
    """A byte more of each body, a few of each answer. Counts the statuses that the readers see."""
    for connection in crowd[1::2]:
        with contextlib.suppress(OSError):
            connection.send(b"x")
    for connection in crowd[::2]:
        with contextlib.suppress(OSError):
            statuses_seen.update(statuses(connection.recv(64)))


@checks("C", "ten thousand clients that send and read slowly hold up their own HTTP function only")
def slow_clients(ground):
    worker, crowd, how_many = ground.worker, [], int(10_000 * ground.scale)
    require(resource.getrlimit(resource.RLIMIT_NOFILE)[0] > how_many + 500, f"{how_many} clients need more open files: ulimit -n")
    code = make_zip({"server.py": SERVER})
    for name in ("crowded", "beside"):
        worker.create(name, code, handler="python3 server.py", memory=512, tags={"lambent:kind": "http", "lambent:http-concurrency": "400",
                                                                                 "lambent:max-concurrency": "2"})
        require(worker.request("GET", f"/f/{name}/").body == b"served", f"{name} does not serve")
    before, took, seen = memory_of(worker.process.pid), [], collections.Counter()

    def others_are_well():
        started = time.monotonic()
        require(worker.request("GET", "/f/beside/").body == b"served", "the HTTP function beside does not serve")
        took.append(max(time.monotonic() - started, ground.neighbour_is_well()))
    try:
        for n in range(how_many):
            crowd.append(slow_client(worker.address, n))
            if n % 100 == 0:
                others_are_well()
        deadline = time.monotonic() + 20 * max(ground.scale, 0.2)
        while time.monotonic() < deadline:
            go_on_slowly(crowd, seen)
            others_are_well()
        grown = memory_of(worker.process.pid) - before
        require(seen[200] > 0, f"no slow reader was served: {dict(seen)}")
        # While the crowd comes its sandboxes take the processors; each call of the neighbour has its own bound.
        require(statistics.median(took) < 1, f"the median of others waited {statistics.median(took):.1f} s")
        require(grown < 512 * MIB, f"the worker grew by {grown // MIB} MiB")
    finally:
        for connection in crowd:
            connection.close()
    deadline = time.monotonic() + 60
    while status_of(worker.request, "GET", "/f/crowded/")[0] != 200:
        require(time.monotonic() < deadline, "their function does not come back")
        time.sleep(0.1)
    for name in ("crowded", "beside"):
        worker.delete(name)
    return {"connections": how_many, "median_beside_s": round(statistics.median(took), 3), "slowest_beside_s": round(max(took), 2),
            "grown_bytes": grown, "readers_by_status": dict(seen)}


@checks("C", "thousands of requests in one connection, unread answers, and clients that leave")
def impatience(ground):
    many = int(10_000 * ground.scale)
    answered = statuses(ground.raw(NEXT.encode() * many, 30, half_close=True))
    require(answered == [200] * many, f"{len(answered)} answers to {many} requests in one connection")
    before = memory_of(ground.worker.process.pid)
    with socket.create_connection(ground.worker.address, 10) as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            for _ in range(20_000):
                deaf.send(NEXT.encode())
        ground.neighbour_is_well()
    for _ in range(int(300 * ground.scale)):
        with socket.create_connection(ground.worker.address, 10) as leaver:
            leaver.sendall(INVOKE.encode() + b"Content-Length: 2\r\n\r\n{}")
            leaver.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    ground.neighbour_is_well()
    grown = memory_of(ground.worker.process.pid) - before
    require(grown < 64 * MIB, f"the worker grew by {grown // MIB} MiB")
    return {"pipelined": many}


@checks("C", "random bytes end no worker")
def noise(ground):
    dice, made = random.Random(7), 0
    words = [each.encode("latin-1") for each in AMBIGUOUS.values()] + [NEXT.encode()]
    deadline = time.monotonic() + 12 * ground.scale
    while time.monotonic() < deadline:
        text = bytearray(dice.choice(words))
        for _ in range(dice.randrange(12)):
            place = dice.randrange(len(text))
            dice.choice((lambda: text.__setitem__(place, dice.randrange(256)), lambda: text.insert(place, dice.randrange(256)),
                         lambda: text.__delitem__(slice(place, place + dice.randrange(8)))))()
            if not text:
                break
        raw(ground.worker.address, bytes(text), 0.05)
        made += 1
    ground.neighbour_is_well()
    require(ground.worker.process.poll() is None, "the worker is gone")
    return {"connections": made, "seed": 7}
