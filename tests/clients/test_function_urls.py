"""Frameworks behind handlers, by unmodified adapters for Lambda's function URLs; and boto3's calls on URLs."""
import importlib.metadata
import json
import pathlib
import unittest
import urllib.error
import urllib.request

import boto3
import botocore.auth
import botocore.awsrequest
import botocore.credentials

from harness import WorkerTest, make_zip, stop_without_leftovers
from tenants import Caller, TokenWorker
from test_cluster import Cluster

ROLE = "arn:aws:iam::123456789012:role/r"
ECHO = "import json\ndef handler(event, context):\n    return {'statusCode': 200, 'body': json.dumps(event)}\n"


def packed(*distributions):
    """{path: bytes} of installed packages, for a zip."""
    files = {}
    for name in distributions:
        for path in importlib.metadata.files(name):
            if ".." not in path.parts and path.suffix != ".pyc":
                files[str(path)] = pathlib.Path(path.locate()).read_bytes()
    return files


def client_of(endpoint, token=None):
    token = token or {"aws_access_key_id": "any", "aws_secret_access_key": "any"}
    return boto3.client("lambda", endpoint_url=endpoint, region_name="us-east-1", **token)


def ask(url, method="GET", body=None, headers=None):
    """(status, headers, body), whatever the status is."""
    request = urllib.request.Request(url, data=body, method=method, headers=headers or {})
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status, response.headers, response.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read()


def signed(url, body, key):
    """The headers of a POST."""
    request = botocore.awsrequest.AWSRequest("POST", url, data=body, headers={"Content-Type": "text/plain"})
    botocore.auth.SigV4Auth(botocore.credentials.Credentials(*key), "lambda", "us-east-1").add_auth(request)
    return dict(request.headers.items())


class AdaptersTest(WorkerTest):
    gpu = "none"

    def url(self, name):
        return f"{self.worker.endpoint}/f/{name}"

    def test_starlette_by_mangum(self):
        source = """
from mangum import Mangum
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

async def item(request):
    body = await request.body()
    answer = JSONResponse({"id": request.path_params["id"], "q": request.query_params.getlist("q"),
                           "cookies": request.cookies, "size": len(body), "host": request.headers["host"]}, 201)
    answer.set_cookie("one", "1")
    answer.set_cookie("two", "2")
    return answer

async def picture(request):
    return Response(bytes(range(256)), media_type="image/png")

handler = Mangum(Starlette(routes=[Route("/items/{id}", item, methods=["GET", "POST"]), Route("/picture", picture)]))
"""
        self.worker.create("starlette", make_zip({"app.py": source, **packed(
            "mangum", "starlette", "anyio", "idna", "typing_extensions")}))
        status, headers, body = ask(self.url("starlette") + "/items/a%20b?q=1&q=x%26y", "POST", bytes(range(256)),
                                    {"Cookie": "a=1; b=2", "Content-Type": "application/octet-stream"})
        told = json.loads(body)
        self.assertEqual(status, 201)
        self.assertEqual((told["id"], told["cookies"], told["size"]), ("a b", {"a": "1", "b": "2"}, 256))
        self.assertEqual([cookie.partition(";")[0] for cookie in headers.get_all("Set-Cookie")], ["one=1", "two=2"])
        status, headers, body = ask(self.url("starlette") + "/picture")
        self.assertEqual((status, headers["Content-Type"], body), (200, "image/png", bytes(range(256))))
        self.assertEqual(ask(self.url("starlette") + "/nowhere")[0], 404)

    def test_fastapi_by_mangum(self):
        source = """
from fastapi import FastAPI
from mangum import Mangum
from pydantic import BaseModel

app = FastAPI()

class Pair(BaseModel):
    a: int
    b: int

@app.post("/add")
def add(pair: Pair):
    return {"sum": pair.a + pair.b}

handler = Mangum(app, lifespan="off")
"""
        self.worker.create("fastapi", make_zip({"app.py": source, **packed(
            "mangum", "fastapi", "starlette", "anyio", "idna", "typing_extensions", "pydantic", "pydantic_core",
            "annotated-types", "annotated-doc", "typing-inspection", "opentelemetry-api")}), memory=512)
        as_json = {"Content-Type": "application/json"}
        status, _, body = ask(self.url("fastapi") + "/add", "POST", b'{"a": 2, "b": 40}', as_json)
        self.assertEqual((status, json.loads(body)), (200, {"sum": 42}))
        self.assertEqual(ask(self.url("fastapi") + "/add", "POST", b'{"a": "x"}', as_json)[0], 422)

    FLASK = """
from flask import Flask, request, jsonify
app = Flask(__name__)

@app.route("/hello/<name>", methods=["GET", "POST"])
def hello(name):
    return jsonify(name=name, args=request.args, body=request.get_data(as_text=True), cookies=request.cookies)
"""
    FLASK_PACKAGES = ("Flask", "Werkzeug", "Jinja2", "MarkupSafe", "itsdangerous", "click", "blinker")

    def check_flask(self, name):
        status, _, body = ask(self.url(name) + "/hello/Ada?x=1", "POST", b"text", {"Content-Type": "text/plain",
                                                                                  "Cookie": "a=1"})
        self.assertEqual((status, json.loads(body)),
                         (200, {"name": "Ada", "args": {"x": "1"}, "body": "text", "cookies": {"a": "1"}}))

    def test_flask_by_serverless_wsgi(self):
        source = self.FLASK + ("import serverless_wsgi\n"
                               "def handler(event, context):\n    return serverless_wsgi.handle_request(app, event, context)\n")
        self.worker.create("serverless", make_zip({"app.py": source, **packed("serverless-wsgi", *self.FLASK_PACKAGES)}))
        self.check_flask("serverless")

    def test_flask_by_apig_wsgi(self):
        source = self.FLASK + "from apig_wsgi import make_lambda_handler\nhandler = make_lambda_handler(app)\n"
        self.worker.create("apig", make_zip({"app.py": source, **packed("apig-wsgi", *self.FLASK_PACKAGES)}))
        self.check_flask("apig")

    def test_events_and_results(self):
        self.worker.create_python("event", ECHO)
        event = json.loads(ask(self.url("event") + "/a%2Fb/?x=1", headers={"User-Agent": "test"})[2])
        self.assertEqual((event["version"], event["rawPath"], event["rawQueryString"]), ("2.0", "/a%2Fb/", "x=1"))
        self.assertEqual(event["requestContext"]["http"]["method"], "GET")
        self.assertEqual(event["requestContext"]["http"]["sourceIp"], "127.0.0.1")
        host = f"event.lambent.localhost:{self.worker.address[1]}"
        event = json.loads(ask(self.worker.endpoint + "/at/root", headers={"Host": host})[2])
        self.assertEqual((event["rawPath"], event["requestContext"]["domainName"]), ("/at/root", "event.lambent.localhost"))
        self.worker.create_python("plain", "def handler(e, c): return {'a': 1}")
        status, headers, body = ask(self.url("plain"))
        self.assertEqual((status, headers["Content-Type"], json.loads(body)), (200, "application/json", {"a": 1}))

    def test_failures_tell_nothing_but_the_request(self):
        self.worker.create_python("raises", "def handler(e, c): raise KeyError('a secret')")
        status, headers, body = ask(self.url("raises"), headers={"X-Amz-Log-Type": "Tail"})
        self.assertEqual(status, 502)
        self.assertEqual(json.loads(body), {"message": "Internal Server Error",
                                            "requestId": headers["X-Lambent-Invocation-Id"]})
        self.worker.create_python("malformed", "def handler(e, c): return {'statusCode': 'x'}")
        self.assertEqual(ask(self.url("malformed"))[0], 502)
        self.worker.create_python("slow", "import time\ndef handler(e, c): time.sleep(30)", timeout=1)
        self.assertEqual(ask(self.url("slow"))[0], 504)
        self.worker.create_python("dies", "import os\ndef handler(e, c): os._exit(1)")
        self.assertEqual(ask(self.url("dies"))[0], 502)
        self.assertEqual(ask(self.url("nobody"))[0], 404)

    def test_bodies_have_a_limit(self):
        self.worker.create_python("sized", "def handler(e, c): return len(e['body'])")
        most = 6 * 1024 * 1024
        as_text = {"Content-Type": "text/plain"}
        status, _, body = ask(self.url("sized"), "POST", b"x" * (most - 10000), as_text)
        self.assertEqual((status, body), (200, b"%d" % (most - 10000)))
        self.assertEqual(ask(self.url("sized"), "POST", b"x" * (most + 1), as_text)[0], 413)
        # As in Lambda it is the event that may have so much, and base64 has a third more.
        self.assertEqual(ask(self.url("sized"), "POST", b"x" * (5 * 1024 * 1024))[0], 413)

    def test_pages_of_other_origins_are_refused(self):
        self.worker.create_python("guarded", ECHO)
        self.assertEqual(ask(self.url("guarded"), headers={"Origin": "http://evil.example"})[0], 403)
        self.assertEqual(ask(self.url("guarded"), headers={"Sec-Fetch-Site": "cross-site"})[0], 403)
        self.assertIn("sandbox", ask(self.url("guarded"))[1]["Content-Security-Policy"])


class UrlConfigTest(WorkerTest):
    gpu = "none"

    def test_a_configuration_is_made_read_changed_and_deleted(self):
        client = client_of(self.worker.endpoint)
        self.worker.create_python("f", ECHO)
        with self.assertRaises(client.exceptions.ResourceNotFoundException):
            client.get_function_url_config(FunctionName="f")
        self.assertEqual(client.list_function_url_configs(FunctionName="f")["FunctionUrlConfigs"], [])
        made = client.create_function_url_config(FunctionName="f", AuthType="AWS_IAM")
        self.assertEqual((made["AuthType"], made["InvokeMode"]), ("AWS_IAM", "BUFFERED"))
        self.assertEqual(ask(made["FunctionUrl"] + "path")[0], 200)
        with self.assertRaises(client.exceptions.ResourceConflictException):
            client.create_function_url_config(FunctionName="f", AuthType="NONE")
        changed = client.update_function_url_config(FunctionName="f", AuthType="NONE", InvokeMode="RESPONSE_STREAM")
        self.assertEqual((changed["AuthType"], changed["InvokeMode"]), ("NONE", "RESPONSE_STREAM"))
        self.assertEqual(ask(changed["FunctionUrl"])[0], 200)
        read = client.get_function_url_config(FunctionName="f")
        self.assertEqual(read["FunctionUrl"], changed["FunctionUrl"])
        self.assertEqual(len(client.list_function_url_configs(FunctionName="f")["FunctionUrlConfigs"]), 1)
        client.delete_function_url_config(FunctionName="f")
        with self.assertRaises(client.exceptions.ResourceNotFoundException):
            client.delete_function_url_config(FunctionName="f")
        with self.assertRaises(client.exceptions.ResourceNotFoundException):
            client.update_function_url_config(FunctionName="f", AuthType="NONE")

    def test_what_is_not_there_is_refused(self):
        client = client_of(self.worker.endpoint)
        self.worker.create_python("g", ECHO)
        with self.assertRaises(client.exceptions.InvalidParameterValueException):
            client.create_function_url_config(FunctionName="g", AuthType="NONE", Cors={"AllowOrigins": ["no origin"]})
        with self.assertRaises(client.exceptions.InvalidParameterValueException):
            client.create_function_url_config(FunctionName="g", AuthType="NONE", Qualifier="live")
        with self.assertRaises(client.exceptions.ResourceNotFoundException):
            client.create_function_url_config(FunctionName="nobody", AuthType="NONE")


class TokensTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.held = TokenWorker(gpu="none")
        cls.worker, cls.operator = cls.held.worker, cls.held.operator
        cls.operator.create_tenant("red")
        cls.operator.create_tenant("blue")
        cls.red = cls.operator.create_token("red")
        cls.keys = {key: cls.red[key] for key in ("aws_access_key_id", "aws_secret_access_key")}
        cls.client = client_of(cls.worker.endpoint, cls.keys)

    @classmethod
    def tearDownClass(cls):
        stop_without_leftovers(cls.worker, cls.held.close)

    def create(self, name, source=ECHO):
        self.client.create_function(FunctionName=name, Runtime="python3", Role=ROLE, Handler="app.handler",
                                    Code={"ZipFile": make_zip({"app.py": source})})

    def signed(self, url, body=b"", key=None):
        return signed(url, body, key or self.keys.values())

    def test_a_url_takes_a_token_or_a_signature(self):
        self.create("closed")
        url = self.client.create_function_url_config(FunctionName="closed", AuthType="AWS_IAM")["FunctionUrl"]
        self.assertEqual(ask(url)[0], 401)
        self.assertEqual(ask(url, headers={"Authorization": "Bearer " + self.red["secret"]})[0], 200)
        for body in (b"", b"signed", b"x" * (1 << 20)):
            status, _, answer = ask(url + "path", "POST", body, self.signed(url + "path", body))
            self.assertEqual(status, 200, answer)
            event = json.loads(answer)
            self.assertEqual(event.get("body", ""), body.decode())
            self.assertNotIn("authorization", event["headers"])
        self.assertEqual(ask(url, "POST", b"other", self.signed(url, b"signed"))[0], 401)
        self.assertEqual(ask(url, "POST", b"", self.signed(url, key=(self.red["aws_access_key_id"], "wrong")))[0], 401)
        reader = self.operator.create_token("red", scopes=("read",))
        self.assertEqual(ask(url, headers={"Authorization": "Bearer " + reader["secret"]})[0], 403)
        blue = self.operator.create_token("blue")
        self.assertEqual(ask(url, headers={"Authorization": "Bearer " + blue["secret"]})[0], 404)

    def test_only_a_url_without_auth_is_open_to_everyone(self):
        self.create("open")
        path = f"{self.worker.endpoint}/t/red/f/open/"
        self.assertEqual(ask(path)[0], 401)
        url = self.client.create_function_url_config(FunctionName="open", AuthType="NONE")["FunctionUrl"]
        self.assertEqual(url, path)
        status, _, answer = ask(url + "hook", "POST", b"x", {"Authorization": "Basic abc", "Content-Type": "text/plain",
                                                             "X-Amz-Log-Type": "Tail"})
        self.assertEqual(status, 200)
        event = json.loads(answer)
        self.assertEqual((event["rawPath"], event["body"]), ("/hook", "x"))
        self.assertEqual(event["headers"]["authorization"], "Basic abc")
        # The other ways to it ask for a token as before, and so does every other function.
        self.assertEqual(ask(f"{self.worker.endpoint}/f/open/")[0], 401)
        self.assertEqual(ask(f"{self.worker.endpoint}/t/blue/f/open/")[0], 401)
        self.assertEqual(ask(f"{self.worker.endpoint}/t/red/f/nobody/")[0], 401)
        self.assertEqual(ask(f"{self.worker.endpoint}/t/nobody/f/open/")[0], 401)
        self.assertEqual(ask(url, headers={"Origin": "http://evil.example"})[0], 403)
        self.client.delete_function_url_config(FunctionName="open")
        self.assertEqual(ask(path)[0], 401)

    def test_a_path_with_a_tenant_is_for_those_of_it(self):
        self.create("of_red")
        path = f"{self.worker.endpoint}/t/red/f/of_red/"
        blue = self.operator.create_token("blue")
        self.assertEqual(ask(path, headers={"Authorization": "Bearer " + self.red["secret"]})[0], 200)
        self.assertEqual(ask(path, headers={"Authorization": "Bearer " + blue["secret"]})[0], 403)

    def test_a_signature_does_not_reach_an_http_function(self):
        caller = self.operator.caller("red")
        server = "from http.server import *\nimport os\nHTTPServer(('127.0.0.1', int(os.environ['PORT'])), BaseHTTPRequestHandler).serve_forever()"
        caller.create("server", make_zip({"server.py": server}), handler="python3 server.py", tags={"lambent:kind": "http"})
        url = f"{self.worker.endpoint}/f/server/"
        self.assertEqual(ask(url, "POST", b"x", self.signed(url, b"x"))[0], 401)


class ClusterTest(unittest.TestCase):
    def test_signed_requests_with_bodies_are_passed_on_whole(self):
        cluster = Cluster(self, names="ab", flags=("--auth", "tokens"))
        operators = cluster.operators()
        operators["a"].create_tenant("red")
        cluster.wait_for(lambda: "red" in [each["name"] for each in operators["b"].request("GET", "/v1/tenants").json["tenants"]])
        Caller(cluster["a"], operators["a"].create_token("red")["secret"]).create_python("echo", ECHO)
        operators["b"].request("POST", "/v1/cluster/nodes/b/drain")
        token = operators["b"].create_token("red")
        url = f"{cluster['b'].endpoint}/f/echo/path"
        for body in (b"", b"signed", b"x" * (1 << 20)):
            status, _, answer = ask(url, "POST", body, signed(url, body, (token["aws_access_key_id"], token["aws_secret_access_key"])))
            self.assertEqual(status, 200, answer)
            self.assertEqual(json.loads(answer).get("body", ""), body.decode())
        self.assertGreaterEqual(operators["b"].request("GET", "/v1/cluster").json["requests"]["forwarded"], 3)


if __name__ == "__main__":
    unittest.main()
