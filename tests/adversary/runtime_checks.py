"""B. Code that abuses the Runtime API of its own sandbox: it hurts itself only."""
import threading
import time

from ground import MIB, memory_of
from verdicts import checks, require

PRELUDE = """
import http.client, json, os, socket, time
def call(method, path, body=None, headers={}):
    connection = http.client.HTTPConnection("127.0.0.1", 9001, timeout=10)
    connection.request(method, "/2018-06-01/runtime/" + path, body, headers)
    response = connection.getresponse()
    return response.status, response.read().decode()
def send(text, seconds=5):
    connection = socket.create_connection(("127.0.0.1", 9001), seconds)
    try:
        connection.sendall(text)
    except OSError:
        pass
    try:
        return connection.recv(100).decode(errors="replace")[:12]
    except OSError:
        return "reset"
"""


@checks("B", "ids of others, second answers and a second call for work are refused")
def ids(ground):
    seen = ground.ask(PRELUDE + """
def handler(event, context):
    other = "11111111-2222-3333-4444-555555555555"
    forged = [call("POST", "invocation/%s/response" % each, b'"forged"')[0] for each in (other, "", "..", "x" * 5000, context.aws_request_id + "0")]
    return forged + [call("POST", "init/error", b"{}")[0], call("GET", "invocation/next")[0]]
""")
    require(all(400 <= each < 500 for each in seen), f"answered {seen}")


@checks("B", "malformed calls are refused")
def malformed(ground):
    seen = ground.ask(PRELUDE + """
def handler(event, context):
    to = ("POST /2018-06-01/runtime/invocation/%s/error HTTP/1.1\\r\\nHost: x\\r\\n" % context.aws_request_id).encode()
    return [send(b"\\x16\\x03\\x01" + bytes(200)), send(b"GET /2018-06-01/ping HTTP/1.1\\r\\nX: " + b"x" * (4 << 20) + b"\\r\\n\\r\\n"),
            send(to + b"Content-Length: -1\\r\\n\\r\\n"), send(to + b"Content-Length: 5\\r\\nContent-Length: 6\\r\\n\\r\\nhello"),
            send(to + b"Transfer-Encoding: chunked\\r\\n\\r\\nzz\\r\\n"), send(to + b"Transfer-Encoding: chunked, gzip\\r\\n\\r\\n"),
            send(to + b"Transfer-Encoding: chunked\\r\\nContent-Length: 3\\r\\n\\r\\n0\\r\\n\\r\\n")]
""")
    require(all(each.startswith("HTTP/1.1 4") or each in ("", "reset") for each in seen), f"answered {seen}")


@checks("B", "the call after an answer that is too large is answered")
def too_large(ground):
    """In every way of sending one: finite, without an end, too slowly, with the connection left open."""
    slowest = 0
    ways = {
        "whole": "return 'x' * (20 << 20)",
        "endless chunks": """
    connection = socket.create_connection(("127.0.0.1", 9001), 30)
    connection.sendall(head + b"Transfer-Encoding: chunked\\r\\n\\r\\n")
    block = b"100000\\r\\n" + bytes(1 << 20) + b"\\r\\n"
    while True: connection.sendall(block)""",
        "promised and never sent": """
    connection = socket.create_connection(("127.0.0.1", 9001), 30)
    connection.sendall(head + b"Content-Length: 100000000000\\r\\n\\r\\n")
    time.sleep(30)""",
        "a byte at a time": """
    connection = socket.create_connection(("127.0.0.1", 9001), 30)
    connection.sendall(head + b"Content-Length: 100000000000\\r\\n\\r\\n")
    while True: connection.sendall(b"x"); time.sleep(0.05)""",
    }
    for way, body in list(ways.items())[:3 if ground.short else None]:
        name = ground.name("large")
        ground.worker.create_python(name, PRELUDE + """
def handler(event, context):
    if event.get("fine"): return "fine"
    head = ("POST /2018-06-01/runtime/invocation/%%s/response HTTP/1.1\\r\\nHost: x\\r\\n" %% context.aws_request_id).encode()
    %s
""" % body.strip(), timeout=8, memory=256)
        first = ground.worker.invoke(name)
        require(first.json.get("errorType") == "Function.ResponseSizeTooLarge", f"{way}: answered {first.body[:200]}")
        started = time.monotonic()
        second = ground.worker.invoke(name, {"fine": True})
        took = time.monotonic() - started
        slowest = max(slowest, took)
        require(second.json == "fine", f"{way}: the call after it: {second.body[:200]}")
        require(took < 6, f"{way}: the call after it waited {took:.1f} s")
        ground.worker.delete(name)
    return {"slowest_next_call_s": round(slowest, 2)}


@checks("B", "a thousand connections and bodies without end fill neither worker nor neighbours")
def connections(ground):
    before = memory_of(ground.worker.process.pid)
    name = ground.name("clinging")
    ground.worker.create_python(name, PRELUDE + """
held = []
def handler(event, context):
    head = "POST /2018-06-01/runtime/invocation/%s/response HTTP/1.1\\r\\nHost: x\\r\\n" % context.aws_request_id
    try:
        for n in range(900):
            held.append(socket.create_connection(("127.0.0.1", 9001), 2))
            held[-1].settimeout(1)
            if n < 60: held[-1].sendall(head.encode() + b"Content-Length: 6000000\\r\\n\\r\\n" + b"1" * 5900000)
    except OSError:
        pass
    return len(held)
""", memory=512, timeout=20)
    answered = []
    caller = threading.Thread(target=lambda: answered.append(ground.worker.invoke(name)))
    caller.start()
    slowest = 0
    while caller.is_alive():
        slowest = max(slowest, ground.neighbour_is_well())
        time.sleep(0.05)
    require(answered, "no answer")
    grown = memory_of(ground.worker.process.pid) - before
    ground.worker.delete(name)
    require(grown < 160 * MIB, f"the worker grew by {grown // MIB} MiB")
    return {"grown_bytes": grown, "slowest_neighbour_s": round(slowest, 2)}


@checks("B", "a function that steals its own next call breaks no other")
def stolen(ground):
    name = ground.name("thief")
    ground.worker.create_python(name, PRELUDE + """
import threading
def handler(event, context):
    if not event.get("steal"): return "honest"
    def steal():
        time.sleep(0.2)
        try: call("GET", "invocation/next")
        except OSError: pass
    threading.Thread(target=steal).start()
    return "stolen"
""", timeout=4)
    require(ground.worker.invoke(name, {"steal": True}).json == "stolen", "the first answer")
    time.sleep(0.5)
    ground.worker.invoke(name, {})  # whatever it is: an answer
    ground.neighbour_is_well()
    ground.worker.delete(name)
