"""HTTPS and mutual TLS: curl, Python's ssl, the lambent command and peers against real workers; certificates that are replaced
while requests go on.
"""
import contextlib
import http.client
import json
import os
import operator
import pathlib
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from certificates import Authority
from harness import PREFIX, HttpError, Worker
from tenants import Operator

HELLO = "def handler(event, context): return 'hello'"


def curl(*arguments):
    """Exit status, output, errors."""
    done = subprocess.run(["curl", "-sS", "--max-time", "20", *map(str, arguments)], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def lambent(*arguments, **environment):
    done = subprocess.run([str(PREFIX / "bin/lambent"), *map(str, arguments)], capture_output=True, text=True, timeout=60,
                          env={**os.environ, **environment})
    return done.returncode, done.stdout, done.stderr


class TlsTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lambent-tls-"))
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.authority = Authority(self.folder)

    def start(self, *flags, own=None, tls=None, **options):
        self.own = own or self.authority.issue("worker")
        worker = Worker("--tls-certificate", str(self.own[0]), "--tls-key", str(self.own[1]), *flags, gpu="none",
                        tls=tls or self.authority.context(), **options)
        self.addCleanup(worker.close)
        return worker

    def replace(self, name, **options):
        """Puts another certificate where the worker's is."""
        for new, old in zip(self.authority.issue(name, **options), self.own):
            os.replace(new, old)


class ServingTest(TlsTest):
    def test_curl_speaks_https_and_is_told_where_it_does_not(self):
        worker = self.start()
        self.assertTrue(worker.endpoint.startswith("https://127.0.0.1:"))
        url, port = worker.endpoint + "/v1/version", worker.address[1]
        status, answer, _ = curl("--cacert", self.authority.certificate, "-w", "%{http_version} %{ssl_verify_result}", url)
        self.assertEqual((status, answer.rpartition("}")[2].strip()), (0, "1.1 0"))
        for version in ("1.2", "1.3"):
            self.assertEqual(curl("--cacert", self.authority.certificate, "--tls-max", version, f"--tlsv{version}", url)[0], 0)
        self.assertEqual(curl("--cacert", self.authority.certificate, "--tls-max", "1.1", "--tlsv1.0", url)[0], 35)
        self.assertEqual(curl("--cacert", self.authority.certificate, "--http2", "-w", "%{http_version}", url)[1][-3:], "1.1")
        # A name that the certificate has not, an authority that did not sign it, no TLS at all.
        self.assertEqual(curl("--cacert", self.authority.certificate, "--resolve", f"other.test:{port}:127.0.0.1",
                              f"https://other.test:{port}/")[0], 60)
        self.assertEqual(curl("--cacert", Authority(self.folder, "stranger").certificate, url)[0], 60)
        status, answer, _ = curl("-w", " %{http_code}", f"http://127.0.0.1:{port}/v1/version")
        self.assertEqual((status, answer[-3:]), (0, "400"))
        self.assertIn("this port speaks HTTPS", json.loads(answer[:-4])["error"]["message"])

    def test_functions_are_deployed_and_invoked_as_without(self):
        worker = self.start()
        worker.create_python("hello", HELLO)
        self.assertEqual(worker.invoke("hello").json, "hello")
        large = json.dumps("x" * (4 << 20)).encode()
        worker.create_python("echo", "def handler(event, context): return event")
        self.assertEqual(worker.invoke("echo", large).body, large)

    def test_sessions_are_resumed_and_counted(self):
        worker = self.start()
        context, session = self.authority.context(), None
        context.maximum_version = ssl.TLSVersion.TLSv1_2  # Python gives a session of 1.3 only after it has read
        for resumed in (False, True, True):
            with socket.create_connection(worker.address) as plain:
                with context.wrap_socket(plain, server_hostname="localhost", session=session) as secure:
                    secure.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                    self.assertTrue(secure.recv(1000).startswith(b"HTTP/1.1 200"))
                    self.assertEqual(secure.session_reused, resumed)
                    session = secure.session
        metrics = worker.metrics()
        self.assertIn('lambent_tls_handshakes_total{outcome="resumed"} 2', metrics)
        expiry = float(metrics.partition("\nlambent_tls_certificate_expiry_timestamp_seconds ")[2].split()[0])
        self.assertAlmostEqual(expiry, time.time() + 30 * 86400, delta=120)

    def test_a_thousand_clients_that_say_nothing_keep_none_out(self):
        worker = self.start()
        with contextlib.ExitStack() as silent:
            for n in range(1000):
                plain = silent.enter_context(socket.create_connection(worker.address))
                if n % 2:
                    plain.send(b"\x16\x03\x01\x02")
            begin = time.monotonic()
            worker.request("GET", "/livez")
            self.assertLess(time.monotonic() - begin, 5)
        worker.wait_for(lambda: 'lambent_tls_handshakes_total{outcome="failed"} 1000' in worker.metrics())
        worker.wait_for(lambda: "tls_handshakes_failed" in worker.log())

    def test_beyond_loopback_tls_by_itself_is_not_enough(self):
        own = self.authority.issue("worker")
        done = subprocess.run(
            [str(PREFIX / "bin/lambent-worker"), "--listen", "0.0.0.0:0", "--state", str(self.folder / "state"), "--run",
             str(self.folder / "run"), "--gpu", "none", "--tls-certificate", str(own[0]), "--tls-key", str(own[1])],
            capture_output=True, text=True, timeout=30)
        self.assertEqual(done.returncode, 2)
        self.assertIn("clients are encrypted, but not asked who they are", done.stderr)

    def test_files_that_cannot_be_used_are_named_before_anything_starts(self):
        certificate, key = self.authority.issue("worker")
        _, other = self.authority.issue("other")
        for flags, said in (
                ((certificate, other), f"{other}: this key is not that of the certificate in {certificate}"),
                ((key, key), f"{key}: there is no certificate in it"), ((certificate, self.folder / "none"), "none"),
                ((certificate, certificate), f"{certificate}: there is no private key in it")):
            done = subprocess.run(
                [str(PREFIX / "bin/lambent-worker"), "--listen", "127.0.0.1:0", "--state", str(self.folder / "state"), "--run",
                 str(self.folder / "run"), "--gpu", "none", "--tls-certificate", str(flags[0]), "--tls-key", str(flags[1])],
                capture_output=True, text=True, timeout=30)
            self.assertIn(done.returncode, (13, 15), done.stderr)
            self.assertIn(said, done.stderr)


class ClientTest(TlsTest):
    def test_the_command_speaks_https_with_flags_and_by_the_environment(self):
        worker = self.start()
        worker.create_python("hello", HELLO)
        at, ca = ("--endpoint", worker.endpoint), self.authority.certificate
        self.assertEqual(lambent("invoke", "hello", *at, "--ca", ca)[:2], (0, '"hello"\n'))
        self.assertEqual(lambent("ls", LAMBENT_ENDPOINT=worker.endpoint, LAMBENT_CA=str(ca))[0], 0)
        status, _, errors = lambent("ls", *at)
        self.assertEqual(status, 26, errors)
        self.assertIn("the other side's certificate is refused", errors)
        status, _, errors = lambent("ls", *at, "--ca", self.folder / "none.pem")
        self.assertEqual(status, 15, errors)
        status, _, errors = lambent("ls", "--endpoint", worker.endpoint.replace("https", "http"))
        self.assertIn("this port speaks HTTPS", errors)
        self.assertNotEqual(status, 0)
        load = lambent("load", "hello", *at, "--ca", ca, "--clients", "4", "--seconds", "1", "--json")
        self.assertEqual(load[0], 0, load[2])
        run = json.loads(load[1])[0]
        self.assertEqual((run["failed"], run["errors"]), (0, {}))
        self.assertGreater(run["succeeded"], 20)

    def test_python_speaks_https_by_the_environment(self):
        alice = self.authority.issue("alice")
        worker = self.start("--tls-client-ca", str(self.authority.certificate), "--tls-client-required",
                            tls=self.authority.context(*alice))
        script = ("from lambent.client import Client; client = Client(local=False); name = client.put(b'abc'); "
                  "print(bytes(client.get(name)).decode())")
        environment = {**os.environ, "PYTHONPATH": str(PREFIX / "share/lambent/python"), "LAMBENT_ENDPOINT": worker.endpoint,
                       "LAMBENT_CA": str(self.authority.certificate), "LAMBENT_CLIENT_CERTIFICATE": str(alice[0]),
                       "LAMBENT_CLIENT_KEY": str(alice[1])}
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, env=environment)
        self.assertEqual(done.stdout, "abc\n", done.stderr)
        del environment["LAMBENT_CA"]
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, env=environment)
        self.assertIn("CERTIFICATE_VERIFY_FAILED", done.stderr)

    def test_the_command_is_told_of_a_server_that_does_not_encrypt(self):
        worker = Worker(gpu="none")
        self.addCleanup(worker.close)
        status, _, errors = lambent("ls", "--endpoint", worker.endpoint.replace("http", "https"), "--ca",
                                    self.authority.certificate)
        self.assertEqual(status, 19, errors)
        self.assertIn("does it serve http://?", errors)

    def test_a_required_certificate_lets_in_those_who_show_one(self):
        alice = self.authority.issue("alice", "email:alice@example.org")
        worker = self.start("--tls-client-ca", str(self.authority.certificate), "--tls-client-required",
                            tls=self.authority.context(*alice))
        self.assertEqual(worker.request("GET", "/livez").status, 200)
        at, ca = ("--endpoint", worker.endpoint), ("--ca", self.authority.certificate)
        shown = ("--client-certificate", alice[0], "--client-key", alice[1])
        self.assertEqual(lambent("ls", *at, *ca, *shown)[0], 0)
        status, _, errors = lambent("ls", *at, *ca)
        self.assertEqual(status, 26, errors)
        self.assertIn("wants a certificate of this one", errors)
        stranger = Authority(self.folder, "stranger").issue("mallory")
        status, _, errors = lambent("ls", *at, *ca, "--client-certificate", stranger[0], "--client-key", stranger[1])
        self.assertEqual(status, 26, errors)
        self.assertIn("does not know the authority", errors)
        self.assertEqual(lambent("ls", *at, *ca, "--client-certificate", alice[0])[0], 13)
        self.assertNotEqual(curl("--cacert", self.authority.certificate, worker.endpoint + "/livez")[0], 0)
        self.assertEqual(curl("--cacert", self.authority.certificate, "--cert", alice[0], "--key", alice[1],
                              worker.endpoint + "/livez")[0], 0)


class CertificatesOfTokens(TlsTest):
    """With --auth tokens, a client certificate stands for the token that has its name."""

    def start_for_tokens(self, *flags):
        socket_path = self.folder / "api.sock"
        worker = self.start("--tls-client-ca", str(self.authority.certificate), "--auth", "tokens", "--socket",
                            str(socket_path), *flags)
        return worker, Operator(worker, socket_path)

    def bind(self, operator, tenant, certificate, scopes=("read", "invoke"), **fields):
        body = {"name": "person", "scopes": list(scopes), "certificate": certificate, **fields}
        return operator.request("POST", f"/v1/tenants/{tenant}/tokens", json.dumps(body)).json

    def ask(self, worker, path, certificate=None, headers=None):
        connection = http.client.HTTPSConnection(*worker.address, timeout=20, context=self.authority.context(*(certificate or ())))
        with contextlib.closing(connection):
            connection.request("GET", path, headers=headers or {})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    def test_a_client_with_a_certificate_is_its_tokens_tenant(self):
        worker, operator = self.start_for_tokens()
        operator.create_tenant("vision")
        alice = self.authority.issue("alice", "email:alice@team.example")
        bob = self.authority.issue("bob", "email:bob@team.example")
        token = self.bind(operator, "vision", "email:alice@team.example")
        self.assertNotIn("secret", token)
        status, answer = self.ask(worker, "/v1/whoami", alice)
        self.assertEqual((status, json.loads(answer)["tenant"], json.loads(answer)["token"]), (200, "vision", token["id"]))
        # Its scopes hold, a certificate without a token is not enough, and neither is none at all.
        self.assertEqual(self.ask(worker, "/v1/tenants", alice)[0], 403)
        self.assertEqual(self.ask(worker, "/v1/functions", bob)[0], 401)
        self.assertEqual(self.ask(worker, "/v1/functions")[0], 401)
        self.assertEqual(self.ask(worker, "/v1/whoami", alice, {"Authorization": "Bearer forged"})[0], 401)
        status, output, errors = lambent("whoami", "--endpoint", worker.endpoint, "--ca", self.authority.certificate,
                                         "--client-certificate", alice[0], "--client-key", alice[1])
        self.assertEqual(status, 0, errors)
        self.assertIn("vision", output)
        # The same name again, in another tenant's favour, is refused until the first is revoked.
        with self.assertRaises(HttpError) as caught:
            self.bind(operator, "default", "email:alice@team.example")
        self.assertEqual(caught.exception.status, 409)

    def test_a_revoked_token_shuts_out_connections_that_are_open(self):
        worker, operator = self.start_for_tokens()
        alice = self.authority.issue("alice", "URI:spiffe://team.example/alice")
        token = self.bind(operator, "default", "uri:spiffe://team.example/alice")
        connection = http.client.HTTPSConnection(*worker.address, timeout=20, context=self.authority.context(*alice))
        with contextlib.closing(connection):
            for expected in (200, 401):
                connection.request("GET", "/v1/functions")
                answer = connection.getresponse()
                answer.read()
                self.assertEqual(answer.status, expected)
                if expected == 200:
                    operator.request("DELETE", f"/v1/tenants/default/tokens/{token['id']}")

    def test_a_node_is_let_in_by_its_own_certificate(self):
        far, operator = self.start_for_tokens()
        name = operator.request("POST", "/v1/objects", b"far away").json["object"]
        near_own = self.authority.issue("near", "DNS:localhost,DNS:GPU2.example,IP:127.0.0.1")
        near = self.start("--peer", far.endpoint, "--peer-ca", str(self.authority.certificate), own=near_own)
        with self.assertRaises(HttpError) as caught:
            near.request("GET", f"/v1/objects/{name}")
        self.assertIn(b"401", caught.exception.body)
        self.bind(operator, "default", "dns:gpu2.example", scopes=["invoke"])
        self.assertEqual(near.request("GET", f"/v1/objects/{name}").body, b"far away")


class PeerTest(TlsTest):
    def test_nodes_bring_objects_from_each_other_by_mutual_tls(self):
        far_own, near_own = self.authority.issue("far"), self.authority.issue("near")
        authority = ("--tls-client-ca", str(self.authority.certificate), "--tls-client-required")
        far = self.start(*authority, own=far_own, tls=self.authority.context(*near_own))
        near = self.start(*authority, "--peer", far.endpoint, own=near_own, tls=self.authority.context(*far_own))
        content = bytes(range(256)) * (10 << 12)
        name = far.request("POST", "/v1/objects", content).json["object"]
        self.assertEqual(near.request("GET", f"/v1/objects/{name}").body, content)
        # One whose authority the other does not know is not served.
        stranger = Authority(self.folder, "stranger")
        outside = Worker("--tls-certificate", str(stranger.issue("outside")[0]), "--tls-key",
                         str(self.folder / "outside.key"), "--peer-ca", str(self.authority.certificate), "--peer",
                         far.endpoint, gpu="none", tls=stranger.context())
        self.addCleanup(outside.close)
        with self.assertRaises(HttpError) as caught:
            outside.request("GET", f"/v1/objects/{name}")
        self.assertIn(b"does not know the authority", caught.exception.body)

    def test_a_peer_that_cannot_prove_itself_gives_nothing(self):
        stranger = Authority(self.folder, "stranger")
        far = self.start(own=stranger.issue("far"), tls=stranger.context())
        name = far.request("POST", "/v1/objects", b"false").json["object"]
        near = Worker("--peer", far.endpoint, "--peer-ca", str(self.authority.certificate), gpu="none")
        self.addCleanup(near.close)
        with self.assertRaises(HttpError) as caught:
            near.request("GET", f"/v1/objects/{name}")
        self.assertIn(b"the other side's certificate is refused", caught.exception.body)


class ReloadTest(TlsTest):
    def shown_name(self, worker):
        with socket.create_connection(worker.address) as plain:
            with self.authority.context().wrap_socket(plain, server_hostname="localhost") as secure:
                return dict(pair[0] for pair in secure.getpeercert()["subject"])["commonName"]

    def test_a_change_is_seen_by_itself_and_what_is_broken_is_not_used(self):
        worker = self.start()
        self.assertEqual(self.shown_name(worker), "worker")
        self.replace("second")
        worker.wait_for(lambda: self.shown_name(worker) == "second")
        pathlib.Path(self.own[1]).write_text("no key")
        worker.wait_for(lambda: "tls_reload_failed" in worker.log())
        self.assertEqual(self.shown_name(worker), "second")
        self.assertRegex(worker.metrics(), r'lambent_tls_reloads_total\{outcome="failed"\} [1-9]')
        self.replace("third", days=10)
        worker.process.send_signal(signal.SIGHUP)
        worker.wait_for(lambda: self.shown_name(worker) == "third", seconds=3)
        worker.wait_for(lambda: "tls_certificate_expires" in worker.log())

    def test_no_request_fails_while_certificates_are_replaced(self):
        worker = self.start()
        worker.create_python("hello", HELLO)
        target, stop = "/2015-03-31/functions/hello/invocations", threading.Event()
        failures, counts = [], [0] * 6

        def call(n):
            kept = worker.connect()
            while not stop.is_set():
                try:
                    connection = kept if n % 2 else worker.connect()
                    connection.request("POST", target, b"{}")
                    answer = connection.getresponse().read()
                    if answer != b'"hello"':
                        failures.append(answer)
                    if connection is not kept:
                        connection.close()
                    counts[n] += 1
                except (OSError, http.client.HTTPException) as error:
                    failures.append(repr(error))
            kept.close()

        threads = [threading.Thread(target=call, args=(n,)) for n in range(len(counts))]
        for thread in threads:
            thread.start()
        for n in range(8):
            self.replace(f"next{n}")
            worker.process.send_signal(signal.SIGHUP)
            worker.wait_for(lambda n=n: self.shown_name(worker) == f"next{n}")
            # Each client calls with each certificate, however slow the machine is.
            wanted = [count + 2 for count in counts]
            worker.wait_for(lambda wanted=wanted: failures or all(map(operator.ge, counts, wanted)), seconds=60)
        stop.set()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])
        self.assertIn('lambent_tls_reloads_total{outcome="loaded"} 8', worker.metrics())


if __name__ == "__main__":
    unittest.main()
