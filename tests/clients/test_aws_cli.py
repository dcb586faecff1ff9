"""The aws cli as users have it."""
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

from harness import WorkerTest, make_zip


class AwsCliTest(WorkerTest):
    def aws(self, *arguments, check=True):
        result = subprocess.run(
            [os.environ["VENV"] + "/bin/aws", "--endpoint-url", self.worker.endpoint, "--region", "us-east-1", "lambda",
             *arguments], capture_output=True, text=True, timeout=60,
            env={**os.environ, "AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "any", "AWS_PAGER": ""})
        if check:
            self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def test_the_tour(self):
        with tempfile.TemporaryDirectory() as folder:
            package = pathlib.Path(folder) / "code.zip"
            package.write_bytes(make_zip({"app.py": "def handler(e, c): return {'sum': e['a'] + e['b']}"}))
            made = json.loads(self.aws("create-function", "--function-name", "add", "--runtime", "python3", "--role",
                                       "arn:aws:iam::123456789012:role/r", "--handler", "app.handler", "--zip-file",
                                       f"fileb://{package}").stdout)
            self.assertEqual(made["State"], "Active")
            answer = pathlib.Path(folder) / "answer.json"
            printed = json.loads(self.aws("invoke", "--function-name", "add", "--payload", '{"a": 2, "b": 40}',
                                          str(answer)).stdout)
            self.assertEqual(printed["StatusCode"], 200)
            self.assertEqual(json.loads(answer.read_text()), {"sum": 42})
            listed = json.loads(self.aws("list-functions").stdout)
            self.assertEqual([each["FunctionName"] for each in listed["Functions"]], ["add"])
            self.aws("delete-function", "--function-name", "add")
            missing = self.aws("get-function", "--function-name", "add", check=False)
            self.assertNotEqual(missing.returncode, 0)
            self.assertIn("ResourceNotFoundException", missing.stderr)


if __name__ == "__main__":
    unittest.main()
