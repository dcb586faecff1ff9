"""Tenants and tokens against a real worker with --auth tokens: who gets in, who sees what, where quotas end, what a restart keeps,
and what the audit log has.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

from harness import PREFIX, HttpError, WorkerTest, descendants, http_over_unix, make_zip, process_exists
from tenants import Caller, TokenWorker

LAMBENT = str(PREFIX / "bin/lambent")
DATA_LOSS, PERMISSION_DENIED, PRECONDITION, UNAUTHENTICATED = 25, 17, 19, 26
UNKNOWN_ID = "12345678-1234-4123-8123-123456789abc"
LAMBDA = "/2015-03-31/functions"
# Each route of the worker, with what it is about in braces.
ROUTES = [
    ("GET", "/metrics"), ("GET", "/v1/version"), ("GET", "/v1/whoami"), ("GET", "/v1/functions"), ("GET", "/v1/sandboxes"),
    ("GET", "/v1/slices"), ("GET", "/v1/settings"), ("GET", "/v1/activity/functions"), ("GET", "/v1/activity/functions/{function}"),
    ("GET", "/v1/activity/invocations"), ("GET", "/v1/activity/invocations/{invocation}"), ("GET", "/v1/activity/events"),
    ("GET", "/v1/invocations/{invocation}/why"), ("POST", "/v1/what-if"), ("GET", "/v1/devices"), ("POST", "/v1/devices/0/drain"), ("POST", "/v1/devices/0/undrain"),
    ("GET", "/v1/invocations/{invocation}"), ("GET", "/v1/invocations/{invocation}/trace"), ("GET", "/v1/functions/{function}/log"),
    ("GET", "/v1/functions/{function}/log?follow=1"), ("GET", "/v1/functions/{function}/pipeline"),
    ("POST", "/v1/functions/{function}/profile"), ("POST", "/v1/functions/{function}/invocations"), ("GET", "/v1/objects"),
    ("GET", "/v1/objects/{object}"), ("GET", "/v1/objects/{object}?wait=0.1"), ("HEAD", "/v1/objects/{object}"),
    ("DELETE", "/v1/objects/{object}"), ("GET", "/v1/tenants"), ("POST", "/v1/tenants"), ("GET", "/v1/tenants/{tenant}"),
    ("PATCH", "/v1/tenants/{tenant}"), ("DELETE", "/v1/tenants/{tenant}"), ("GET", "/v1/tenants/{tenant}/tokens"),
    ("POST", "/v1/tenants/{tenant}/tokens"), ("DELETE", "/v1/tenants/{tenant}/tokens/{token}"), ("GET", LAMBDA),
    ("GET", LAMBDA + "/{function}"), ("GET", LAMBDA + "/{function}/configuration"), ("DELETE", LAMBDA + "/{function}"), ("GET", "/f/{function}/"),
    
    ("PUT", LAMBDA + "/{function}/code"), ("PUT", LAMBDA + "/{function}/configuration"), ("POST", LAMBDA + "/{function}/invocations"),
    ("GET", "/2017-03-31/tags/arn%3Aaws%3Alambda%3Aus-east-1%3A000000000000%3Afunction%3A{function}"),
    ("POST", "/2017-03-31/tags/arn%3Aaws%3Alambda%3Aus-east-1%3A000000000000%3Afunction%3A{function}"),
    ("DELETE", "/2017-03-31/tags/arn%3Aaws%3Alambda%3Aus-east-1%3A000000000000%3Afunction%3A{function}?tagKeys=a")]
# What a function asks its Runtime API for an object with this id.
FETCH = """
from lambent import objects
def handler(event, context):
    try:
        return {"bytes": bytes(objects.get(event["object"])).decode()}
    except Exception as error:
        return {"error": str(error).replace(event["object"], "ID")}
"""


# Leaves a mark of its tenant wherever host memory can have one, or counts the marks that are there. The mark is made when it is needed,
# so that a function that only looks does not have it.
LITTER = """
import ctypes, mmap, os
from lambent import objects

libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
SIZE = 24 << 20
kept = []

def mark():
    return bytes(byte ^ 0xff for byte in bytes.fromhex(os.environ['MARK']))

def fill():
    block = mark() * (SIZE // 16)
    anonymous = mmap.mmap(-1, SIZE)
    anonymous[:] = block
    for folder in ('/tmp', '/dev/shm'):
        with open(folder + '/left', 'wb') as file:
            file.write(block)
    segment = libc.shmget(0x1234, SIZE, 0o1666)
    assert segment >= 0, ctypes.get_errno()
    ctypes.memmove(libc.shmat(segment, None, 0), block, SIZE)
    kept.extend([anonymous, block])
    return objects.put(block)

# Beyond what looking for it leaves by itself.
def in_own_memory():
    wanted, found = mark(), 0
    with open('/proc/self/maps') as maps, open('/proc/self/mem', 'rb') as memory:
        for line in maps:
            start, end = (int(each, 16) for each in line.split()[0].split('-'))
            if 'r' not in line.split()[1] or line.rstrip().endswith(('[vvar]', '[vvar_vclock]', '[vsyscall]')):
                continue
            memory.seek(start)
            try:
                found += memory.read(end - start).count(wanted * 4)
            except OSError:
                pass
    return found > 1000

def dirty_pages():
    places = [mmap.mmap(-1, SIZE)]
    for folder in ('/tmp', '/dev/shm'):
        with open(folder + '/new', 'w+b') as file:
            file.truncate(SIZE)
            places.append(mmap.mmap(file.fileno(), SIZE))
    return sum(SIZE - place[:].count(0) for place in places)

def handler(event, context):
    if event.get('end'): os._exit(0)
    made = fill()['object'] if event.get('fill') else ''
    files = [name for folder in ('/tmp', '/dev/shm') for name in os.listdir(folder)]
    return {'object': made, 'files': files, 'segment': libc.shmget(0x1234, 0, 0) >= 0, 'marks': in_own_memory(),
            'dirty': dirty_pages()}
"""
MARK = bytes(byte ^ 0xff for byte in b"belongs to red!!").hex()


def answers_as(color):
    return f"def handler(event, context):\n    print('log of {color}')\n    return {{'of': '{color}', 'heard': event}}\n"


class TokensTest(WorkerTest):
    @classmethod
    def setUpClass(cls):
        cls.held = TokenWorker(*cls.flags, gpu=cls.gpu)
        cls.worker, cls.operator = cls.held.worker, cls.held.operator

    @classmethod
    def close_worker(cls):
        cls.held.close()

    def run_cli(self, *arguments, expect=0, token=None, endpoint=None):
        environment = {key: value for key, value in os.environ.items() if key != "LAMBENT_TOKEN"}
        environment["LAMBENT_ENDPOINT"] = endpoint or self.worker.endpoint
        if token is not None:
            environment["LAMBENT_TOKEN"] = token
        done = subprocess.run([LAMBENT, *map(str, arguments)], capture_output=True, text=True, timeout=120, env=environment)
        self.assertEqual(done.returncode, expect, f"{arguments}\n{done.stdout}\n{done.stderr}")
        return done


class WhoGetsInTest(TokensTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.operator.create_tenant("red")

    def assert_refused(self, caller, why):
        """Under both APIs, with the status and type that AWS clients know; nothing of the token is told."""
        error = self.error_of(caller.request, "GET", "/v1/whoami")
        self.assertEqual((error.status, error.json["error"]["code"]), (401, "UNAUTHENTICATED"))
        self.assertIn(why, error.json["error"]["message"])
        self.assertIn("Bearer", error.headers["www-authenticate"])
        under_lambda = self.error_of(caller.request, "GET", LAMBDA + "/f")
        self.assertEqual((under_lambda.status, under_lambda.headers["x-lambent-code"]), (403, "UNAUTHENTICATED"))
        self.assertIn(why, under_lambda.json["Message"])
        if caller.token:
            for body in (error.body, under_lambda.body):
                self.assertNotIn(caller.token.encode(), body)
        return under_lambda

    def test_root_over_the_unix_socket_is_the_operator_without_a_token(self):
        me = self.operator.request("GET", "/v1/whoami").json
        self.assertEqual({key: me[key] for key in ("tenant", "scopes", "token")},
                         {"tenant": "default", "scopes": ["admin", "deploy", "invoke", "read"], "token": None})

    def test_without_a_token_only_liveness_is_answered(self):
        nobody = Caller(self.worker)
        for path in ("/livez", "/healthz", "/readyz", "/", "/dashboard/app.js"):
            self.assertEqual(nobody.status_of("GET", path)[0], 200)
        for method, path in ROUTES + [("POST", "/no/such"), ("GET", "/no/such"), ("OPTIONS", "/v1/functions"), ("TRACE", "/v1/tenants")]:
            with self.subTest(method=method, path=path):
                self.assertIn(nobody.status_of(method, path, "{}" if method != "GET" else None)[0], (400, 401, 403))
        error = self.assert_refused(nobody, "lambent tokens create")
        self.assertEqual(error.error_type, "MissingAuthenticationTokenException")

    def test_forged_tokens_are_refused_and_all_in_the_same_words(self):
        good = self.operator.create_token("red")["secret"]
        head = "_".join(good.split("_", 2)[:2])
        words = set()
        for forged in (good[:-1] + ("A" if good[-1] != "A" else "B"), good[:-1], good + "A", good.upper(), "lambent_", "lambent__",
                       "x", f"lambent_LAMBAAAAAAAAAAAAAAAA_{'A' * 43}", head, f"{head}_", "A" * 4000, good.replace("LAMB", "LAMC")):
            with self.subTest(forged=forged[:40]):
                error = self.assert_refused(Caller(self.worker, forged), "is not valid")
                self.assertEqual(error.error_type, "UnrecognizedClientException")
                words.add(error.json["Message"])
        self.assertEqual(len(words), 1, words)
        self.assertEqual(Caller(self.worker, good).request("GET", "/v1/whoami").json["tenant"], "red")

    def test_two_authorization_headers_are_refused(self):
        good = self.operator.create_token("red")["secret"]
        connection = self.worker.connect()
        connection.putrequest("GET", "/v1/whoami")
        connection.putheader("Authorization", f"Bearer {good}")
        connection.putheader("Authorization", "Bearer lambent_other")
        connection.endheaders()
        self.assertEqual(connection.getresponse().status, 401)
        connection.close()

    def test_an_expired_token_is_refused_and_says_so(self):
        caller = self.operator.caller("red", lifetime=1)
        self.assertEqual(caller.request("GET", "/v1/whoami").status, 200)
        self.worker.wait_for(lambda: caller.status_of("GET", "/v1/whoami")[0] == 401, what="the end of the token")
        self.assert_refused(caller, "has expired")

    def test_a_revoked_token_is_worth_nothing_from_then_on(self):
        token = self.operator.create_token("red")
        caller = Caller(self.worker, token["secret"])
        caller.request("GET", "/v1/whoami")
        self.operator.request("DELETE", f"/v1/tenants/red/tokens/{token['id']}")
        self.assert_refused(caller, "is not valid")
        self.assertEqual(self.error_of(self.operator.request, "DELETE", f"/v1/tenants/red/tokens/{token['id']}").status, 404)

    def test_a_log_that_is_followed_ends_when_its_token_is_revoked(self):
        deployer, token = self.operator.caller("red"), self.operator.create_token("red", scopes=["read"])
        deployer.create_python("logs", answers_as("red"))
        self.addCleanup(deployer.delete, "logs")
        connection = self.worker.connect()
        self.addCleanup(connection.close)
        connection.request("GET", "/v1/functions/logs/log?follow=1", headers={"Authorization": f"Bearer {token['secret']}"})
        response = connection.getresponse()
        deployer.invoke("logs")
        while response.readline() != b"log of red\n":
            pass
        self.operator.request("DELETE", f"/v1/tenants/red/tokens/{token['id']}")
        response.read()  # to its end; without one this waits until the connection's timeout
        deployer.invoke("logs")
        self.assertTrue(response.isclosed())

    def test_the_tokens_of_a_removed_tenant_are_worth_nothing_and_its_name_begins_from_nothing(self):
        self.operator.create_tenant("short")
        caller = self.operator.caller("short")
        caller.request("PUT", f"/v1/objects/{UNKNOWN_ID}.0", b"1")
        self.operator.request("DELETE", "/v1/tenants/short")
        self.assert_refused(caller, "is not valid")
        self.operator.create_tenant("short")
        self.assertEqual(self.operator.caller("short").request("GET", "/v1/objects").json["objects"], [])
        self.operator.request("DELETE", "/v1/tenants/short")

    def test_only_an_admin_acts_for_another_tenant(self):
        token = self.operator.create_token("red")["secret"]
        for tenant in ("default", "red2", "nobody"):
            error = self.error_of(Caller(self.worker, token, tenant).request, "GET", "/v1/functions")
            self.assertEqual(error.status, 403)
        self.assertEqual(Caller(self.worker, token, "red").request("GET", "/v1/whoami").json["tenant"], "red")
        admin = self.operator.create_token("default", scopes=["admin"])["secret"]
        self.assertEqual(Caller(self.worker, admin, "red").request("GET", "/v1/whoami").json["tenant"], "red")
        self.assertEqual(self.error_of(Caller(self.worker, admin, "nobody").request, "GET", "/v1/functions").status, 404)

    def test_a_scope_opens_its_routes_and_no_others(self):
        callers = {scope: self.operator.caller("red", scopes=[scope]) for scope in ("deploy", "invoke", "read")}
        callers["deploy"].create_python("scoped", answers_as("red"))
        self.addCleanup(callers["deploy"].delete, "scoped")
        self.assertEqual(callers["invoke"].invoke("scoped").json["of"], "red")
        self.assertIn("log of red", callers["read"].request("GET", "/v1/functions/scoped/log").body.decode())
        for scope, call in (("invoke", lambda c: c.create_python("more", "x = 1")), ("read", lambda c: c.invoke("scoped")),
                            ("deploy", lambda c: c.invoke("scoped")), ("invoke", lambda c: c.delete("scoped")),
                            ("read", lambda c: c.delete("scoped")),
                            ("invoke", lambda c: c.request("GET", "/v1/functions/scoped/log"))):
            error = self.error_of(call, callers[scope])
            self.assertEqual(error.status, 403)
            self.assertIn(f"scopes {scope}", error.body.decode())
        for caller in callers.values():
            for method, path in (("GET", "/v1/tenants"), ("POST", "/v1/tenants"), ("GET", "/v1/tenants/red"),
                                 ("GET", "/v1/tenants/red/tokens"), ("POST", "/v1/tenants/red/tokens"), ("POST", "/v1/devices/0/drain")):
                self.assertEqual(caller.status_of(method, path, "{}" if method == "POST" else None)[0], 403)


class InvisibleTest(TokensTest):
    """Two tenants with functions of the same name; one asks for all that the other has."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for name in ("red", "azure"):
            cls.operator.create_tenant(name)
        cls.red, cls.azure = cls.operator.caller("red"), cls.operator.caller("azure", name="key-of-azure")
        cls.red.create_python("same", answers_as("red"))
        cls.azure.create_python("same", answers_as("azure"), environment={"PASSWORD": "opensesame"}, tags={"owner": "azurite"})
        cls.azure.create_python("only-azure", answers_as("azure"))
        cls.azure.invoke("only-azure", {"secret": "plum"})
        reply = cls.azure.invoke("same", {"secret": "plum"}, kind="Event")
        cls.invocation = reply.headers["x-amzn-requestid"]
        cls.object = cls.azure.request("POST", "/v1/objects", b"tensor of azure").json["object"]
        cls.token = cls.operator.request("GET", "/v1/tenants/azure/tokens").json["tokens"][0]["id"]
        cls.worker.wait_for(lambda: cls.azure.status_of("GET", f"/v1/invocations/{cls.invocation}")[0] == 200)

    def test_functions_of_the_same_name_are_each_their_own(self):
        self.assertEqual(self.red.invoke("same").json["of"], "red")
        self.assertEqual(self.azure.invoke("same").json["of"], "azure")
        self.assertNotIn("azure", self.red.request("GET", "/v1/functions/same/log").body.decode())
        self.assertIn("log of azure", self.azure.request("GET", "/v1/functions/same/log").body.decode())
        self.assertNotIn("opensesame", self.red.request("GET", LAMBDA + "/same").body.decode())
        self.assertEqual([each["FunctionName"] for each in self.red.request("GET", LAMBDA).json["Functions"]], ["same"])

    def test_lists_metrics_and_sandboxes_have_only_what_is_ones_own(self):
        self.red.invoke("same")
        for path in ("/v1/functions", "/v1/sandboxes", "/v1/objects", "/v1/slices", "/v1/devices", "/v1/version", "/metrics", LAMBDA):
            with self.subTest(path=path):
                body = self.red.request("GET", path).body.decode()
                for word in ("azur", "plum", "opensesame", self.invocation, self.object, self.token):
                    self.assertNotIn(word, body)
        self.assertIn('function="same"', self.red.metrics())
        self.assertEqual({each["function"] for each in self.red.sandboxes()}, {"same"})
        self.assertTrue(self.azure.sandboxes())

    def test_what_is_anothers_answers_exactly_as_what_does_not_exist(self):
        theirs = {"function": "only-azure", "invocation": self.invocation, "object": self.object, "token": self.token, "tenant": "azure"}
        nothing = {"function": "only-nobody", "invocation": UNKNOWN_ID, "object": UNKNOWN_ID + ".0",
                   "token": "LAMBAAAAAAAAAAAAAAAA", "tenant": "nobody"}
        bodies = {"code": json.dumps({"ZipFile": ""}), "tags": json.dumps({"Tags": {"a": "b"}})}
        for method, path in ROUTES:
            if "{" not in path:
                continue
            body = None
            if method in ("POST", "PUT", "PATCH"):
                body = next((text for word, text in bodies.items() if word in path), "{}")
            with self.subTest(method=method, path=path):
                seen = []
                for names in (theirs, nothing):
                    status, text = self.red.status_of(method, path.format(**names), body)
                    for key, name in sorted(names.items(), key=lambda item: -len(item[1])):
                        text = text.replace(name, key.upper())
                    seen.append((status, text))
                if path == "/v1/functions/{function}/invocations":  # its answer has the ids of what it will make
                    seen = [status for status, _ in seen]
                self.assertEqual(seen[0], seen[1])
        # And nothing of it is gone.
        self.assertEqual(self.azure.request("GET", f"/v1/objects/{self.object}").body, b"tensor of azure")
        self.assertEqual(self.azure.request("GET", f"/v1/invocations/{self.invocation}").json["heard"], {"secret": "plum"})
        self.assertEqual(self.azure.invoke("only-azure").json["of"], "azure")
        self.assertEqual(self.azure.request("GET", "/v1/whoami").status, 200)

    def test_an_object_may_have_the_same_id_for_both(self):
        name = self.azure.request("POST", "/v1/objects", b"tensor of azure").json["object"]
        self.red.request("PUT", f"/v1/objects/{name}", b"tensor of red")
        self.assertEqual(self.red.request("GET", f"/v1/objects/{name}").body, b"tensor of red")
        self.assertEqual(self.azure.request("GET", f"/v1/objects/{name}").body, b"tensor of azure")
        self.red.request("DELETE", f"/v1/objects/{name}")
        self.assertEqual(self.azure.request("GET", f"/v1/objects/{name}").body, b"tensor of azure")

    def test_a_function_gets_no_object_of_another_tenant(self):
        self.red.create("fetch", make_zip({"app.py": FETCH}))
        self.addCleanup(self.red.delete, "fetch")
        of_theirs = self.red.invoke("fetch", {"object": self.object}).json
        of_nothing = self.red.invoke("fetch", {"object": UNKNOWN_ID + ".0"}).json
        self.assertIn("NOT_FOUND", of_theirs["error"])
        self.assertEqual(of_theirs, of_nothing)
        # Nor does it run because an object exists that is another's.
        for needed in (self.object, UNKNOWN_ID + ".0"):
            status, text = self.red.status_of("POST", LAMBDA + "/same/invocations", "{}",
                                              {"X-Lambent-Needs": needed, "X-Amz-Invocation-Type": "DryRun"})
            self.assertIn(status, (204, 404), text)

    def test_a_workflow_calls_nothing_of_another_tenant(self):
        graph = {"components": [{"name": "a", "function": "only-azure", "input": {}}], "output": "$a"}
        status, text = 0, ""
        try:
            self.red.create("flow", make_zip({"workflow.json": json.dumps(graph)}), runtime="provided.al2023",
                            handler="workflow.json", tags={"lambent:kind": "workflow"})
            self.addCleanup(self.red.delete, "flow")
            text = self.red.invoke("flow").body.decode()
        except HttpError as error:
            status, text = error.status, error.body.decode()
        self.assertNotIn('"of"', text, status)
        self.assertNotIn("log of azure", text)

    def test_the_run_of_a_workflow_is_unknown_to_others(self):
        graph = {"components": [{"name": "a", "function": "only-azure", "input": {}}], "output": "$a"}
        self.azure.create("flow", make_zip({"workflow.json": json.dumps(graph)}), runtime="provided.al2023",
                          handler="workflow.json", tags={"lambent:kind": "workflow"})
        self.addCleanup(self.azure.delete, "flow")
        run = self.azure.invoke("flow").headers["x-amzn-requestid"]
        self.assertIn("only-azure", self.azure.request("GET", f"/v1/invocations/{run}/trace").body.decode())
        for path in ("/v1/invocations/{}/trace", "/v1/invocations/{}"):
            answers = [(status, text.replace(name, "ID")) for name in (run, UNKNOWN_ID)
                       for status, text in [self.red.status_of("GET", path.format(name))]]
            self.assertEqual(answers[0], answers[1])
            self.assertEqual(answers[0][0], 404)

    def test_a_repeat_joins_no_invocation_of_another_tenant(self):
        headers = {"amz-sdk-invocation-id": UNKNOWN_ID}
        answers = [caller.invoke("same", {"n": 1}, headers=headers).json["of"] for caller in (self.azure, self.red, self.azure)]
        self.assertEqual(answers, ["azure", "red", "azure"])

    def test_a_function_named_by_anothers_arn_is_ones_own_or_none(self):
        arn = self.azure.request("GET", LAMBDA + "/only-azure").json["Configuration"]["FunctionArn"]
        self.assertEqual(self.red.status_of("GET", f"{LAMBDA}/{arn.replace(':', '%3A')}")[0], 404)
        arn = self.azure.request("GET", LAMBDA + "/same").json["Configuration"]["FunctionArn"]
        answer = self.red.request("GET", f"{LAMBDA}/{arn.replace(':', '%3A')}").body.decode()
        self.assertNotIn("opensesame", answer)


class ResidueTest(TokensTest):
    """Host memory that one tenant filled and another gets: all of it is zero, and no file and no segment is left."""

    def test_host_memory_of_one_tenant_is_zero_when_another_gets_it(self):
        red, azure = (self.operator.create_tenant(name) and self.operator.caller(name) for name in ("red", "azure"))
        for caller in (red, azure):
            caller.create_python("litter", LITTER, environment={"MARK": MARK}, memory=512)
        for _ in range(3):
            filled = red.invoke("litter", {"fill": True}).json
            # What is looked for is found where it is.
            self.assertEqual((sorted(filled["files"]), filled["segment"], filled["marks"]), (["left", "left"], True, True))
            red.status_of("DELETE", f"/v1/objects/{filled['object']}")
            for caller in (red, azure):
                caller.invoke("litter", {"end": True})
            found = azure.invoke("litter").json
            self.assertEqual((found["files"], found["segment"], found["marks"], found["dirty"]), ([], False, False, 0))
            self.assertEqual(azure.status_of("GET", f"/v1/objects/{filled['object']}")[0], 404)


class QuotasTest(TokensTest):
    gpu = "none"

    def tenant(self, name, **quotas):
        self.operator.create_tenant(name, **quotas)
        return self.operator.caller(name)

    def assert_exhausted(self, error, quota):
        self.assertEqual(error.status, 429)
        self.assertIn(quota, error.body.decode())

    def test_the_last_function_fits_and_the_next_does_not(self):
        caller = self.tenant("few", functions=2)
        for name in ("a", "b"):
            caller.create_python(name, "def handler(e, c): return 1")
        self.assert_exhausted(self.error_of(caller.create_python, "c", "def handler(e, c): return 1"), "functions")
        caller.request("PUT", LAMBDA + "/a/configuration", json.dumps({"Timeout": 7}))  # adds nothing
        caller.delete("a")
        caller.create_python("c", "def handler(e, c): return 1")
        self.operator.change_tenant("few", functions=None)
        caller.create_python("d", "def handler(e, c): return 1")
        self.assertEqual(self.error_of(self.operator.request, "DELETE", "/v1/tenants/few").status, 412)

    def test_packages_fit_up_to_the_last_byte(self):
        package = make_zip({"app.py": "def handler(e, c): return 1"})
        caller = self.tenant("small", disk_bytes=2 * len(package))
        for name in ("a", "b"):
            caller.create(name, package)
        self.assert_exhausted(self.error_of(caller.create, "c", package), "disk")
        self.operator.change_tenant("small", disk_bytes=3 * len(package))
        caller.create("c", package)

    def usage_of_disk(self, name):
        return self.operator.request("GET", f"/v1/tenants/{name}").json["usage"]["disk_bytes"]

    def test_asynchronous_invocations_count_and_none_that_was_acknowledged_is_lost(self):
        package = make_zip({"app.py": "def handler(e, c): return 'r' * e['results']"})
        caller = self.tenant("later", disk_bytes=len(package) + 40_000)
        caller.create("f", package)
        padding = "p" * 9_000
        self.assert_exhausted(self.error_of(caller.invoke, "f", {"results": 1, "padding": padding * 5}, kind="Event"), "quota of disk")
        self.assertEqual(self.usage_of_disk("later"), len(package))
        # Ten results of 9,000 bytes have no room; those whose call was taken are there all the same.
        taken, refused = [], 0
        for number in range(10):
            try:
                key = {"amz-sdk-invocation-id": f"key-{number}"}
                taken.append(caller.invoke("f", {"results": 9_000, "padding": padding}, kind="Event", headers=key).headers["x-amzn-requestid"])
            except HttpError as error:
                refused += 1
                self.assert_exhausted(error, "quota of disk")
        self.assertGreaterEqual(len(taken), 3)
        self.assertGreater(refused, 0)
        for each in taken:
            self.worker.wait_for(lambda each=each: caller.request("GET", f"/v1/invocations/{each}").status == 200, what="the result")
            self.assertEqual(len(caller.request("GET", f"/v1/invocations/{each}").json), 9_000)
        self.assertGreaterEqual(self.usage_of_disk("later"), len(package) + len(taken) * 9_000)
        # A repeat of one that was taken is answered as the first was; synchronous calls need no disk.
        again = caller.invoke("f", {"results": 9_000, "padding": padding}, kind="Event", headers={"amz-sdk-invocation-id": "key-0"})
        self.assertEqual(again.headers["x-amzn-requestid"], taken[0])
        self.assertEqual(caller.invoke("f", {"results": 3}).json, "rrr")
        self.operator.change_tenant("later", disk_bytes=None)
        self.assertEqual(caller.invoke("f", {"results": 1}, kind="Event").status, 202)

    def test_logs_count_and_do_not_grow_beyond_the_quota(self):
        package = make_zip({"app.py": "def handler(e, c): print('\\n'.join([e['line'] + 'x' * 90] * 100), flush=True)"})
        most = len(package) + 60_000
        caller = self.tenant("wordy", disk_bytes=most)
        caller.create("f", package)
        caller.invoke("f", {"line": "first"})
        self.worker.wait_for(lambda: self.usage_of_disk("wordy") > len(package) + 9_000, what="its log on disk")
        # What the log takes is not there for packages.
        self.assert_exhausted(self.error_of(caller.create, "g", make_zip({"app.py": "", "noise": os.urandom(52_000).hex()})), "logs")
        folder = self.held.folder / "state/logs"

        def is_there(line):
            # A file may go while the others are read.
            return any(line in file.read_bytes() for file in folder.glob("*.log") if file.exists())
        # One after the other: what is written at once and larger than its log has no room.
        for number in range(12):
            caller.invoke("f", {"line": f"line {number} "})
            self.worker.wait_for(lambda number=number: is_there(b"line %d x" % number), what=f"line {number}")
            self.assertLessEqual(self.usage_of_disk("wordy"), most)
        self.assertFalse(is_there(b"line 1 x"), "its oldest lines")
        self.assertLessEqual(self.usage_of_disk("wordy"), most)
        caller.delete("f")
        self.assertEqual(self.usage_of_disk("wordy"), 0)

    def test_objects_fit_up_to_the_quota(self):
        caller = self.tenant("light", object_bytes=1 << 20)
        made = caller.request("POST", "/v1/objects", b"x" * (1 << 20)).json["object"]
        self.assertEqual(caller.status_of("POST", "/v1/objects", b"x" * 8192)[0], 429)
        caller.request("DELETE", f"/v1/objects/{made}")
        caller.request("POST", "/v1/objects", b"x" * 8192)

    def test_requests_above_the_rate_are_refused_until_there_is_room(self):
        caller = self.tenant("slow", requests_per_second=0.5)
        statuses = [caller.status_of("GET", "/v1/whoami")[0] for _ in range(4)]
        self.assertEqual((statuses[0], statuses[-1]), (200, 429))
        error = self.error_of(caller.request, "GET", LAMBDA)
        self.assertEqual(error.error_type, "TooManyRequestsException")
        self.assertGreaterEqual(float(error.headers["retry-after"]), 1)
        other = self.tenant("quick")
        self.assertEqual({other.status_of("GET", "/v1/whoami")[0] for _ in range(20)}, {200})
        # The operator is not the tenant, and can still change it.
        self.operator.change_tenant("slow", requests_per_second=None)
        self.assertEqual({caller.status_of("GET", "/v1/whoami")[0] for _ in range(20)}, {200})

    def test_bad_tenants_are_refused_by_their_field(self):
        for body, word in (({"name": "UPPER"}, "name"), ({"name": ""}, "name"), ({"name": "a b"}, "name"), ({}, "name"),
                           ({"name": "w", "weight": 0}, "weight"), ({"name": "q", "quotas": {"functions": -1}}, "functions"),
                           ({"name": "q", "quotas": {"functions": 1.5}}, "functions"), ({"name": "q", "quotas": {"color": 1}}, "color"),
                           ({"name": "q", "quotas": {"requests_per_second": 0}}, "requests_per_second"), ([], "tenant")):
            error = self.error_of(self.operator.request, "POST", "/v1/tenants", json.dumps(body))
            self.assertEqual(error.status, 400, body)
            self.assertIn(word, error.json["error"]["message"])
        self.operator.create_tenant("twice")
        self.assertEqual(self.error_of(self.operator.request, "POST", "/v1/tenants", '{"name": "twice"}').status, 409)


class ManyTest(TokensTest):
    gpu = "none"

    def test_a_thousand_tenants_have_a_token_each_and_a_restart_keeps_them(self):
        connection = Connection(self.operator)
        tokens = {}
        for number in range(1000):
            name = f"team-{number:04}"
            connection.request("POST", "/v1/tenants", {"name": name})
            tokens[name] = connection.request("POST", f"/v1/tenants/{name}/tokens", {"name": "t", "scopes": ["read"]})["secret"]
        connection.close()
        listed = json.loads(self.run_cli("tenants", "ls", "--json", endpoint=f"unix:{self.held.socket}").stdout)["tenants"]
        self.assertEqual([each["name"] for each in listed], sorted(["default", *tokens]))
        self.assertEqual(self.worker.stop(), 0)
        self.worker.start()
        for name in ("team-0000", "team-0517", "team-0999"):
            self.assertEqual(Caller(self.worker, tokens[name]).request("GET", "/v1/whoami").json["tenant"], name)
        page = self.operator.request("GET", "/v1/tenants?limit=3&after=team-0996").json
        self.assertEqual(([each["name"] for each in page["tenants"]], page["next"]), (["team-0997", "team-0998", "team-0999"], None))


class Connection:
    """Many requests over one connection to the operator's socket."""

    def __init__(self, operator):
        self.connection = http_over_unix(operator.path, 60)

    def request(self, method, path, body):
        self.connection.request(method, path, json.dumps(body))
        response = self.connection.getresponse()
        answer = json.loads(response.read())
        assert response.status < 300, answer
        return answer

    def close(self):
        self.connection.close()


class DurableTest(TokensTest):
    gpu = "none"

    def test_what_was_acknowledged_survives_kill_9_and_what_was_revoked_stays_so(self):
        self.operator.create_tenant("red", weight=2.5, functions=3, gpu_seconds_per_hour=90)
        kept, revoked = self.operator.create_token("red"), self.operator.create_token("red")
        Caller(self.worker, kept["secret"]).create_python("f", answers_as("red"))
        self.operator.request("DELETE", f"/v1/tenants/red/tokens/{revoked['id']}")
        before = self.operator.request("GET", "/v1/tenants/red").json
        below = descendants(self.worker.process.pid)
        self.worker.kill()
        self.worker.wait_for(lambda: not any(process_exists(pid) for pid in below), what="the end of its processes")
        self.worker.start()
        self.assertEqual(self.operator.request("GET", "/v1/tenants/red").json, before)
        self.assertEqual(Caller(self.worker, kept["secret"]).invoke("f").json["of"], "red")
        self.assertEqual(Caller(self.worker, revoked["secret"]).status_of("GET", "/v1/whoami")[0], 401)
        again = self.operator.create_token("red")
        self.assertNotIn(again["id"], (kept["id"], revoked["id"]))

    def test_neither_secret_lies_on_the_disk(self):
        self.operator.create_tenant("quiet")
        token = self.operator.create_token("quiet")
        Caller(self.worker, token["secret"]).request("GET", "/v1/whoami")
        Caller(self.worker, token["secret"] + "x").status_of("GET", "/v1/whoami")
        for secret in (token["secret"].split("_", 2)[2], token["aws_secret_access_key"]):
            for path in [*(self.held.folder / "state").rglob("*"), self.worker.log_path]:
                if path.is_file():
                    self.assertNotIn(secret.encode(), path.read_bytes(), path)
        for name in ("node.key", "audit.log"):
            self.assertEqual((self.held.folder / "state" / name).stat().st_mode & 0o077, 0, name)


class AuditTest(TokensTest):
    gpu = "none"

    def lines(self):
        return [json.loads(line) for line in self.held.audit_log.read_text().splitlines()]

    def test_every_change_and_refusal_is_a_line_that_continues_the_one_before(self):
        self.operator.create_tenant("red")
        token = self.operator.create_token("red")
        caller = Caller(self.worker, token["secret"])
        caller.create_python("f", answers_as("red"))
        caller.invoke("f")
        caller.status_of("GET", "/v1/tenants")
        Caller(self.worker, "lambent_x_y").status_of("DELETE", LAMBDA + "/f")
        caller.delete("f")
        wanted = [("POST", "/v1/tenants", 201, "", "default"), ("POST", "/v1/tenants/red/tokens", 201, "", "default"),
                  ("POST", LAMBDA, 201, token["id"], "red"), ("GET", "/v1/tenants", 403, token["id"], "red"),
                  ("DELETE", LAMBDA + "/f", 403, "", ""), ("DELETE", LAMBDA + "/f", 204, token["id"], "red")]
        # Refusals are answered before they are written.
        written = self.worker.wait_for(lambda: len(self.lines()) >= len(wanted) and self.lines(), what="the audit log")
        self.assertEqual([(each["method"], each["path"], each["status"], each["token"], each["tenant"]) for each in written], wanted)
        self.assertEqual(written[0]["origin"], "unix, user 0")
        self.assertTrue(written[2]["origin"].startswith("127.0.0.1:"))
        self.assertNotIn(token["secret"].split("_", 2)[2], self.held.audit_log.read_text())
        self.check_verify()

    def check_verify(self):
        done = self.run_cli("audit", "verify", self.held.audit_log)
        self.assertIn("6 records", done.stdout)
        text = self.held.audit_log.read_text().splitlines(keepends=True)
        with tempfile.TemporaryDirectory() as folder:
            copy = pathlib.Path(folder) / "audit.log"
            for broken, first in ((text[:2] + text[3:], 3), (text[:1] + [text[1].replace("201", "200")] + text[2:], 3),
                                  ([text[0]] + text, 2), (text[1:], 1)):
                copy.write_text("".join(broken))
                done = self.run_cli("audit", "verify", copy, expect=DATA_LOSS)
                self.assertIn(f"{copy}:{first}:", done.stderr)
            self.run_cli("audit", "verify", pathlib.Path(folder) / "missing", expect=15)
            copy.write_text("def handler(event, context):\n    return {}\n")
            self.assertIn("is that the audit log?", self.run_cli("audit", "verify", copy, expect=13).stderr)


class CommandTest(TokensTest):
    gpu = "none"

    def test_an_operator_makes_a_tenant_and_a_token_and_its_holder_deploys_with_it(self):
        socket_of_root = f"unix:{self.held.socket}"
        made = self.run_cli("tenants", "create", "vision", "--weight", "2", "--functions", "3", "--gpu-memory", "8G",
                            "--gpu-time-per-hour", "15m", "--requests-per-second", "100", endpoint=socket_of_root).stdout
        self.assertRegex(made, r"gpu-memory +8 GiB")
        self.run_cli("tenants", "set", "vision", "--functions", "none", "--objects", "1G", endpoint=socket_of_root)
        shown = json.loads(self.run_cli("tenants", "show", "vision", "--json", endpoint=socket_of_root).stdout)
        self.assertEqual((shown["weight"], shown["quotas"]["functions"], shown["quotas"]["object_bytes"],
                          shown["quotas"]["gpu_seconds_per_hour"]), (2, None, 1 << 30, 900))
        made = self.run_cli("tokens", "create", "ci", "--tenant", "vision", "--scopes", "deploy,invoke,read", "--expires", "30d",
                            endpoint=socket_of_root)
        lines = dict(line.removeprefix("export ").split("=", 1) for line in made.stdout.splitlines() if line.startswith("export "))
        token = lines["LAMBENT_TOKEN"]
        self.assertEqual(self.run_cli("whoami", token=token).stdout.splitlines()[0], "tenant  vision")
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            self.run_cli("init", folder / "hello")
            self.run_cli("deploy", folder / "hello", token=token)
            self.assertIn("hello", self.run_cli("invoke", "hello", token=token).stdout)
            self.run_cli("load", "hello", "--clients", "2", "--seconds", "0.3", token=token)
            time.sleep(1.5)  # what the load sent counts against requests_per_second, and so do the operator's own requests
            self.run_cli("ls", "--tenant", "vision", endpoint=socket_of_root)
            listed = json.loads(self.run_cli("ls", "--json", "--tenant", "vision", endpoint=socket_of_root).stdout)
            self.assertEqual([each["name"] for each in listed["functions"]], ["hello"])
            self.check_token_files(folder, token)
        self.run_cli("rm", "hello", token=token)
        listed = self.run_cli("tokens", "ls", "--tenant", "vision", endpoint=socket_of_root).stdout
        self.assertRegex(listed, r"LAMB\w{16}  ci +deploy,invoke,read")
        self.run_cli("tokens", "revoke", lines["AWS_ACCESS_KEY_ID"], "--tenant", "vision", endpoint=socket_of_root)
        refused = self.run_cli("ls", token=token, expect=UNAUTHENTICATED)
        self.assertIn("--token-file", refused.stderr)
        self.assertNotIn(token, refused.stderr)
        self.run_cli("tenants", "rm", "vision", endpoint=socket_of_root)

    def check_token_files(self, folder, token):
        file = folder / "token"
        file.write_text(token + "\n")
        file.chmod(0o644)
        refused = self.run_cli("ls", "--token-file", file, expect=PRECONDITION)
        self.assertIn(f"chmod 600 {file}", refused.stderr)
        self.assertNotIn(token, refused.stderr)
        file.chmod(0o600)
        self.assertIn("hello", self.run_cli("ls", "--token-file", file).stdout)

    def test_without_a_token_and_with_too_small_a_scope_the_command_says_what_to_do(self):
        self.assertIn("lambent tokens create", self.run_cli("ls", expect=UNAUTHENTICATED).stderr)
        token = self.operator.create_token("default", scopes=["read"])["secret"]
        refused = self.run_cli("rm", "f", token=token, expect=PERMISSION_DENIED)
        self.assertIn("needs one of deploy", refused.stderr)
        self.assertNotIn(token, refused.stderr)
        self.run_cli("tenants", "ls", token=token, expect=PERMISSION_DENIED)

    def test_the_python_client_sends_a_token_and_keeps_objects_apart(self):
        self.operator.create_tenant("py")
        token = self.operator.create_token("py")["secret"]
        program = ("import sys\nsys.path.insert(0, sys.argv[1])\nfrom lambent.client import Client\nfrom lambent import errors\n"
                   "with Client() as client:\n"
                   "    assert client.whoami()['tenant'] == 'py' and not client.local\n"
                   "    x = client.put(b'123')\n    assert bytes(x.get()) == b'123'\n"
                   "try:\n    Client(token='lambent_x_y').whoami()\n    print('got in')\nexcept errors.Unauthenticated as error:\n    print(error)\n")
        done = subprocess.run([sys.executable, "-c", program, str(PREFIX / "share/lambent/python")], capture_output=True, text=True,
                              env={**os.environ, "LAMBENT_ENDPOINT": self.worker.endpoint, "LAMBENT_TOKEN": token}, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("UNAUTHENTICATED: the token is not valid", done.stdout)


if __name__ == "__main__":
    unittest.main()
