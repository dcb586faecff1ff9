"""RuntimeApi: the exchanges with the Lambda Runtime API, over one keep-alive connection.

Sockets of the C module underneath `socket`, and a parser of our own: `http.client` by itself would take
longer to import than the rest of the runtime.
"""
import _socket as socket
import os
import sys

PREFIX = "/2018-06-01/runtime/"
MOST_HEADER_BYTES = 64 * 1024
READ_BYTES = 16 * 1024  # at a time, where it is not known how many come: what most events need
COPIED_BYTES = 64 * 1024
ASKS_FOR_NEXT = "Lambent-Runtime-Next: wait\r\n"
MOST_TYPE_LETTERS = 256  # of an error's type in a header


def _keep_heap_for(size):
    """Lets malloc keep what an event of `size` bytes takes with its copies, instead of giving it back after each one.

    glibc trims its heap at twice the largest block that was mapped by itself and freed, if that had at most 32 MiB.
    The block here is never touched, so it costs no memory.
    """
    try:
        bytearray(min(4 * size, 31 << 20))
    except MemoryError:
        pass


def _in_header(name):
    """A class may have any name: what no header can carry is a question mark. The body of an error has the name as it is."""
    return "".join(letter if " " <= letter <= "~" else "?" for letter in name[:MOST_TYPE_LETTERS])


class ApiError(Exception):
    """The Runtime API is gone or does not speak as it should."""


class Refused(ApiError):
    """It gives no invocation to this call; another one that waits may get one."""


class RuntimeApi:
    def __init__(self, address, timeout=None):
        """`timeout`: seconds that it may take to connect, to send or to receive; None: any time."""
        host, _, port = address.rpartition(":")
        if not host or not port.isdigit():
            raise ApiError("AWS_LAMBDA_RUNTIME_API is %r, not host:port" % address)
        self._address = address
        self._target = (host.strip("[]"), int(port))
        self._timeout = timeout
        self._socket = None
        self._process = os.getpid()
        self._received = b""
        self._largest = COPIED_BYTES  # body that came, or of which the heap is not told
        self._asked = False  # the last answer asked for the next invocation too, and no reply was read

    def next(self):
        """(headers with lower-case names, body) of the next invocation; waits for it."""
        reply = self._reply_to_answer() if self._asked else None
        status, headers, body = reply or self._exchange("GET", "invocation/next", None, "", b"")
        if status != 200 or "lambda-runtime-aws-request-id" not in headers:
            raise (Refused if status == 403 else ApiError)("the Runtime API answered %d to next" % status)
        return headers, body

    def respond(self, request_id, content_type, body, asks=False):
        """The status that the Runtime API answered, and its message.

        With `asks` the answer asks for the next invocation too. Nothing is returned: next() waits for the reply, and writes a refusal to
        standard error.
        """
        path = "invocation/%s/response" % request_id
        return self._answer(path, content_type, "", body, asks)

    def _answer(self, path, content_type, extra, body, asks):
        if asks:
            extra += ASKS_FOR_NEXT
        self._request("POST", path, content_type, extra, body)
        if asks:
            self._asked = True
            return None
        status, _, answer = self._read_response()
        return status, answer

    def _reply_to_answer(self):
        """That to a call for the next invocation; None if the answer was refused, or the worker does not know the question."""
        self._asked = False
        status, headers, body = self._read_response()
        if status < 300:
            return (status, headers, body) if "lambda-runtime-aws-request-id" in headers else None
        if headers.get("lambent-runtime-answer") == "accepted":
            return status, headers, body
        sys.stderr.write("lambent_runtime: an answer was refused with %d: %s\n" % (status, body[:500].decode("utf-8", "replace")))
        return None

    def start_stream(self, request_id, content_type):
        """Begins an answer in pieces; whether they are wanted, as with send_piece()."""
        if self._socket is None:
            self._connect()
        head = ("POST %sinvocation/%s/response HTTP/1.1\r\nHost: %s\r\nContent-Type: %s\r\n"
                "Lambda-Runtime-Function-Response-Mode: streaming\r\nTransfer-Encoding: chunked\r\n"
                "Trailer: Lambda-Runtime-Function-Error-Type, Lambda-Runtime-Function-Error-Body\r\n\r\n" %
                (PREFIX, request_id, self._address, content_type))
        return self._send_of_stream(head.encode("latin-1"))

    def send_piece(self, data):
        """False: nothing more of the answer is wanted; then comes drop_stream()."""
        return self._send_of_stream(b"%x\r\n%s\r\n" % (len(data), data))

    def end_stream(self, error_type=None, error_body=b""):
        """The status that the Runtime API answered, and its message. With an error the answer is not whole."""
        trailers = b""
        if error_type is not None:
            from binascii import b2a_base64

            trailers = (b"Lambda-Runtime-Function-Error-Type: %s\r\nLambda-Runtime-Function-Error-Body: %s\r\n" %
                        (_in_header(error_type).encode(), b2a_base64(error_body, newline=False)))
        if not self._send_of_stream(b"0\r\n" + trailers + b"\r\n"):
            return self.drop_stream()
        status, _, answer = self._read_response()
        return status, answer

    def drop_stream(self):
        """The same, of an answer that was refused in its middle."""
        self._end_copies()
        try:
            status, _, answer = self._read_response()
        except (ApiError, OSError):
            status, answer = 410, b"the connection was closed"
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        return status, answer

    def _send_of_stream(self, data):
        self._end_copies()
        import select

        answered = select.poll()
        answered.register(self._socket, select.POLLIN)
        try:
            # An answer in the middle of the request ends it.
            if answered.poll(0):
                return False
            self._socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            return False
        return True

    def fail(self, request_id, error_type, body, asks=False):
        """As respond(), of an error; without `request_id` of the start."""
        path = "invocation/%s/error" % request_id if request_id else "init/error"
        extra = "Lambda-Runtime-Function-Error-Type: %s\r\n" % _in_header(error_type)
        return self._answer(path, "application/vnd.aws.lambda.error+json", extra, body, asks)

    def deadline(self, request_id):
        """(milliseconds since the epoch, whether it may still move) of an invocation that is being run. Ends the connection."""
        try:
            status, _, body = self._exchange("GET", "/lambent/2026-11/invocations/%s/deadline" % request_id, None, "", b"")
        finally:
            if self._socket is not None:
                self._socket.close()
                self._socket = None
        if status != 200:
            raise Refused("the Runtime API answered %d to deadline" % status)
        import json

        try:
            said = json.loads(body)
            return int(said["deadlineMs"]), bool(said["moves"])
        except (ValueError, KeyError, TypeError):
            raise ApiError("the Runtime API sent no deadline") from None

    def _connect(self):
        family, kind, protocol, _, target = socket.getaddrinfo(
            self._target[0], self._target[1], 0, socket.SOCK_STREAM)[0]
        self._socket = socket.socket(family, kind, protocol)
        self._socket.settimeout(self._timeout)
        self._socket.connect(target)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = b""

    def _end_copies(self):
        """A process that the handler forked has the same connection: two answers on it would end the sandbox, or be those of other invocations."""
        if os.getpid() != self._process:
            sys.stderr.write("lambent_runtime: a process that the handler forked came back from it, and was ended: such a process ends by "
                             "os._exit(), as those of multiprocessing do\n")
            sys.stderr.flush()
            os._exit(1)

    def _exchange(self, method, path, content_type, extra, body):
        self._request(method, path, content_type, extra, body)
        return self._read_response()

    def _request(self, method, path, content_type, extra, body):
        self._end_copies()
        if self._socket is None:
            self._connect()
        target = path if path.startswith("/") else PREFIX + path
        head = "%s %s HTTP/1.1\r\nHost: %s\r\n" % (method, target, self._address)
        if content_type is not None:
            head += "Content-Type: %s\r\n%sContent-Length: %d\r\n" % (content_type, extra, len(body))
        self._send(head.encode("latin-1") + b"\r\n", body)

    def _send(self, head, body):
        # The other side sees a small request at once; a large body is not copied to stand behind its head.
        if len(body) <= COPIED_BYTES:
            return self._socket.sendall(head + body)
        sent = self._socket.sendmsg((head, body))
        if sent < len(head):
            self._socket.sendall(head[sent:])
        self._socket.sendall(memoryview(body)[max(0, sent - len(head)):])

    def _read_more(self):
        more = self._socket.recv(READ_BYTES)
        if not more:
            raise ApiError("the Runtime API closed the connection")
        return more

    def _read_response(self):
        while True:
            end = self._received.find(b"\r\n\r\n")
            if end >= 0:
                break
            if len(self._received) > MOST_HEADER_BYTES:
                raise ApiError("the Runtime API sent too many headers")
            self._received += self._read_more()
        lines = self._received[:end].decode("latin-1").split("\r\n")
        self._received = self._received[end + 4:]
        status_line = lines[0].split(" ", 2)
        if not lines[0].startswith("HTTP/1.") or len(status_line) < 2 or not status_line[1].isdigit():
            raise ApiError("the Runtime API sent no HTTP response")
        headers = {}
        for line in lines[1:]:
            name, colon, value = line.partition(":")
            if not colon:
                raise ApiError("the Runtime API sent a bad header")
            headers[name.lower()] = value.strip()
        status = int(status_line[1])
        if "transfer-encoding" in headers:
            if headers["transfer-encoding"].lower() != "chunked":
                raise ApiError("the Runtime API sent an unknown coding")
            body = self._read_chunks()
        else:
            length = headers.get("content-length", "0" if status == 204 else "")
            if not length.isdigit():
                raise ApiError("the Runtime API sent a response without length")
            body = self._read_exactly(int(length))
        if headers.get("connection", "").lower() == "close":
            self._socket.close()
            self._socket = None
        return status, headers, body

    def _read_exactly(self, size):
        """bytes, or a bytearray of what came in several reads."""
        have, self._received = self._received[:size], self._received[size:]
        if len(have) == size:
            return have
        if size > self._largest:
            self._largest = size
            _keep_heap_for(size)
        whole = bytearray(size)
        whole[:len(have)] = have
        rest = memoryview(whole)[len(have):]
        while rest:
            more = self._socket.recv_into(rest, 0, socket.MSG_WAITALL)
            if not more:
                raise ApiError("the Runtime API closed the connection")
            rest = rest[more:]
        return whole

    def _read_chunks(self):
        body = b""
        while True:
            while b"\r\n" not in self._received:
                self._received += self._read_more()
            size_text, _, self._received = self._received.partition(b"\r\n")
            try:
                size = int(size_text, 16)
            except ValueError:
                raise ApiError("the Runtime API sent a bad chunk") from None
            chunk = self._read_exactly(size + 2)
            if size == 0:
                return body
            body += chunk[:-2]
