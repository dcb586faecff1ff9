"""boto3 as users have it: typed exceptions, waiters, paginators, retries."""
import base64
import json
import time
import unittest

import boto3
import botocore
from botocore import xform_name
from botocore.config import Config
from botocore.exceptions import ClientError

from harness import HttpError, WorkerTest, make_zip

ECHO = make_zip({"app.py": "def handler(event, context):\n  print('heard', event)\n  return {'heard': event}"})


class Boto3Test(WorkerTest):
    def setUp(self):
        self.client = boto3.client(
            "lambda", endpoint_url=self.worker.endpoint, region_name="us-east-1", aws_access_key_id="any",
            aws_secret_access_key="any", config=Config(retries={"max_attempts": 2}))

    def create(self, name, zipped=ECHO, **options):
        return self.client.create_function(
            FunctionName=name, Runtime="python3", Role="arn:aws:iam::123456789012:role/r", Handler="app.handler",
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

    def test_every_operation_that_the_client_knows_is_answered_or_refused_by_name(self):
        self.create("asked")
        client = boto3.client("lambda", endpoint_url=self.worker.endpoint, region_name="us-east-1", aws_access_key_id="any",
                              aws_secret_access_key="any", config=Config(retries={"max_attempts": 1}, parameter_validation=False))
        model = client.meta.service_model
        self.assertGreater(len(model.operation_names), 80)
        for operation in model.operation_names:
            shape = model.operation_model(operation).input_shape
            values = {"FunctionName": "asked", "Qualifier": "1", "VersionNumber": 1}
            given = {name: values.get(name, "x") for name, member in (shape.members if shape else {}).items()
                     if member.serialization.get("location") == "uri"}
            with self.subTest(operation):
                try:
                    getattr(client, xform_name(operation))(**given)
                except ClientError as error:
                    said = error.response["Error"]
                    self.assertNotIn(said["Code"], ("UnknownOperationException", "MethodNotAllowedException", "ServiceException"), said)
                    self.assertEqual(said["Code"] == "NotImplementedException",
                                     error.response["ResponseMetadata"]["HTTPStatusCode"] == 501, said)

    def test_what_no_function_has_is_not_there(self):
        self.create("plain")
        with self.assertRaises(self.client.exceptions.ResourceNotFoundException):
            self.client.get_policy(FunctionName="plain")
        self.assertEqual(self.client.get_function_code_signing_config(FunctionName="plain")["CodeSigningConfigArn"], "")
        self.assertEqual(list(self.client.get_paginator("list_event_source_mappings").paginate().search("EventSourceMappings")), [])
        with self.assertRaisesRegex(ClientError, "tokens say who may invoke"):
            self.client.add_permission(FunctionName="plain", StatementId="s", Action="lambda:InvokeFunction", Principal="*")

    def test_other_services_of_aws_are_refused_in_their_own_form(self):
        for service, operation in (("sts", "get_caller_identity"), ("s3", "list_buckets"), ("logs", "describe_log_groups")):
            other = boto3.client(service, endpoint_url=self.worker.endpoint, region_name="us-east-1", aws_access_key_id="any",
                                 aws_secret_access_key="any", config=Config(retries={"max_attempts": 1}))
            with self.subTest(service), self.assertRaisesRegex(ClientError, "NotImplementedException.*Lambda's API only"):
                getattr(other, operation)()

    def test_event_invoke_config_tries_again_and_tells_a_destination(self):
        told = make_zip({"app.py": "def handler(event, context):\n  print('TOLD', event['requestContext']['condition'], event['requestPayload']['n'])"})
        fails = make_zip({"app.py": "def handler(event, context):\n  raise ValueError(event['n'])"})
        alarm = self.create("alarm", told)
        self.create("flaky", fails)
        client, missing = self.client, self.client.exceptions.ResourceNotFoundException
        with self.assertRaises(missing):
            client.get_function_event_invoke_config(FunctionName="flaky")
        put = client.put_function_event_invoke_config(
            FunctionName="flaky", MaximumRetryAttempts=0, MaximumEventAgeInSeconds=60,
            DestinationConfig={"OnFailure": {"Destination": alarm["FunctionArn"]}})
        self.assertEqual(put["DestinationConfig"]["OnFailure"]["Destination"], alarm["FunctionArn"])
        self.assertLess(abs(put["LastModified"].timestamp() - time.time()), 60)
        client.update_function_event_invoke_config(FunctionName="flaky", MaximumEventAgeInSeconds=120)
        got = client.get_function_event_invoke_config(FunctionName="flaky", Qualifier="$LATEST")
        self.assertEqual((got["MaximumRetryAttempts"], got["MaximumEventAgeInSeconds"]), (0, 120))
        pages = client.get_paginator("list_function_event_invoke_configs").paginate(FunctionName="flaky")
        self.assertEqual([each["MaximumRetryAttempts"] for page in pages for each in page["FunctionEventInvokeConfigs"]], [0])
        for wrong in ({"MaximumRetryAttempts": 3}, {"DestinationConfig": {"OnSuccess": {"Destination": "arn:aws:sqs:us-east-1:123456789012:q"}}}, {}):
            with self.assertRaises(client.exceptions.InvalidParameterValueException):
                client.put_function_event_invoke_config(FunctionName="flaky", **wrong)
        self.assertEqual(client.invoke(FunctionName="flaky", InvocationType="Event", Payload=b'{"n": 7}')["StatusCode"], 202)
        self.worker.wait_for(lambda: b"TOLD RetriesExhausted 7" in self.worker.request("GET", "/v1/functions/alarm/log").body, what="the record")
        client.delete_function_event_invoke_config(FunctionName="flaky")
        with self.assertRaises(missing):
            client.get_function_event_invoke_config(FunctionName="flaky")

    def test_a_function_error_keeps_status_200(self):
        self.create("raises", make_zip({"app.py": "def handler(e, c): raise KeyError('missing')"}))
        answer = self.client.invoke(FunctionName="raises", Payload=b"{}")
        self.assertEqual((answer["StatusCode"], answer["FunctionError"]), (200, "Unhandled"))
        self.assertEqual(json.load(answer["Payload"])["errorType"], "KeyError")

    def test_provisioned_concurrency_of_a_version_and_of_an_alias_that_moves(self):
        self.create("warm", Publish=True)
        self.client.get_waiter("published_version_active").wait(FunctionName="warm", Qualifier="1")
        put, get = self.client.put_provisioned_concurrency_config, self.client.get_provisioned_concurrency_config

        def wait(qualifier, count):
            for _ in range(600):
                config = get(FunctionName="warm", Qualifier=qualifier)
                if config["Status"] == "READY":
                    break
                time.sleep(0.05)
            self.assertEqual((config["Status"], config["AvailableProvisionedConcurrentExecutions"]), ("READY", count), config)

        with self.assertRaises(self.client.exceptions.ProvisionedConcurrencyConfigNotFoundException):
            get(FunctionName="warm", Qualifier="1")
        self.assertEqual(put(FunctionName="warm", Qualifier="1", ProvisionedConcurrentExecutions=2)["RequestedProvisionedConcurrentExecutions"], 2)
        wait("1", 2)
        answer = self.client.invoke(FunctionName="warm", Qualifier="1", Payload=b"{}")
        self.assertEqual(answer["ResponseMetadata"]["HTTPHeaders"]["x-lambent-start"], "warm")
        self.client.create_alias(FunctionName="warm", Name="prod", FunctionVersion="1")
        with self.assertRaises(self.client.exceptions.ClientError):
            put(FunctionName="warm", Qualifier="prod", ProvisionedConcurrentExecutions=1)  # the version has some by its number
        self.client.delete_provisioned_concurrency_config(FunctionName="warm", Qualifier="1")
        put(FunctionName="warm", Qualifier="prod", ProvisionedConcurrentExecutions=1)
        wait("prod", 1)
        self.client.update_function_code(FunctionName="warm", Publish=True, ZipFile=make_zip({"app.py": "def handler(event, context):\n  return 2"}))
        self.client.update_alias(FunctionName="warm", Name="prod", FunctionVersion="2")
        wait("prod", 1)
        answer = self.client.invoke(FunctionName="warm", Qualifier="prod", Payload=b"{}")
        self.assertEqual((answer["Payload"].read(), answer["ResponseMetadata"]["HTTPHeaders"]["x-lambent-start"]), (b"2", "warm"))
        configs = self.client.list_provisioned_concurrency_configs(FunctionName="warm")["ProvisionedConcurrencyConfigs"]
        self.assertEqual([config["FunctionArn"].rpartition(":")[2] for config in configs], ["prod"])
        with self.assertRaises(self.client.exceptions.InvalidParameterValueException):
            put(FunctionName="warm", Qualifier="$LATEST", ProvisionedConcurrentExecutions=1)
        with self.assertRaises(self.client.exceptions.ClientError):
            put(FunctionName="warm", Qualifier="prod", ProvisionedConcurrentExecutions=1000)  # more than the worker has
        self.client.delete_alias(FunctionName="warm", Name="prod")
        self.assertEqual(self.client.list_provisioned_concurrency_configs(FunctionName="warm")["ProvisionedConcurrencyConfigs"], [])

    def test_cors_of_a_url(self):
        self.create("pages")
        cors = {"AllowOrigins": ["https://app.example.org"], "AllowMethods": ["PUT"], "AllowHeaders": ["x-a"], "MaxAge": 60}
        made = self.client.create_function_url_config(FunctionName="pages", AuthType="NONE", Cors=cors)
        self.assertEqual(made["Cors"], cors)
        self.assertEqual(self.client.get_function_url_config(FunctionName="pages")["Cors"], cors)
        with self.assertRaises(self.client.exceptions.InvalidParameterValueException):
            self.client.update_function_url_config(FunctionName="pages", Cors={"AllowOrigins": ["*"], "AllowCredentials": True})
        path = "/" + made["FunctionUrl"].split("/", 3)[3]
        page = {"Origin": "https://app.example.org", "Sec-Fetch-Site": "cross-site"}
        asked = self.worker.request("OPTIONS", path, headers={**page, "Access-Control-Request-Method": "PUT", "Access-Control-Request-Headers": "x-a"})
        self.assertEqual((asked.status, asked.headers["access-control-allow-methods"], asked.headers["access-control-allow-headers"]), (204, "PUT", "x-a"))
        answer = self.worker.request("PUT", path, "{}", headers=page)
        self.assertEqual(answer.headers["access-control-allow-origin"], "https://app.example.org")
        for method, target, headers in [("POST", path, page), ("PUT", path, {**page, "Origin": "https://evil.example"}),
                                        ("PUT", "/v1/functions/pages/invocations", page), ("GET", "/v1/functions", page)]:
            with self.assertRaises(HttpError) as refused:
                self.worker.request(method, target, "{}", headers=headers)
            self.assertEqual(refused.exception.status, 403)
        self.client.update_function_url_config(FunctionName="pages", Cors={})
        self.assertNotIn("Cors", self.client.get_function_url_config(FunctionName="pages"))
        with self.assertRaises(HttpError):
            self.worker.request("PUT", path, "{}", headers=page)

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

    def publish(self, name, files, **options):
        return self.client.publish_layer_version(LayerName=name, Content={"ZipFile": make_zip(files)}, **options)

    def test_layers_lie_under_opt_in_their_order(self):
        base = self.publish("base", {"python/words.py": "WORD = 'base'", "python/only.py": "WORD = 'only'",
                                     "bin/tool": "base"}, Description="of all", CompatibleRuntimes=["python3.11"],
                            LicenseInfo="MIT")
        self.assertEqual((base["Version"], base["Description"], base["CompatibleRuntimes"], base["LicenseInfo"]),
                         (1, "of all", ["python3.11"], "MIT"))
        self.assertEqual(base["LayerVersionArn"], base["LayerArn"] + ":1")
        top = self.publish("top", {"python/words.py": "WORD = 'top'"})
        code = make_zip({"app.py": "import only, words\nimport os\ndef handler(event, context):\n"
                                   "  return [words.WORD, only.WORD, open('/opt/bin/tool').read(), os.path.exists('/opt/python/own.py')]"})
        both = [base["LayerVersionArn"], top["LayerVersionArn"]]
        made = self.create("layered", code, Layers=both)
        self.assertEqual([each["Arn"] for each in made["Layers"]], both)
        answer = self.client.invoke(FunctionName="layered", Payload=b"{}")
        self.assertEqual(json.load(answer["Payload"]), ["top", "only", "base", False])
        self.client.update_function_configuration(FunctionName="layered", Layers=list(reversed(both)))
        answer = self.client.invoke(FunctionName="layered", Payload=b"{}")
        self.assertEqual(json.load(answer["Payload"]), ["base", "only", "base", False])
        # Another setting leaves them, and so does the end of a version.
        self.client.delete_layer_version(LayerName="base", VersionNumber=1)
        self.client.update_function_code(FunctionName="layered", ZipFile=code)
        answer = self.client.invoke(FunctionName="layered", Payload=b"{}")
        self.assertEqual(json.load(answer["Payload"]), ["base", "only", "base", False])
        configuration = self.client.get_function_configuration(FunctionName="layered")
        self.assertEqual([each["Arn"] for each in configuration["Layers"]], list(reversed(both)))
        self.client.update_function_configuration(FunctionName="layered", Layers=[])
        self.assertNotIn("Layers", self.client.get_function_configuration(FunctionName="layered"))
        answer = self.client.invoke(FunctionName="layered", Payload=b"{}")
        self.assertIn("No module named", json.load(answer["Payload"])["errorMessage"])

    def test_a_function_without_layers_sees_none_beside_one_that_has_some(self):
        layer = self.publish("hidden", {"python/hidden.py": "WORD = 1"})
        code = make_zip({"app.py": "def handler(event, context):\n  import hidden\n  return hidden.WORD"})
        self.create("with-layer", code, Layers=[layer["LayerVersionArn"]])
        self.create("without-layer", code)
        for _ in range(2):
            answer = self.client.invoke(FunctionName="with-layer", Payload=b"{}")
            self.assertEqual(json.load(answer["Payload"]), 1)
            answer = self.client.invoke(FunctionName="without-layer", Payload=b"{}")
            self.assertIn("No module named", json.load(answer["Payload"])["errorMessage"])

    def test_layers_are_listed_and_deleted(self):
        for number in range(3):
            self.publish("many", {"python/x.py": str(number)}, CompatibleRuntimes=["python3.9"] if number == 1 else [])
        self.publish("single", {"lib/x": "x"})
        pages = self.client.get_paginator("list_layer_versions").paginate(LayerName="many",
                                                                          PaginationConfig={"PageSize": 2})
        self.assertEqual([each["Version"] for page in pages for each in page["LayerVersions"]], [3, 2, 1])
        only = self.client.list_layer_versions(LayerName="many", CompatibleRuntime="python3.9")
        self.assertEqual([each["Version"] for each in only["LayerVersions"]], [2])
        latest = {each["LayerName"]: each["LatestMatchingVersion"]["Version"]
                  for each in self.client.list_layers()["Layers"]}
        self.assertEqual((latest["many"], latest["single"]), (3, 1))
        got = self.client.get_layer_version(LayerName="many", VersionNumber=2)
        by_arn = self.client.get_layer_version_by_arn(Arn=got["LayerVersionArn"])
        self.assertEqual(by_arn["Content"], got["Content"])
        self.assertGreater(got["Content"]["CodeSize"], 0)
        self.client.delete_layer_version(LayerName="many", VersionNumber=3)
        self.client.delete_layer_version(LayerName="many", VersionNumber=3)
        with self.assertRaises(self.client.exceptions.ResourceNotFoundException):
            self.client.get_layer_version(LayerName="many", VersionNumber=3)
        self.assertEqual(self.publish("many", {"python/x.py": "4"})["Version"], 4)

    def test_bad_layers_are_refused(self):
        wrong = self.client.exceptions.InvalidParameterValueException
        with self.assertRaisesRegex(wrong, "lies in folders"):
            self.publish("loose", {"x.py": "1"})
        with self.assertRaises(wrong):
            self.client.publish_layer_version(LayerName="noise", Content={"ZipFile": b"no zip at all"})
        with self.assertRaisesRegex(wrong, "S3Bucket"):
            self.client.publish_layer_version(LayerName="noise", Content={"S3Bucket": "bucket", "S3Key": "key"})
        arn = "arn:aws:lambda:us-east-1:000000000000:layer:nothing:1"
        with self.assertRaisesRegex(wrong, "no version 1 of layer 'nothing'"):
            self.create("nowhere", Layers=[arn])
        with self.assertRaises(self.client.exceptions.ResourceNotFoundException):
            self.client.get_function(FunctionName="nowhere")
        with self.assertRaisesRegex(wrong, "one version of layer"):
            self.create("nowhere", Layers=[arn, arn])

    def test_what_is_not_there_is_refused_clearly(self):
        self.create("versioned")
        with self.assertRaises(botocore.exceptions.ClientError) as caught:
            self.client.put_provisioned_concurrency_config(FunctionName="versioned", Qualifier="1",
                                                           ProvisionedConcurrentExecutions=1)
        self.assertIn("not", caught.exception.response["Error"]["Message"].lower())


if __name__ == "__main__":
    unittest.main()
