"""Container images by boto3: an image as AWS Lambda has it, whose entry point is AWS's own runtime client, runs unmodified."""

import json
import os
import pathlib
import shutil
import sys
import sysconfig
import tempfile
import unittest

import boto3
from botocore.config import Config
from harness import Worker
from image_layouts import Layer, Layout, lambda_layer, python_layer

HANDLER = """
import ctypes, os, sys

def handler(event, context):
    if event.get('fail'):
        raise ValueError('as asked')
    answer = {'heard': event, 'arn': context.invoked_function_arn, 'name': context.function_name, 'cwd': os.getcwd(),
              'variables': dict(os.environ), 'python': sys.executable, 'user': os.getuid()}
    if event.get('gpu'):
        cuda, count = ctypes.CDLL('libcuda.so.1'), ctypes.c_int()
        answer['init'] = cuda.cuInit(0)
        cuda.cuDeviceGetCount(ctypes.byref(count))
        answer['devices'] = count.value
    return answer

def other(event, context):
    return 'other'
"""
ENTRY_POINT = ["/usr/bin/python3", "-m", "awslambdaric"]
ROLE = "arn:aws:iam::123456789012:role/r"


@unittest.skipUnless(shutil.which("skopeo") and shutil.which("umoci"), "there is no skopeo or no umoci")
class ImagesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="lambent-images-"))
        cls.folder.chmod(0o755)
        packages = sysconfig.get_paths(vars={"base": sys.prefix, "platbase": sys.prefix})["platlib"]
        layout = Layout(cls.folder / "layout")
        layers = [python_layer().bytes(), lambda_layer(packages, HANDLER).bytes()]
        config = {"Entrypoint": ENTRY_POINT, "WorkingDir": "/var/task", "Env": ["PYTHONPATH=/opt/packages:/var/task", "COLOUR=red"]}
        cls.digest = layout.add("1", layers, Cmd=["app.handler"], **config)
        layout.add("2", layers, Cmd=["app.other"], **config)
        old = Layer().file("lib/x86_64-linux-gnu/libc.so.6", "GNU C Library (GNU libc) stable release version 2.17.\n")
        layout.add("old", [old], Entrypoint=ENTRY_POINT)
        cls.uri = f"oci:{layout.folder}:1"
        cls.worker = Worker("--mount-allow", str(cls.folder / "layout"), folder=cls.folder)
        cls.client = boto3.client(
            "lambda", endpoint_url=cls.worker.endpoint, region_name="us-east-1", aws_access_key_id="any",
            aws_secret_access_key="any", config=Config(retries={"max_attempts": 2}, read_timeout=120))

    @classmethod
    def tearDownClass(cls):
        cls.worker.close()
        shutil.rmtree(cls.folder, ignore_errors=True)

    def create(self, name, uri=None, **options):
        made = self.client.create_function(
            FunctionName=name, Role=ROLE, PackageType="Image", Code={"ImageUri": uri or self.uri}, Timeout=60, **options)
        self.client.get_waiter("function_active_v2").wait(FunctionName=name)
        return made

    def invoke(self, name, event):
        answer = self.client.invoke(FunctionName=name, Payload=json.dumps(event))
        return answer, json.load(answer["Payload"])

    def test_an_image_of_the_runtime_client_answers(self):
        self.create("plain", Environment={"Variables": {"SHAPE": "round"}})
        answer, seen = self.invoke("plain", {"n": 1})
        self.assertNotIn("FunctionError", answer, seen)
        self.assertEqual((seen["heard"], seen["name"], seen["cwd"]), ({"n": 1}, "plain", "/var/task"))
        variables = seen["variables"]
        self.assertEqual((variables["COLOUR"], variables["SHAPE"]), ("red", "round"))
        self.assertEqual(variables["AWS_LAMBDA_FUNCTION_NAME"], "plain")
        failed, seen = self.invoke("plain", {"fail": True})
        self.assertEqual((failed["FunctionError"], seen["errorType"]), ("Unhandled", "ValueError"))
        shown = self.client.get_function(FunctionName="plain")
        configuration = shown["Configuration"]
        self.assertEqual(configuration["PackageType"], "Image")
        self.assertNotIn("Runtime", configuration)
        self.assertNotIn("Handler", configuration)
        self.assertEqual(shown["Code"]["ImageUri"], self.uri)
        self.assertEqual(shown["Code"]["ResolvedImageUri"], f"{self.uri}@{self.digest}")

    def test_the_configuration_of_the_function_goes_before_the_images(self):
        made = self.create("config", ImageConfig={"Command": ["app.other"], "WorkingDirectory": "/tmp"})
        self.assertEqual(
            made["ImageConfigResponse"], {"ImageConfig": {"Command": ["app.other"], "WorkingDirectory": "/tmp"}})
        self.assertEqual(self.invoke("config", {})[1], "other")
        self.client.update_function_configuration(FunctionName="config", ImageConfig={"Command": ["app.handler"]})
        self.client.get_waiter("function_updated_v2").wait(FunctionName="config")
        self.assertEqual(self.invoke("config", {})[1]["cwd"], "/var/task")

    def test_another_image_and_versions_of_both(self):
        self.create("changes", Publish=True)
        uri = self.uri.removesuffix("1") + "2"
        self.client.update_function_code(FunctionName="changes", ImageUri=uri, Publish=True)
        self.client.get_waiter("function_updated_v2").wait(FunctionName="changes")
        self.assertEqual(self.invoke("changes", {})[1], "other")
        self.assertEqual(self.invoke("changes:1", {"n": 2})[1]["heard"], {"n": 2})

    def test_an_image_sees_the_gpu_of_its_function(self):
        self.create("device", Tags={"lambent:gpu-memory": "256MiB"})
        answer, seen = self.invoke("device", {"gpu": True})
        self.assertNotIn("FunctionError", answer, seen)
        self.assertEqual((seen["init"], seen["devices"]), (0, 1))
        with self.assertRaises(self.client.exceptions.ClientError) as caught:
            self.create("device_old", self.uri.removesuffix("1") + "old", Tags={"lambent:gpu-memory": "256MiB"})
        self.assertIn("needs glibc", str(caught.exception))

    def test_what_goes_with_a_zip_does_not_go_with_an_image(self):
        refused = self.client.exceptions.InvalidParameterValueException
        for options in ({"Runtime": "python3"}, {"Handler": "app.handler"}):
            with self.assertRaises(refused):
                self.create("bad", **options)
        with self.assertRaises(refused):
            self.create("bad", "Not/A/Name")
        self.create("keeps")
        with self.assertRaises(refused):
            self.client.update_function_code(FunctionName="keeps", ZipFile=b"PK")
        with self.assertRaises(refused):
            self.client.update_function_configuration(FunctionName="keeps", Runtime="python3")
        with self.assertRaises(refused):
            self.client.create_function(
                FunctionName="bad", Role=ROLE, Runtime="python3", Handler="a.b", Code={"ImageUri": self.uri})


if __name__ == "__main__":
    unittest.main()
