"""Unit tests of lambent.contexts: which worker a client asks, and as whom. Standard library only."""
import os
import pathlib
import sys
import tempfile
import unittest
import unittest.mock
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from lambent import contexts  # noqa: E402
from lambent.contexts import Credentials, resolve  # noqa: E402
from lambent.errors import FailedPrecondition, InvalidArgument, NotFound  # noqa: E402

USUAL = "http://127.0.0.1:8980"
TEXT = """current = "lab"

[context.lab]
endpoint = "http://lab:1"

[context.prod]
endpoint = "https://prod:2"
token = "lambent_PROD_s3cret"
tenant = "vision"
ca = "/etc/ca.pem"
client_certificate = "/etc/own.pem"
client_key = "/etc/own.key"
"""
HAS_TOML = sys.version_info >= (3, 11)


class Contexts(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "config.toml")
        self.environment = {"LAMBENT_CONFIG": self.path}
        self.write(TEXT)

    def write(self, text, mode=0o600):
        pathlib.Path(self.path).write_text(text)
        os.chmod(self.path, mode)

    def resolve(self, endpoint=None, context=None, **environment):
        return resolve(endpoint, context, {**self.environment, **environment})

    def test_the_file_is_where_the_command_has_it(self):
        self.assertEqual(contexts.path_of_contexts({"LAMBENT_CONFIG": "/x", "HOME": "/h"}), "/x")
        self.assertEqual(contexts.path_of_contexts({"XDG_CONFIG_HOME": "/c", "HOME": "/h"}), "/c/lambent/config.toml")
        self.assertEqual(contexts.path_of_contexts({"HOME": "/h"}), "/h/.config/lambent/config.toml")

    @unittest.skipUnless(HAS_TOML, "contexts need Python 3.11")
    def test_a_context_is_taken_as_a_whole(self):
        told = self.resolve(context="prod")
        self.assertEqual((told.endpoint, told.token, told.tenant), ("https://prod:2", "lambent_PROD_s3cret", "vision"))
        self.assertEqual(told.credentials, Credentials("/etc/ca.pem", "/etc/own.pem", "/etc/own.key"))

    @unittest.skipUnless(HAS_TOML, "contexts need Python 3.11")
    def test_the_order_is_that_of_the_command(self):
        self.assertEqual(self.resolve().endpoint, "http://lab:1")
        self.assertEqual(self.resolve(LAMBENT_ENDPOINT="http://env:3").endpoint, "http://env:3")
        self.assertEqual(self.resolve(LAMBENT_ENDPOINT="http://env:3", LAMBENT_CONTEXT="prod").endpoint, "https://prod:2")
        self.assertEqual(self.resolve(context="lab", LAMBENT_CONTEXT="prod", LAMBENT_ENDPOINT="http://env:3").endpoint, "http://lab:1")
        self.assertEqual(self.resolve("http://here:4", LAMBENT_CONTEXT="prod").endpoint, "http://here:4")

    def test_a_token_goes_to_no_other_worker(self):
        self.write(TEXT.replace('"lab"', '"prod"', 1))
        self.assertIsNone(self.resolve("http://here:4").token)
        self.assertIsNone(self.resolve(LAMBENT_ENDPOINT="http://env:3").token)
        self.assertEqual(self.resolve("http://here:4", LAMBENT_TOKEN="mine").token, "mine")

    @unittest.skipUnless(HAS_TOML, "contexts need Python 3.11")
    def test_what_cannot_be_taken_is_refused_and_no_token_is_shown(self):
        with self.assertRaisesRegex(InvalidArgument, "give one of them"):
            self.resolve("http://here:4", "lab")
        with self.assertRaisesRegex(NotFound, "no context 'prd'; did you mean 'prod'"):
            self.resolve(context="prd")
        self.write(TEXT, 0o644)
        with self.assertRaisesRegex(FailedPrecondition, "chmod 600"):
            self.resolve()
        for text in ('token = "s3cret', "\xff", "[context]\nprod = 3\n", "context = 3\n"):
            self.write(text)
            with self.assertRaises(InvalidArgument) as caught:
                self.resolve(context="prod")
            self.assertNotIn("s3cret", str(caught.exception))

    def test_without_a_file_it_is_the_worker_of_this_machine(self):
        os.unlink(self.path)
        told = self.resolve(LAMBENT_CA="/ca")
        self.assertEqual((told.endpoint, told.token, told.credentials.ca), (USUAL, None, "/ca"))
        with self.assertRaisesRegex(NotFound, "lambent config set NAME"):
            self.resolve(context="lab")

    def test_where_python_has_no_toml_it_says_so(self):
        with unittest.mock.patch.dict(sys.modules, tomllib=None):
            with self.assertRaisesRegex(FailedPrecondition, "3.11"):
                self.resolve(context="lab")
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                self.assertEqual(self.resolve().endpoint, USUAL)
            self.assertIn("3.11", str(told[0].message))


if __name__ == "__main__":
    unittest.main()
