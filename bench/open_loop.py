"""Open-loop requests to a worker: each is sent when it is due, whatever became of those before. One thread, no library; for benchmarks.

A request takes an idle connection or makes a new one, so clients that wait never hold others up. Latencies count from when a request was due.
"""
import json
import random
import select
import socket
import time


class Answer:
    """What came of one request. status: HTTP's; 0: the connection ended without an answer; None: not answered (yet)."""
    __slots__ = ("kind", "due", "sent", "done", "status", "retry_after", "clear", "queued_s", "run_s")

    def __init__(self, kind, due, sent):
        self.kind, self.due, self.sent = kind, due, sent
        self.done = self.status = self.retry_after = self.queued_s = self.run_s = None
        self.clear = False

    @property
    def latency_s(self):
        return self.done - self.due

    @property
    def good(self):
        return self.status == 200


class _Connection:
    __slots__ = ("socket", "answer", "received", "unsent")


class OpenLoop:
    """requests: {kind: bytes of one whole HTTP/1.1 request}; address: (host, port)."""

    def __init__(self, address, requests):
        self.address, self.requests = (address[0], int(address[1])), requests
        self.epoll = select.epoll()
        self.by_fd, self.idle = {}, []
        self.outstanding = 0
        self.on_answer = lambda answer: None

    def close(self):
        """Goes away, whoever still waits."""
        for connection in self.by_fd.values():
            connection.socket.close()
        self.by_fd, self.idle, self.outstanding = {}, [], 0

    def send(self, kind, due):
        connection = self.idle.pop() if self.idle else self._connect()
        answer = Answer(kind, due, time.monotonic())
        connection.answer, connection.received = answer, b""
        connection.unsent = self.requests[kind]
        self.outstanding += 1
        self._flush(connection)
        return answer

    def poll(self, seconds):
        """Waits for answers, at most so long, and takes those that are there."""
        for fd, events in self.epoll.poll(max(0, seconds)):
            connection = self.by_fd.get(fd)
            if connection is None:
                continue
            if connection.unsent and events & select.EPOLLOUT:
                self._flush(connection)
            if events & ~select.EPOLLOUT:
                self._receive(connection)

    def run(self, arrivals):
        """Sends [(seconds from now, kind)], in order; all their answers, some of which are still to come."""
        start, answers = time.monotonic(), []
        for at, kind in arrivals:
            due = start + at
            while (left := due - time.monotonic()) > 0:
                self.poll(left)
            answers.append(self.send(kind, due))
            if len(answers) % 16 == 0:
                self.poll(0)
        return answers

    def settle(self, seconds):
        """Until everything is answered, at most so long."""
        end = time.monotonic() + seconds
        while self.outstanding > 0 and (left := end - time.monotonic()) > 0:
            self.poll(min(left, 0.1))
        return self.outstanding == 0

    def keep_busy(self, kinds, clients, seconds):
        """Closed loop: so many clients that wait for their answers. The answers."""
        answers, end, turn = [], time.monotonic() + seconds, 0
        while time.monotonic() < end:
            while self.outstanding < clients:
                answers.append(self.send(kinds[turn % len(kinds)], time.monotonic()))
                turn += 1
            self.poll(min(0.1, max(0, end - time.monotonic())))
        return answers

    def _connect(self):
        connection = _Connection()
        connection.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        connection.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.socket.connect_ex(self.address)
        connection.unsent = b""
        self.by_fd[connection.socket.fileno()] = connection
        self.epoll.register(connection.socket.fileno(), select.EPOLLIN)
        return connection

    def _flush(self, connection):
        try:
            sent = connection.socket.send(connection.unsent)
            connection.unsent = connection.unsent[sent:]
        except (BlockingIOError, OSError) as error:
            # Not connected yet is told as ENOTCONN or EAGAIN; anything else shows when it is read.
            del error
        wanted = select.EPOLLIN | (select.EPOLLOUT if connection.unsent else 0)
        self.epoll.modify(connection.socket.fileno(), wanted)

    def _receive(self, connection):
        try:
            data = connection.socket.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            return self._gone(connection)
        connection.received += data
        head, mark, body = connection.received.partition(b"\r\n\r\n")
        if not mark or connection.answer is None:
            return
        names = (line.lower().partition(b":") for line in head.split(b"\r\n")[1:])
        fields = {field: value.strip() for field, _, value in names}
        if fields.get(b"transfer-encoding") == b"chunked":
            if body != b"0\r\n\r\n" and not body.endswith(b"\r\n0\r\n\r\n"):
                return
        elif len(body) < int(fields.get(b"content-length", 0)):
            return
        self._answered(connection, int(head[9:12]), fields, body)
        if fields.get(b"connection") == b"close":
            self._drop(connection)
        else:
            self.idle.append(connection)

    def _gone(self, connection):
        if connection.answer is not None:
            self._answered(connection, 0, {}, b"")
        elif connection in self.idle:
            self.idle.remove(connection)
        self._drop(connection)

    def _drop(self, connection):
        del self.by_fd[connection.socket.fileno()]
        connection.socket.close()

    def _answered(self, connection, status, fields, body):
        answer, connection.answer = connection.answer, None
        self.outstanding -= 1
        answer.done, answer.status = time.monotonic(), status
        if b"x-lambent-queue-us" in fields:
            answer.queued_s = int(fields[b"x-lambent-queue-us"]) * 1e-6
        if b"x-lambent-run-us" in fields:
            answer.run_s = int(fields[b"x-lambent-run-us"]) * 1e-6
        if b"x-amz-function-error" in fields:
            answer.status = -1
        if status not in (0, 200):
            answer.retry_after = int(fields.get(b"retry-after", b"0"))
            answer.clear = is_clear(status, fields, body)
        self.on_answer(answer)


def is_clear(status, fields, body):
    """Whether a refusal says what it is to machines (status, type, when to come back) and to people (which limit)."""
    try:
        message = json.loads(body)["Message"]
    except (ValueError, KeyError, TypeError):
        return False
    return (status == 429 and fields.get(b"x-amzn-errortype") == b"toomanyrequestsexception" and int(fields.get(b"retry-after", b"0")) >= 1
            and "queue" in message)


def poisson(rates, seconds, seed):
    """[(at, kind)] of independent Poisson arrivals; rates: {kind: a second}."""
    chance, arrivals = random.Random(seed), []
    for kind, rate in rates.items():
        at = chance.expovariate(rate) if rate > 0 else seconds
        while at < seconds:
            arrivals.append((at, kind))
            at += chance.expovariate(rate)
    return sorted(arrivals)


def percentile(values, share):
    """Nearest rank; None of nothing."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None
