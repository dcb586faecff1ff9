"""boto3 and the aws cli over HTTPS, unmodified: their own verification, by an authority that they are given."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from certificates import Authority
from harness import Worker, make_zip

VENV = os.environ["VENV"]
CODE = make_zip({"app.py": "def handler(event, context):\n    return event['n'] + 1\n"})
BOTO3 = """
import sys, boto3
endpoint, ca = sys.argv[1:]
client = boto3.client("lambda", endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id="a",
                      aws_secret_access_key="b", verify=ca)
client.create_function(FunctionName="next", Runtime="python3", Handler="app.handler", Role="arn:aws:iam::0:role/any",
                       Code={"ZipFile": sys.stdin.buffer.read()})
for n in range(20):
    answer = client.invoke(FunctionName="next", Payload=b'{"n": %d}' % n)["Payload"].read()
    assert answer == b"%d" % (n + 1), answer
print("good")
"""


class AwsOverTls(unittest.TestCase):
    def setUp(self):
        folder = tempfile.mkdtemp(prefix="lambent-tls-")
        self.addCleanup(shutil.rmtree, folder, True)
        self.authority = Authority(folder)
        certificate, key = self.authority.issue("worker")
        self.worker = Worker("--tls-certificate", str(certificate), "--tls-key", str(key), gpu="none",
                             tls=self.authority.context())
        self.addCleanup(self.worker.close)

    def boto3(self, ca):
        return subprocess.run([VENV + "/bin/python", "-c", BOTO3, self.worker.endpoint, str(ca)], input=CODE,
                              capture_output=True, timeout=120)

    def test_boto3(self):
        done = self.boto3(self.authority.certificate)
        self.assertEqual(done.stdout, b"good\n", done.stderr)

    def test_boto3_refuses_an_unknown_authority(self):
        done = self.boto3(Authority(self.authority.folder, "stranger").certificate)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(b"CERTIFICATE_VERIFY_FAILED", done.stderr)

    def test_the_aws_cli(self):
        self.assertEqual(self.boto3(self.authority.certificate).stdout, b"good\n")
        environment = {**os.environ, "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_DEFAULT_REGION": "us-east-1",
                       "AWS_CA_BUNDLE": str(self.authority.certificate)}
        answer = pathlib.Path(self.authority.folder, "answer")
        done = subprocess.run([VENV + "/bin/aws", "--endpoint-url", self.worker.endpoint, "lambda", "invoke", "--function-name",
                               "next", "--payload", json.dumps({"n": 41}), str(answer)],
                              capture_output=True, timeout=120, env=environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(answer.read_bytes(), b"42")


if __name__ == "__main__":
    unittest.main()
