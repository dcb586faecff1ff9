"""boto3 and the aws cli, unmodified, against a worker that wants tokens: they sign with a token's keys."""
import datetime
import json
import os
import pathlib
import subprocess
import tempfile
import unittest
import unittest.mock

import boto3
import botocore.auth
from botocore.config import Config
from botocore.exceptions import ClientError

from harness import make_zip, stop_without_leftovers
from tenants import TokenWorker

ADD = make_zip({"app.py": "def handler(e, c): return {'sum': e['a'] + e['b']}"})
ROLE = "arn:aws:iam::123456789012:role/r"
# Above what the worker hashes on its loop.
LARGE = json.dumps({"a": 1, "b": 2, "filling": "x" * (1 << 20)})


class SignedTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.held = TokenWorker(gpu="none")
        cls.worker, cls.operator = cls.held.worker, cls.held.operator
        for tenant in ("red", "azure"):
            cls.operator.create_tenant(tenant)
        cls.token = cls.operator.create_token("red")

    @classmethod
    def tearDownClass(cls):
        stop_without_leftovers(cls.worker, cls.held.close)

    def client(self, token=None, secret=None, region="us-east-1"):
        token = token or self.token
        return boto3.client("lambda", endpoint_url=self.worker.endpoint, region_name=region,
                            aws_access_key_id=token["aws_access_key_id"],
                            aws_secret_access_key=secret or token["aws_secret_access_key"],
                            config=Config(retries={"max_attempts": 1}))

    def create(self, client, name, **options):
        return client.create_function(FunctionName=name, Runtime="python3", Role=ROLE, Handler="app.handler",
                                      Code={"ZipFile": ADD}, **options)

    def refusal_of(self, client):
        with self.assertRaises(ClientError) as caught:
            client.list_functions()
        return caught.exception.response["Error"]["Code"], caught.exception.response["Error"]["Message"]

    def test_boto3_creates_invokes_lists_tags_and_deletes(self):
        client = self.client()
        made = self.create(client, "add", Tags={"a b": "c/d+e"}, Environment={"Variables": {"X": "ü"}})
        for payload in (json.dumps({"a": 2, "b": 40}), LARGE):
            answer = client.invoke(FunctionName="add", Payload=payload)
            self.assertIn("sum", json.load(answer["Payload"]))
        client.invoke(FunctionName=made["FunctionArn"], Payload=LARGE)
        self.assertEqual([each["FunctionName"] for each in client.list_functions(MaxItems=5)["Functions"]], ["add"])
        client.tag_resource(Resource=made["FunctionArn"], Tags={"k": "v"})
        self.assertEqual(client.list_tags(Resource=made["FunctionArn"])["Tags"]["k"], "v")
        client.untag_resource(Resource=made["FunctionArn"], TagKeys=["k", "a b"])
        client.update_function_configuration(FunctionName="add", Timeout=9)
        self.assertEqual(client.invoke(FunctionName="add", InvocationType="Event", Payload=b"{}")["StatusCode"], 202)
        client.delete_function(FunctionName="add")
        with self.assertRaises(client.exceptions.ResourceNotFoundException):
            client.get_function(FunctionName="add")

    def test_any_region_is_taken(self):
        self.assertEqual(self.client(region="eu-central-1").list_functions()["ResponseMetadata"]["HTTPStatusCode"], 200)

    def test_two_tenants_have_functions_of_the_same_name(self):
        red, azure = self.client(), self.client(self.operator.create_token("azure"))
        for client in (red, azure):
            self.create(client, "same")
        red.delete_function(FunctionName="same")
        self.assertEqual(json.load(azure.invoke(FunctionName="same", Payload=b'{"a": 1, "b": 1}')["Payload"]), {"sum": 2})
        azure.delete_function(FunctionName="same")

    def test_wrong_keys_are_refused_by_the_types_of_aws(self):
        self.assertEqual(self.refusal_of(self.client(secret="wrong"))[0], "InvalidSignatureException")
        self.assertEqual(self.refusal_of(self.client({"aws_access_key_id": "LAMBAAAAAAAAAAAAAAAA", "aws_secret_access_key": "x"}))[0],
                         "UnrecognizedClientException")
        self.assertEqual(self.refusal_of(self.client({"aws_access_key_id": "any", "aws_secret_access_key": "any"}))[0],
                         "UnrecognizedClientException")
        # A bearer secret is no signing secret.
        self.assertEqual(self.refusal_of(self.client(secret=self.token["secret"]))[0], "InvalidSignatureException")
        other = self.operator.create_token("azure")
        self.assertEqual(self.refusal_of(self.client(secret=other["aws_secret_access_key"]))[0], "InvalidSignatureException")

    def test_expired_and_revoked_keys_are_refused(self):
        token = self.operator.create_token("red", lifetime=1)
        client = self.client(token)
        self.worker.wait_for(lambda: self.is_refused(client), what="the end of the token")
        code, message = self.refusal_of(client)
        self.assertEqual(code, "UnrecognizedClientException")
        self.assertIn("has expired", message)
        token = self.operator.create_token("red")
        client = self.client(token)
        client.list_functions()
        self.operator.request("DELETE", f"/v1/tenants/red/tokens/{token['id']}")
        self.assertEqual(self.refusal_of(client)[0], "UnrecognizedClientException")

    def is_refused(self, client):
        try:
            client.list_functions()
        except ClientError:
            return True
        return False

    def test_a_clock_that_is_ten_minutes_off_is_told_so(self):
        for minutes in (-10, 10):
            now = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(minutes=minutes)
            with unittest.mock.patch.object(botocore.auth, "get_current_datetime",
                                            lambda remove_tzinfo=True, at=now: at.replace(tzinfo=None) if remove_tzinfo else at):
                code, message = self.refusal_of(self.client())
            self.assertEqual(code, "InvalidSignatureException")
            self.assertIn("more than 5 minutes from the worker's clock", message)
        for minutes in (-4, 4):
            now = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(minutes=minutes)
            with unittest.mock.patch.object(botocore.auth, "get_current_datetime",
                                            lambda remove_tzinfo=True, at=now: at.replace(tzinfo=None) if remove_tzinfo else at):
                self.client().list_functions()

    def test_scopes_hold_for_signatures_too(self):
        reader = self.client(self.operator.create_token("red", scopes=["read"]))
        reader.list_functions()
        with self.assertRaises(ClientError) as caught:
            self.create(reader, "no")
        self.assertEqual(caught.exception.response["Error"]["Code"], "AccessDeniedException")
        self.assertIn("this needs one of deploy", caught.exception.response["Error"]["Message"])

    def test_what_was_changed_on_its_way_or_signed_for_something_else_is_refused(self):
        client = self.client()
        self.create(client, "add")
        self.addCleanup(client.delete_function, FunctionName="add")

        def tampered(request, **_):
            request.body = b'{"a": 1, "b": 1000}'
        client.meta.events.register("before-send.lambda.Invoke", tampered)
        with self.assertRaises(ClientError) as caught:
            client.invoke(FunctionName="add", Payload=b'{"a": 1, "b": 1}')
        self.assertEqual(caught.exception.response["Error"]["Code"], "InvalidSignatureException")
        client.meta.events.unregister("before-send.lambda.Invoke", tampered)

        def as_another(request, **_):
            request.headers["X-Lambent-Tenant"] = "azure"
        client.meta.events.register("before-send.lambda.Invoke", as_another)
        with self.assertRaises(ClientError):
            client.invoke(FunctionName="add", Payload=b'{"a": 1, "b": 1}')

    def test_a_request_that_was_recorded_runs_once(self):
        client = self.client()
        recorded = []
        client.create_function(FunctionName="counts", Runtime="python3", Role=ROLE, Handler="app.handler", Code={"ZipFile": make_zip(
            {"app.py": "n = 0\ndef handler(e, c):\n    global n\n    n += 1\n    return n\n"})})
        self.addCleanup(client.delete_function, FunctionName="counts")
        client.meta.events.register("before-send.lambda.Invoke", lambda request, **_: recorded.append(request))
        self.assertEqual(json.load(client.invoke(FunctionName="counts", Payload=b"{}")["Payload"]), 1)
        request = recorded[0]
        path = request.url.removeprefix(self.worker.endpoint)
        headers = {key: value.decode() if isinstance(value, bytes) else value for key, value in request.headers.items()}
        for _ in range(3):
            self.assertEqual(self.worker.request("POST", path, request.body, headers).json, 1)
        self.assertEqual(json.load(client.invoke(FunctionName="counts", Payload=b"{}")["Payload"]), 2)

    def aws(self, *arguments, token=None, check=True):
        token = token or self.token
        result = subprocess.run(
            [os.environ["VENV"] + "/bin/aws", "lambda", *arguments], capture_output=True, text=True, timeout=120,
            env={**os.environ, "AWS_ENDPOINT_URL_LAMBDA": self.worker.endpoint, "AWS_DEFAULT_REGION": "us-east-1", "AWS_PAGER": "",
                 "AWS_ACCESS_KEY_ID": token["aws_access_key_id"], "AWS_SECRET_ACCESS_KEY": token["aws_secret_access_key"]})
        if check:
            self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def test_the_aws_cli_takes_the_lines_that_a_new_token_comes_with(self):
        with tempfile.TemporaryDirectory() as folder:
            package, answer = pathlib.Path(folder) / "code.zip", pathlib.Path(folder) / "answer.json"
            package.write_bytes(ADD)
            self.aws("create-function", "--function-name", "by-cli", "--runtime", "python3", "--role", ROLE, "--handler", "app.handler",
                     "--zip-file", f"fileb://{package}")
            self.aws("invoke", "--function-name", "by-cli", "--payload", '{"a": 2, "b": 40}', str(answer))
            self.assertEqual(json.loads(answer.read_text()), {"sum": 42})
            self.assertIn("by-cli", self.aws("list-functions").stdout)
            self.aws("delete-function", "--function-name", "by-cli")
            wrong = self.aws("list-functions", token={**self.token, "aws_secret_access_key": "wrong"}, check=False)
            self.assertIn("InvalidSignatureException", wrong.stderr)


if __name__ == "__main__":
    unittest.main()
