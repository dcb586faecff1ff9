"""api/openapi.yaml against the worker, both ways: every route is described and everything that is described is a route; and what
schemathesis sends, made from the description, finds nothing. LAMBENT_WHOLE_TESTS: with more of it, as ./dev test --all does."""
import contextlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import yaml

from harness import Worker
from model_worker import UV, WEIGHTS, ModelWorkerTest, deploy_model, matrix_model

ROOT = pathlib.Path(__file__).resolve().parents[2]
DESCRIPTION = ROOT / "api/openapi.yaml"
METHODS = {"get", "put", "post", "delete", "head", "patch"}
# Whose program answers is another's, and what it answers is not ours to describe.
OF_FUNCTIONS = ("/f/", "/t/", "/v2/models/", "/v2/repository/models/{model}/load")
# Of these the worker's own answers are described.
PASSED_ON = "^/(f|t|v2/models|v1/models|v1/realtime|v1/audio|v1/chat|v1/completions|v1/embeddings|v1/messages)/?"
# Routes without a line of their own are the operator's.
OPERATORS = ("/v1/tenants", "/v1/cluster")
# Of these the answer does not end, or takes the worker's time; or a success changes what the others stand on; or it is always 501.
NOT_ASKED = ("/v1/activity/events", "/v1/functions/{name}/log", "/v1/cluster", "/v2/repository", "/v2/cudasharedmemory")


def routes():
    """[(method or nothing, pattern)] of the table that says who may ask for what, and of the list of OpenAI's paths."""
    source = (ROOT / "src/edge/frontend/route_scopes.cc").read_text()
    listed = (ROOT / "src/edge/frontend/openai_call.cc").read_text().partition("kOfModels[] = {")[2].partition("};")[0]
    models = [("POST", path) for path in re.findall(r'"/([^"]+)"', listed)]
    return re.findall(r'^    \{"([A-Z]*)", "([^"]*)",', source, re.MULTILINE) + models + [("GET", "v1/realtime")]


def paths():
    """{path: its methods}; a parameter with few values is one path for each."""
    found = {}
    for path, about in yaml.safe_load(DESCRIPTION.read_text())["paths"].items():
        made = [path]
        for parameter in about.get("parameters", []):
            if "enum" in parameter.get("schema", {}):
                made = [each.replace("{%s}" % parameter["name"], value) for each in made for value in parameter["schema"]["enum"]]
        for each in made:
            found[each] = {method.upper() for method in about if method in METHODS}
    return found


def matches(pattern, path):
    wanted, given = pattern.split("/"), path.strip("/").split("/")
    for index, segment in enumerate(wanted):
        if segment == "**":
            return len(given) >= index
        if index >= len(given) or segment not in ("*", given[index]):
            return False
    return len(wanted) == len(given)


class RoutesTest(unittest.TestCase):
    def test_every_route_is_described(self):
        self.assertGreater(len(routes()), 40)
        described = paths()
        missing = [(method, pattern) for method, pattern in routes()
                   if not any(matches(pattern, path) and (not method or method in methods) for path, methods in described.items())]
        self.assertEqual(missing, [])

    def test_everything_that_is_described_is_a_route(self):
        unknown = [(path, method) for path, methods in paths().items() for method in methods
                   if not path.startswith(OF_FUNCTIONS + OPERATORS)
                   and not any(matches(pattern, path) and wanted in ("", method) for wanted, pattern in routes())]
        self.assertEqual(unknown, [])

    def test_patterns_match_as_the_worker_has_them(self):
        self.assertTrue(matches("v1/volumes/*/files/**", "/v1/volumes/{name}/files/{path}"))
        self.assertFalse(matches("v1/volumes/*", "/v1/volumes/{name}/files"))
        self.assertFalse(matches("v1/functions", "/v1/functions/{name}"))


@contextlib.contextmanager
def model_worker():
    """A worker with a model, scores."""
    class WithModel(ModelWorkerTest):
        pass

    if not UV.exists():
        raise unittest.SkipTest("there is no uv in .venv")
    WithModel.setUpClass()
    try:
        deploy_model(WithModel.worker, WithModel.folder / "scores.onnx", matrix_model(WEIGHTS))
        yield WithModel.worker
    finally:
        WithModel.doClassCleanups()


# All of schemathesis's but this one, for which two tenants' tokens are needed: tests/integration/test_tenants.py has them.
LEFT_OUT = ("object_level_authorization",)
# The server takes what the description allows, or refuses it because of the state that it has: 412 is added to schemathesis's own list.
ACCEPTED = '["2xx", "3xx", "401", "403", "404", "409", "412", "429", "5xx"]'
# The server refuses what the description does not allow. Another refusal may come first, such as that of a name that it does not know.
REFUSED = '["400", "401", "403", "404", "405", "406", "409", "412", "413", "415", "422", "428", "429", "5xx"]'
# Here it is refused because of what no schema says: the body's digest is the path's; a shape has a datatype and fits the bytes; a file has
# the size that the query says; a text is JSON with the fields of CreateFunction; settings are those of the policy; a share has its version;
# a cursor is one that an answer had; bytes are counted, not characters; objects are listed in one header; a model's inputs are its own.
JUDGED_BY_MORE = ("putGraph", "postObject", "putObject", "putVolumeFile", "deployFunction", "whatIf", "setAlias", "listEnded", "drainDevice", "createToken",
                  "runGraph", "infer", "inferOfVersion")


class SchemathesisTest(unittest.TestCase):
    def find(self, worker, *which, left_out=LEFT_OUT, parameters=None):
        """Fails with what schemathesis finds. `parameters`: values of those that name something which is there."""
        whole = bool(os.environ.get("LAMBENT_WHOLE_TESTS"))
        with tempfile.TemporaryDirectory() as folder:
            # QUERY: the HTTP parser has no such method; src/core/http/request_parser_test.cc has what it answers.
            lines = ["[phases.coverage]\n", 'unexpected-methods = ["GET", "PUT", "POST", "DELETE", "OPTIONS", "PATCH", "TRACE"]\n']
            lines += ["[generation]\n", "allow-extra-parameters = false\n"]  # headers of other protocols are for others
            lines += ["[checks]\n", f"negative_data_rejection.expected-statuses = {REFUSED}\n", f"positive_data_acceptance.expected-statuses = {ACCEPTED}\n", *(f"{check}.enabled = false\n" for check in left_out)]
            lines += ["[parameters]\n", *(f'"{name}" = "{value}"\n' for name, value in (parameters or {}).items())]
            for operation in JUDGED_BY_MORE:
                lines += ["[[operations]]\n", f'include-operation-id = "{operation}"\n', "checks.positive_data_acceptance.enabled = false\n"]
            (pathlib.Path(folder) / "schemathesis.toml").write_text("".join(lines))
            done = subprocess.run(
                [str(pathlib.Path(sys.executable).parent / "schemathesis"), "run", str(DESCRIPTION), "--url", worker.endpoint,
                 "--max-examples", "60" if whole else "5", "--seed", "1", "--generation-database", "none", "--phases",
                 "examples,coverage,fuzzing" if whole else "examples,fuzzing", "--request-timeout", "20", "--no-color", *which],
                capture_output=True, text=True, timeout=1500, cwd=folder, env={**os.environ, "PYTHONWARNINGS": "ignore"})
        self.assertEqual(done.returncode, 0, done.stdout[-20000:] + done.stderr[-1000:])
        self.assertEqual(worker.request("GET", "/readyz").status, 200)

    def worker(self):
        worker = Worker("--system-shared-memory", str(os.geteuid()), gpu="emulated:tiny")
        self.addCleanup(worker.close)
        worker.create_python("hello", "def handler(e, c): return 1")
        worker.invoke("hello")
        return worker

    def test_it_finds_nothing(self):
        self.find(self.worker(), "--exclude-path-regex", "^(%s)" % "|".join(map(re.escape, OF_FUNCTIONS + NOT_ASKED)))

    def test_it_finds_nothing_where_functions_answer(self):
        """No function has the names that it makes up: what is seen is the worker's own answer."""
        self.find(self.worker(), "--include-path-regex", PASSED_ON, left_out=(*LEFT_OUT, "not_a_server_error"))

    def test_it_finds_nothing_where_a_model_answers(self):
        with model_worker() as worker:
            self.find(worker, "--include-path-regex", "^/v2/models", parameters={"path.model": "scores", "path.version": "1"})
            self.assertRegex(worker.metrics(), r'lambent_invocations_total\{function="scores",outcome="succeeded"')


if __name__ == "__main__":
    unittest.main()
