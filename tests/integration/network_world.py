"""A small internet in network namespaces of this test: a host, on which a worker runs, and beyond one link everything else: sites,
name servers, a metadata service, a private network. Nothing of it outlives the processes that hold it.
"""
import ctypes
import ipaddress
import os
import pathlib
import shutil
import socket
import socketserver
import struct
import subprocess
import tempfile
import threading
import unittest

from harness import hold_network

CLONE_NEWNET = 0x40000000
SITE, OTHER, RESOLVER, FOREIGN_RESOLVER = "93.184.216.34", "93.184.216.35", "93.184.216.53", "93.184.216.99"
METADATA, PRIVATE, HOST, HOST_PRIVATE = "169.254.169.254", "10.1.2.3", "93.184.216.1", "10.1.2.1"
SITE_V6, HOST_V6, METADATA_V6, PRIVATE_V6 = "2606:2800:220::34", "2606:2800:220::1", "fd00:ec2::254", "fd12::3"
NAMES = {"site.example.org": [SITE], "other.example.org": [OTHER], "a.sub.example.org": [SITE], "rebinding.example.org": [PRIVATE],
         "metadata.example.org": [METADATA], "mixed.example.org": [PRIVATE, SITE], "loop.example.org": ["127.0.0.1"],
         "host.example.org": [HOST], "six.example.org": [SITE_V6], "rebinding6.example.org": [METADATA_V6], "short.example.org": [SITE]}


def enter_network(pid):
    """This thread's sockets are of that process's network from then on."""
    with open(f"/proc/{pid}/ns/net") as namespace:
        if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns")


def answer_names(data, names):
    """The answer of a name server; names that it has not are unknown."""
    name, at = [], 12
    while data[at]:
        name.append(data[at + 1:at + 1 + data[at]].decode())
        at += 1 + data[at]
    kind = struct.unpack("!H", data[at + 1:at + 3])[0]
    known = names.get(".".join(name).lower())
    records = b""
    matching = [ipaddress.ip_address(each) for each in known or [] if (ipaddress.ip_address(each).version == 4) == (kind == 1)]
    for address in matching if kind in (1, 28) else []:
        records += b"\xc0\x0c" + struct.pack("!HHIH", kind, 1, 60, len(address.packed)) + address.packed
    count = len(matching) if kind in (1, 28) else 0
    return data[:2] + struct.pack("!HHHHH", 0x8180 | (3 if known is None else 0), 1, count, 0, 0) + data[12:at + 5] + records


class World:
    def __init__(self, device_mode="666"):
        """`device_mode`: of its /dev/net/tun; as most systems have it."""
        self.device_mode = device_mode
        for program in ("ip", "unshare", "nsenter", "mount"):
            if shutil.which(program) is None:
                raise unittest.SkipTest(f"{program} is not installed")
        if os.geteuid() != 0:
            raise unittest.SkipTest("only root can make networks for the worker and what is around it")
        if not os.path.exists("/dev/net/tun"):
            raise unittest.SkipTest("this machine has no /dev/net/tun")
        self.holders = []
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lambent-world-"))
        self.asked, self.refreshed, self.threads = [], threading.Event(), []
        try:
            self.build()
        except BaseException:
            self.close()
            raise

    def build(self):
        for _ in range(2):
            self.holders.append(hold_network(600))
        self.host, self.rest = (holder.pid for holder in self.holders)
        self.ip(self.host, f"link add near type veth peer name far netns /proc/{self.rest}/ns/net")
        for pid, device, addresses in (
                (self.host, "near", (HOST + "/24", HOST_PRIVATE + "/24", HOST_V6 + "/64", "fd12::1/64")),
                (self.rest, "far", tuple(each + "/24" for each in (SITE, OTHER, RESOLVER, FOREIGN_RESOLVER, PRIVATE)) +
                 (METADATA + "/32", SITE_V6 + "/64", METADATA_V6 + "/128", PRIVATE_V6 + "/64"))):
            self.ip(pid, "link set lo up")
            self.ip(pid, f"link set {device} up")
            for each in addresses:
                self.ip(pid, f"addr add {each} dev {device}" + (" nodad" if ":" in each else ""))
        self.ip(self.host, "route add default dev near")
        self.ip(self.host, "-6 route add default dev near")
        (self.folder / "resolv.conf").write_text(f"nameserver {RESOLVER}\n")
        for address in (SITE, OTHER, METADATA, PRIVATE, SITE_V6, METADATA_V6, PRIVATE_V6):
            for port in (80, 8080):
                self.serve(self.rest, address, port, f"{address}:{port}")
        for address in (HOST, HOST_V6, "0.0.0.0"):
            self.serve(self.host, address, 8081 if address == "0.0.0.0" else 80, f"host {address}")
        self.serve_names(RESOLVER, NAMES)
        self.serve_names(FOREIGN_RESOLVER, {each: [SITE] for each in NAMES})

    @staticmethod
    def ip(pid, words):
        subprocess.run(["nsenter", f"--net=/proc/{pid}/ns/net", "ip", *words.split()], check=True)

    def in_network(self, pid, call):
        """The result of `call` in a thread of that network."""
        outcome = []

        def run():
            enter_network(pid)
            try:
                outcome.append((call(), None))
            except OSError as error:
                outcome.append((None, error))

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        if outcome[0][1] is not None:
            raise outcome[0][1]
        return outcome[0][0]

    def serve(self, pid, address, port, text):
        body = text.encode()

        class Handler(socketserver.BaseRequestHandler):
            def handle(self):
                self.request.settimeout(20)
                data = b""
                while b"\r\n\r\n" not in data:
                    piece = self.request.recv(65536)
                    if not piece:
                        return
                    data += piece
                path = data.split(b" ")[1].decode()
                if path.startswith("/bytes/"):
                    size = int(path.split("/")[2])
                    self.request.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
                    piece = bytes(range(256)) * 4096
                    while size > 0:
                        self.request.sendall(piece[:min(size, len(piece))])
                        size -= len(piece)
                    return
                if path == "/count":
                    head, _, rest = data.partition(b"\r\n\r\n")
                    count = len(rest)
                    wanted = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
                    while count < wanted:
                        count += len(self.request.recv(1 << 20))
                    answer = str(count).encode()
                else:
                    answer = body
                self.request.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n" % len(answer) + answer)

        class Server(socketserver.ThreadingTCPServer):
            address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
            allow_reuse_address = True
            daemon_threads = True
            request_queue_size = 128

        server = self.in_network(pid, lambda: Server((address, port), Handler))
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
        thread.start()
        self.threads.append(server)

    def serve_names(self, address, names):
        world = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self):
                data, reply = self.request
                world.asked.append((address, data[12:].split(b"\0")[0]))
                reply.sendto(answer_names(data, names), self.client_address)

        server = self.in_network(self.rest, lambda: socketserver.UDPServer((address, 53), Handler))
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True).start()
        self.threads.append(server)

    def command(self, words):
        """As it runs on the host of this world."""
        # Whatever this one has.
        device = f'mknod -m {self.device_mode} {self.folder}/tun c 10 200 2>/dev/null; chmod 755 {self.folder}; mount --bind {self.folder}/tun /dev/net/tun'
        script = f'mount --bind {self.folder}/resolv.conf "$(readlink -f /etc/resolv.conf)" && {{ {device}; }} && exec "$@"'
        return ["nsenter", f"--net=/proc/{self.host}/ns/net", "unshare", "--mount", "sh", "-c", script, "sh", *words]

    def close(self):
        for server in self.threads:
            server.shutdown()
            server.server_close()
        for holder in self.holders:
            holder.kill()
            holder.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
