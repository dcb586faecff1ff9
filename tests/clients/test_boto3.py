"""boto3 as users have it: typed exceptions, waiters, paginators, retries."""
import base64
import json
import unittest

import boto3
import botocore
from botocore.config import Config

from harness import WorkerTest, make_zip

ECHO = make_zip({"app.py": "def handler(event, context):\n  print('heard', event)\n  return {'heard': event}"})


class Boto3Test(WorkerTest):
    def setUp(self):
        self.client = boto3.client(
            "lambda", endpoint_url=self.worker.endpoint, region_name="us-east-1", aws_access_key_id="any",
            aws_secret_access_key="any", config=Config(retries={"max_attempts": 2}))

    def create(self, name, zipped=ECHO, **options):
        return self.client.create_function(
            FunctionName=name, Runtime="python3.11", Role="arn:aws:iam::123456789012:role/r", Handler="app.handler",
            Code={"ZipFile": zipped}, **options)

    def test_create_wait_invoke_delete(self):
        made = self.create("echo", Timeout=5, MemorySize=256, Environment={"Variables": {"COLOUR": "blue"}})
        self.assertEqual(made["FunctionName"], "echo")
        self.client.get_waiter("function_active_v2").wait(FunctionName="echo")
        answer = self.client.invoke(FunctionName="echo", Payload=json.dumps({"n": 1}), LogType="Tail")
        self.assertEqual(answer["StatusCode"], 200)
        self.assertEqual(answer["ExecutedVersion"], "$LATEST")
        self.assertNotIn("FunctionError", answer)
        self.assertEqual(json.load(answer["Payload"]), {"heard": {"n": 1}})
        self.assertIn(b"heard", base64.b64decode(answer["LogResult"]))
        by_arn = self.client.invoke(FunctionName=made["FunctionArn"], Payload=b"{}")
        self.assertEqual(by_arn["StatusCode"], 200)
        self.client.delete_function(FunctionName="echo")
        with self.assertRaises(self.client.exceptions.ResourceNotFoundException):
            self.client.get_function(FunctionName="echo")

    def test_errors_are_typed(self):
        self.create("once")
        with self.assertRaises(self.client.exceptions.ResourceConflictException):
            self.create("once")
        with self.assertRaises(self.client.exceptions.ResourceNotFoundException):
            self.client.invoke(FunctionName="nobody", Payload=b"{}")
        with self.assertRaises(self.client.exceptions.InvalidParameterValueException):
            self.create("badzip", b"no zip at all")
        with self.assertRaises(self.client.exceptions.RequestTooLargeException):
            self.client.invoke(FunctionName="once", Payload=b" " * (6 * 1024 * 1024 + 1))

    def test_a_function_error_keeps_status_200(self):
        self.create("raises", make_zip({"app.py": "def handler(e, c): raise KeyError('missing')"}))
        answer = self.client.invoke(FunctionName="raises", Payload=b"{}")
        self.assertEqual((answer["StatusCode"], answer["FunctionError"]), (200, "Unhandled"))
        self.assertEqual(json.load(answer["Payload"])["errorType"], "KeyError")

    def test_event_and_dry_run(self):
        self.create("async")
        self.assertEqual(self.client.invoke(FunctionName="async", InvocationType="Event", Payload=b"{}")["StatusCode"], 202)
        self.assertEqual(self.client.invoke(FunctionName="async", InvocationType="DryRun")["StatusCode"], 204)

    def test_update_code_and_configuration(self):
        self.create("changing")
        self.client.update_function_code(FunctionName="changing",
                                         ZipFile=make_zip({"app.py": "def handler(e, c): return 'new'"}))
        self.client.get_waiter("function_updated_v2").wait(FunctionName="changing")
        self.assertEqual(json.load(self.client.invoke(FunctionName="changing", Payload=b"{}")["Payload"]), "new")
        changed = self.client.update_function_configuration(FunctionName="changing", Timeout=7, MemorySize=192)
        self.assertEqual((changed["Timeout"], changed["MemorySize"]), (7, 192))
        self.assertEqual(self.client.get_function_configuration(FunctionName="changing")["Timeout"], 7)

    def test_listing_pages(self):
        for number in range(7):
            self.create(f"listed-{number}")
        pages = self.client.get_paginator("list_functions").paginate(PaginationConfig={"PageSize": 3})
        names = [each["FunctionName"] for page in pages for each in page["Functions"]]
        self.assertEqual(sorted(names), names)
        self.assertTrue({f"listed-{number}" for number in range(7)} <= set(names))

    def test_what_is_not_there_is_refused_clearly(self):
        self.create("versioned")
        with self.assertRaises(botocore.exceptions.ClientError) as caught:
            self.client.put_provisioned_concurrency_config(FunctionName="versioned", Qualifier="1",
                                                           ProvisionedConcurrentExecutions=1)
        self.assertIn("not", caught.exception.response["Error"]["Message"].lower())


if __name__ == "__main__":
    unittest.main()
