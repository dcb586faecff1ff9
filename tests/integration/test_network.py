"""The network of functions, in a small internet of namespaces: what is open works, and every other way is tried and fails at once."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time
import unittest

import network_world as world_of
from harness import PREFIX, HttpError, Worker, zygote_probe
from network_world import (FOREIGN_RESOLVER, HOST, HOST_V6, METADATA, METADATA_V6, OTHER, PRIVATE, PRIVATE_V6, RESOLVER, SITE, SITE_V6,
                           World)

PROBE = r'''
import errno, os, socket, struct, time, urllib.request

def get(event):
    with urllib.request.urlopen(event["url"], timeout=5) as answer:
        return len(answer.read()) if event.get("count") else answer.read().decode()

def post(event):
    request = urllib.request.Request(event["url"], data=b"x" * event["size"])
    with urllib.request.urlopen(request, timeout=30) as answer:
        return answer.read().decode()

def connect(event):
    with socket.create_connection((event["host"], event["port"]), timeout=5):
        return "connected"

def udp(event):
    family = socket.AF_INET6 if ":" in event["host"] else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as s:
        s.settimeout(5)
        s.connect((event["host"], event["port"]))
        s.send(b"\x12\x34\x01\x00\x00\x01\0\0\0\0\0\0\x04site\x07example\x03org\0\0\x01\0\x01")
        return s.recv(500).hex()

def resolve(event):
    return sorted({each[4][0] for each in socket.getaddrinfo(event["name"], 80, type=socket.SOCK_STREAM)})

def mapped(event):
    with socket.socket(socket.AF_INET6) as s:
        s.settimeout(5)
        s.connect(("::ffff:" + event["host"], event["port"]))
        return "connected"

def fast_open(event):
    with socket.socket() as s:
        s.settimeout(5)
        s.sendto(b"GET / HTTP/1.0\r\n\r\n", 0x20000000, (event["host"], event["port"]))
        return s.recv(100).decode()

def raw(event):
    socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_TCP)
    return "raw"

def devices(event):
    return sorted(name for _, name in socket.if_nameindex())

def change_routes(event):
    import fcntl
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        fcntl.ioctl(s, 0x8914, b"out".ljust(16, b"\0") + struct.pack("H", 0).ljust(24, b"\0"))
    return "changed"

def tun(event):
    return os.open("/dev/net/tun", os.O_RDWR)

def hold(event):
    held = []
    try:
        for _ in range(event["count"]):
            held.append(socket.create_connection((event["host"], event["port"]), timeout=5))
    except OSError as error:
        return [len(held), errno.errorcode.get(error.errno, str(error))]
    finally:
        for each in held:
            each.close()
    return [len(held), ""]

def handler(event, context):
    began = time.monotonic()
    try:
        value = globals()[event["do"]](event)
        return {"value": value, "s": time.monotonic() - began}
    except Exception as error:
        cause = getattr(error, "reason", error)
        number = getattr(cause, "errno", None)
        name = type(cause).__name__ if isinstance(cause, socket.gaierror) else errno.errorcode.get(number, repr(cause))
        return {"error": name, "s": time.monotonic() - began}
'''
CLOSED = ("ECONNREFUSED", "EHOSTUNREACH", "ENETUNREACH")


class WorldWorker(Worker):
    """A worker on the host of a world, reached by a socket in the file system."""

    def __init__(self, world, *flags, user=None):
        self.world, self.user = world, user
        folder = pathlib.Path(tempfile.mkdtemp(prefix="lambent-net-"))
        if user is not None:
            os.chown(folder, user, user)
        super().__init__(*flags, "--socket", f"{folder}/api", gpu="none", folder=folder, listen="none")

    def start(self):
        real = subprocess.Popen
        as_user = [] if self.user is None else ["setpriv", f"--reuid={self.user}", f"--regid={self.user}", "--clear-groups",
                                                "--inh-caps=-all", "--bounding-set=-all"]
        subprocess.Popen = lambda command, *rest, **options: real(self.world.command(as_user + command), *rest, **options)
        try:
            super().start()
        finally:
            subprocess.Popen = real

    def close(self):
        super().close()
        shutil.rmtree(self.folder, ignore_errors=True)


class NetworkTest(unittest.TestCase):
    user = None

    @classmethod
    def setUpClass(cls):
        cls.world = World()
        cls.addClassCleanup(cls.world.close)
        cls.worker = WorldWorker(cls.world, "--network", "public,10.1.2.0/24", user=cls.user)
        cls.addClassCleanup(cls.worker.close)
        cls.deploy("outbound", "outbound")
        cls.deploy("none", "")
        cls.deploy("listed", f"site.example.org:80,*.sub.example.org:80,{OTHER}:8080,{PRIVATE}:80,rebinding.example.org:80,"
                   "metadata.example.org:80,mixed.example.org:80,loop.example.org:*,host.example.org:80,rebinding6.example.org:80")

    @classmethod
    def deploy(cls, name, network, memory=256):
        return cls.worker.create_python(name, PROBE, tags={"lambent:network": network}, memory=memory)

    def ask(self, function, do, **event):
        reply = self.worker.invoke(function, {"do": do, **event}).json
        self.assertLess(reply["s"], 4, f"{do} {event} hung: {reply}")
        return reply

    def assertOpen(self, function, url, text):
        reply = self.ask(function, "get", url=url)
        self.assertEqual(reply.get("value"), text, f"{function} {url}: {reply}")

    def assertClosed(self, function, do, **event):
        reply = self.ask(function, do, **event)
        self.assertIn(reply.get("error"), CLOSED, f"{function} {do} {event}: {reply}")

    def test_outbound_reaches_public_addresses_by_number_and_by_name(self):
        self.assertOpen("outbound", f"http://{SITE}/", f"{SITE}:80")
        self.assertOpen("outbound", f"http://{OTHER}:8080/", f"{OTHER}:8080")
        self.assertOpen("outbound", "http://site.example.org/", f"{SITE}:80")
        self.assertOpen("outbound", f"http://[{SITE_V6}]/", f"{SITE_V6}:80")
        self.assertOpen("outbound", "http://six.example.org/", f"{SITE_V6}:80")

    def test_what_is_closed_stays_closed_for_all(self):
        for function in ("outbound", "listed"):
            for host in (METADATA, METADATA_V6, "127.0.0.2", "0.0.0.0", "::1", "192.168.1.1", "172.16.0.1", "100.64.0.1", "10.9.9.9",
                         "fe80::1", "64:ff9b::a9fe:a9fe", "64:ff9b::7f00:1", "2002:a9fe:a9fe::1", "::169.254.169.254", "198.18.0.1",
                         "2001:2::1", PRIVATE_V6, "168.63.129.16", "255.255.255.255", "224.0.0.1"):
                with self.subTest(function=function, host=host):
                    reply = self.ask(function, "connect", host=host, port=80)
                    self.assertNotIn("value", reply)
            for host in (METADATA, "10.9.9.9", "127.0.0.2"):
                reply = self.ask(function, "mapped", host=host, port=80)
                self.assertNotIn("value", reply, host)

    def test_addresses_of_the_host_are_closed(self):
        # 10.1.2.1 is the host's own in a range that the operator opened.
        for host, port in ((HOST, 80), (HOST, 8081), (HOST_V6, 80), ("10.1.2.1", 8081)):
            for function in ("outbound", "listed"):
                self.assertClosed(function, "connect", host=host, port=port)

    def test_a_refusal_is_at_once_and_reaches_the_log_and_the_metrics(self):
        reply = self.worker.invoke("outbound", {"do": "connect", "host": METADATA, "port": 80}).json
        self.assertEqual(reply["error"], "ECONNREFUSED")
        self.assertLess(reply["s"], 1)
        log = lambda: self.worker.request("GET", "/v1/functions/outbound/log").body.decode()
        self.worker.wait_for(lambda: f"[network] refused {METADATA}:80: the metadata service of a cloud" in log(), what="the line")
        self.worker.wait_for(lambda: 'lambent_network_refused_total{function="outbound"' in self.worker.metrics(), what="the count")

    def test_a_list_opens_what_it_names_and_nothing_else(self):
        self.assertOpen("listed", "http://site.example.org/", f"{SITE}:80")
        self.assertOpen("listed", f"http://{OTHER}:8080/", f"{OTHER}:8080")
        self.assertOpen("listed", f"http://{PRIVATE}/", f"{PRIVATE}:80")
        self.assertOpen("listed", "http://a.sub.example.org/", f"{SITE}:80")
        self.assertClosed("listed", "connect", host=OTHER, port=80)
        self.assertClosed("listed", "connect", host="site.example.org", port=8080)
        self.assertClosed("listed", "connect", host=SITE_V6, port=80)
        for name in ("other.example.org", "sub.example.org", "example.org", "xsite.example.org", "site.example.org.evil.example.org"):
            self.assertEqual(self.ask("listed", "resolve", name=name).get("error"), "gaierror", name)

    def test_an_address_is_open_only_once_its_name_was_asked_for(self):
        self.deploy("named", "short.example.org:80")
        self.assertClosed("named", "connect", host=SITE, port=80)
        self.assertOpen("named", "http://short.example.org/", f"{SITE}:80")
        self.assertEqual(self.ask("named", "connect", host=SITE, port=80).get("value"), "connected")

    def test_names_do_not_lead_into_closed_ranges(self):
        for name in ("metadata.example.org", "loop.example.org", "host.example.org", "rebinding6.example.org"):
            for function in ("outbound", "listed"):
                reply = self.ask(function, "resolve", name=name)
                self.assertEqual(reply.get("error"), "gaierror", f"{function} {name}: {reply}")
        # The operator opened the range, and the function names the host: nothing else of it is open.
        self.assertEqual(self.ask("listed", "resolve", name="rebinding.example.org").get("value"), [PRIVATE])
        self.assertClosed("outbound", "connect", host="rebinding.example.org", port=80)
        self.assertClosed("outbound", "connect", host=PRIVATE, port=80)
        log = self.worker.request("GET", "/v1/functions/listed/log").body.decode()
        self.assertIn(f"metadata.example.org: its address {METADATA} is the metadata service of a cloud", log)

    def test_udp_and_other_resolvers_are_closed(self):
        for function in ("outbound", "listed"):
            for host, port in ((SITE, 443), (FOREIGN_RESOLVER, 53), (RESOLVER, 53), (SITE_V6, 443), (METADATA, 53)):
                self.assertClosed(function, "udp", host=host, port=port)
        self.assertFalse([each for each in self.world.asked if each[0] == FOREIGN_RESOLVER])

    def test_the_program_cannot_change_its_network(self):
        for do in ("raw", "change_routes", "tun"):
            reply = self.ask("listed", do)
            self.assertIn(reply.get("error"), ("EPERM", "ENOENT", "EACCES", "EPROTONOSUPPORT"), f"{do}: {reply}")
        reply = self.ask("listed", "fast_open", host=OTHER, port=80)
        self.assertNotIn("value", reply)

    def test_without_network_there_is_only_the_loopback(self):
        self.assertEqual(self.ask("none", "devices")["value"], ["lo"])
        for host in (SITE, SITE_V6):
            self.assertEqual(self.ask("none", "connect", host=host, port=80)["error"], "ENETUNREACH")
        self.assertEqual(self.ask("none", "resolve", name="site.example.org")["error"], "gaierror")

    def test_large_bodies_come_and_go_whole(self):
        size = 200 << 20
        reply = self.worker.invoke("outbound", {"do": "get", "url": f"http://{SITE}/bytes/{size}", "count": True}).json
        self.assertEqual(reply.get("value"), size, reply)
        print(f"\n200 MiB in: {reply['s']:.2f} s", end=" ")
        reply = self.worker.invoke("outbound", {"do": "post", "url": f"http://{SITE}/count", "size": 50 << 20}).json
        self.assertEqual(reply.get("value"), str(50 << 20), reply)

    def test_connections_are_bounded_and_come_back(self):
        self.deploy("many", "outbound", memory=512)
        for _ in range(2):
            self.assertEqual(self.ask("many", "hold", host=SITE, port=80, count=600)["value"], [512, "ECONNREFUSED"])
            time.sleep(0.5)

    def test_a_changed_list_holds_for_the_next_call(self):
        self.deploy("changed", "outbound")
        self.assertOpen("changed", f"http://{SITE}/", f"{SITE}:80")
        self.worker.tag("changed", {"lambent:network": f"{OTHER}:80"})
        self.assertClosed("changed", "connect", host=SITE, port=80)
        self.assertOpen("changed", f"http://{OTHER}/", f"{OTHER}:80")
        self.worker.tag("changed", {"lambent:network": ""})
        self.assertEqual(self.ask("changed", "connect", host=SITE, port=80)["error"], "ENETUNREACH")

    def test_what_the_operator_does_not_open_is_refused_when_it_is_deployed(self):
        for network in ("10.9.9.9:80", "169.254.169.254:80", "127.0.0.1:80", "10.0.0.0/8:80", "0.0.0.0/0:80", "[fd12::3]:80"):
            with self.assertRaises(HttpError) as caught:
                self.deploy("refused", network)
            self.assertIn("not opened by this worker; its operator can: lambent serve --network", str(caught.exception), network)
        for network in ("nonsense", "host", "a.example.org:0", "*:x", "*.org:80", "1.2.3:80", "[::1:80"):
            with self.assertRaises(HttpError) as caught:
                self.deploy("refused", network)
            self.assertEqual(caught.exception.status, 400, network)

    def test_processes_end_with_their_sandboxes_and_with_a_killed_worker(self):
        def relays():
            mine = os.readlink(f"/proc/{self.world.host}/ns/net")
            found = []
            for pid in os.listdir("/proc"):
                try:
                    if pathlib.Path(f"/proc/{pid}/comm").read_text().strip() == "lambent-network" and os.readlink(f"/proc/{pid}/ns/net") == mine:
                        found.append(pid)
                except OSError:
                    pass
            return found

        worker = WorldWorker(self.world, "--network", "public", "--keep-alive", "0", user=self.user)
        try:
            others = set(relays())
            worker.create_python("short", PROBE, tags={"lambent:network": "outbound"})
            self.assertEqual(worker.invoke("short", {"do": "get", "url": f"http://{SITE}/"}).json.get("value"), f"{SITE}:80")
            worker.wait_for(lambda: set(relays()) <= others, what="the end of the process of its network")
            worker.invoke("short", {"do": "devices"}, kind="Event")
            worker.create_python("sleeps", "import time\ndef handler(event, context):\n    time.sleep(60)\n", tags={"lambent:network": "outbound"})
            worker.invoke("sleeps", kind="Event")
            worker.wait_for(lambda: set(relays()) - others, what="a process of its network")
            worker.kill()
            worker.wait_for(lambda: set(relays()) <= others, what="the end of all of them")
        finally:
            worker.close()


class OrdinaryUserTest(NetworkTest):
    """The same without root."""

    user = 64123

    @classmethod
    def setUpClass(cls):
        if shutil.which("setpriv") is None:
            raise unittest.SkipTest("setpriv is not installed")
        probe = subprocess.run(["setpriv", f"--reuid={cls.user}", f"--regid={cls.user}", "--clear-groups", "unshare", "-Urn", "true"],
                               capture_output=True)
        if probe.returncode != 0 or not os.stat(PREFIX).st_mode & 0o001:
            raise unittest.SkipTest("ordinary users have no user namespaces here, or cannot read this build")
        super().setUpClass()


@unittest.skipUnless(zygote_probe(), "zygotes are not possible here")
class DeviceOfRootTest(unittest.TestCase):
    """Where none but root may open /dev/net/tun, as a kernel makes it."""

    def test_functions_with_and_without_a_network_are_forked_from_one_zygote(self):
        world = World(device_mode="600")
        self.addCleanup(world.close)
        worker = WorldWorker(world, "--network", "public")
        self.addCleanup(worker.close)
        forked = lambda: worker.metric("lambent_sandboxes_forked_total")
        worker.create_python("connected", PROBE, tags={"lambent:network": "outbound"})
        worker.create_python("alone", PROBE)
        url = f"http://{SITE}/"
        self.assertEqual(worker.invoke("connected", {"do": "get", "url": url}).json.get("value"), f"{SITE}:80")
        worker.wait_for(lambda: '"zygote_ready"' in worker.log(), what="a zygote")
        before = forked()
        worker.tag("connected", {"lambent:network": f"{SITE}:80"})
        self.assertEqual(worker.invoke("connected", {"do": "get", "url": url}).json.get("value"), f"{SITE}:80")
        self.assertEqual(worker.invoke("alone", {"do": "devices"}).json.get("value"), ["lo"])
        self.assertEqual(forked(), before + 2, worker.log()[-2000:])
        self.assertNotIn('"zygote_failed"', worker.log())


class WithoutNetworkTest(unittest.TestCase):
    def test_a_worker_opens_nothing_by_itself(self):
        worker = Worker(gpu="none")
        try:
            with self.assertRaises(HttpError) as caught:
                worker.create_python("wants", PROBE, tags={"lambent:network": "outbound"})
            self.assertIn("this worker gives functions no network; its operator can: lambent serve --network public", str(caught.exception))
        finally:
            worker.close()


if __name__ == "__main__":
    unittest.main()
