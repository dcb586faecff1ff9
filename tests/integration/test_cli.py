"""The real command against a real worker: every verb, what it prints, its exit codes, and what it says of bad input."""
import gzip
import json
import os
import pathlib
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from harness import PREFIX, HttpError, WorkerTest

LAMBENT = str(PREFIX / "bin/lambent")
INVALID, NOT_FOUND, ALREADY_EXISTS, PRECONDITION, UNAVAILABLE = 13, 15, 16, 19, 24
UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
PHASES = r"[\d.]+ ms  queue [\d.]+ \| sandbox [\d.]+ \| init [\d.]+ \| run [\d.]+   (cold|gpu_cold|warm)"


class CommandTest(WorkerTest):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="lambent-cli-")))

    def run_cli(self, *arguments, expect=0, stdin=None, text=True, environment=None, timeout=120):
        done = subprocess.run([LAMBENT, *map(str, arguments)], input=stdin, capture_output=True, text=text, timeout=timeout,
                              cwd=self.folder,
                              env={**os.environ, "LAMBENT_ENDPOINT": self.worker.endpoint, **(environment or {})})
        self.assertEqual(done.returncode, expect, f"{arguments}\n{done.stdout}\n{done.stderr}")
        return done

    def json_of(self, *arguments, **options):
        return json.loads(self.run_cli(*arguments, "--json", **options).stdout)

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def deploy_python(self, name, source, manifest=""):
        folder = self.folder / name
        self.write(f"{name}/app.py", source)
        self.write(f"{name}/lambent.toml", f'name = "{name}"\nruntime = "python3"\nhandler = "app.handler"\ncode = "."\n'
                   + manifest)
        self.run_cli("deploy", folder)


class VerbsTest(CommandTest):
    def test_the_function_of_the_readme_is_created_updated_listed_and_removed(self):
        source = 'def handler(event, context):\n    return {"hello": event.get("name", "world")}\n'
        manifest = '[gpu]\nmemory = "32M"\n'
        self.deploy_python("hello", source, manifest)
        done = self.run_cli("invoke", "hello", "-d", '{"name": "Ada"}')
        self.assertEqual(json.loads(done.stdout), {"hello": "Ada"})
        self.assertRegex(done.stderr, PHASES + rf".*id {UUID}\n$")
        again = self.json_of("deploy", self.folder / "hello")
        self.assertEqual(again["action"], "unchanged")
        (self.folder / "hello/app.py").write_text(source + "# another line\n")
        self.assertEqual(self.json_of("deploy", self.folder / "hello")["action"], "updated")
        self.assertIn("hello", self.run_cli("ls").stdout)
        listed = [each for each in self.json_of("ls")["functions"] if each["name"] == "hello"]
        self.assertEqual(listed[0]["gpu_memory_bytes"], 32 << 20)
        self.assertEqual(self.run_cli("invoke", "hello").stdout, '{"hello": "world"}\n')
        sandboxes = self.json_of("ps")["sandboxes"]
        self.assertIn("hello", [each["function"] for each in sandboxes])
        self.assertRegex(self.run_cli("ps").stdout, r"hello +idle")
        self.run_cli("rm", "hello")
        self.assertNotIn("hello", [each["name"] for each in self.json_of("ls")["functions"]])
        self.run_cli("invoke", "hello", expect=NOT_FOUND)

    def test_what_init_writes_is_deployed_and_answers_as_it_says(self):
        answers = {"python": {"hello": "Ada"}, "http": {"message": "Hello Ada"}, "native": {"bytes": 15, "event": {"name": "Ada"}},
                   "workflow": {"words": ["the", "quick", "fox"], "letters": [3, 5, 3]}}
        for kind in ("python", "cuda", "native", "kernel", "workflow", "http"):
            with self.subTest(kind=kind):
                begun = self.json_of("init", f"my-{kind}", "--kind", kind)
                self.assertEqual(begun["name"], f"my-{kind}")
                for command in begun["next"][:-1]:
                    subprocess.run(command, shell=True, cwd=self.folder, check=True, capture_output=True, timeout=300,
                                   env={**os.environ, "LAMBENT_ENDPOINT": self.worker.endpoint,
                                        "PATH": f"{PREFIX}/bin:{os.environ['PATH']}"})
                asked = shlex.split(begun["next"][-1])
                if asked[0] == "curl":
                    answer = self.worker.request("POST", asked[1].removeprefix(self.worker.endpoint), asked[3]).json
                else:
                    answer = json.loads(self.run_cli(*asked[1:]).stdout)
                if kind == "cuda":
                    self.assertEqual(answer["scaled"], [10, 20, 30])
                elif kind == "kernel":
                    self.assertEqual(answer["outputs"][0]["data"], [2, 4, 6, 8])
                else:
                    self.assertEqual(answer, answers[kind])
        self.run_cli("init", "my-python", expect=ALREADY_EXISTS)
        self.assertIn("deploy hello", self.run_cli("init").stdout)

    def test_functions_of_a_python_file_are_called_and_deployed_by_the_command(self):
        begun = self.json_of("init", "shop", "--kind", "app")
        self.assertEqual(begun["next"], ["lambent run shop/app.py::greet Ada"])
        no_worker = {"LAMBENT_ENDPOINT": "http://127.0.0.1:9"}
        done = self.run_cli("run", "--endpoint", self.worker.endpoint, "shop/app.py::greet", "Ada", environment=no_worker)
        self.assertEqual(done.stdout, "{'hello': 'Ada'}\n")
        self.assertEqual(self.run_cli("deploy", "shop/app.py").stdout, "unchanged shop-greet\n")
        self.run_cli("run", "shop/app.py::greet", expect=UNAVAILABLE, environment=no_worker)
        self.assertIn("'lambent invoke shop-greet'", self.run_cli("run", "shop-greet", expect=INVALID).stderr)
        self.write("plain.py", "def handler(event, context): return event\n")
        self.assertIn("'lambent init NAME'", self.run_cli("deploy", "plain.py", expect=INVALID).stderr)
        self.assertIn("usage: lambent dev", self.run_cli("help", "dev").stdout)

    def test_every_example_runs_its_kernels_and_is_right(self):
        events = {"01_python_vector_add": [("vector_add", {"count": 500})], "02_python_matmul": [("matmul", {"size": 20})],
                  "03_python_fft": [("fft", {"points": 32})], "04_python_jacobi": [("jacobi", {"size": 12})],
                  "05_native_handler": [("native", {"kernel": kernel})
                                        for kernel in ("vector_add", "matmul", "fft", "jacobi")],
                  "18_python_cpu_variant": [("vector_add_anywhere", {"count": 500})]}
        for folder, invocations in events.items():
            self.run_cli("deploy", PREFIX / "examples" / folder)
            for name, event in invocations:
                with self.subTest(name=name, event=event):
                    done = self.run_cli("invoke", name, "-d", json.dumps({**event, "check": True}))
                    self.assertIs(json.loads(done.stdout)["correct"], True)
                    self.assertIn("gpu memory", done.stderr)

    def test_invoke_as_json_tells_everything(self):
        self.deploy_python("teller", "def handler(e, c):\n  print('said')\n  return [1]")
        answer = self.json_of("invoke", "teller", "--log")
        self.assertEqual((answer["outcome"], answer["start"], answer["payload"]), ("succeeded", "cold", [1]))
        self.assertIn("said", answer["log_tail"])
        phases = answer["phases_us"]
        self.assertEqual(phases["total"], sum(phases[key] for key in ("queue", "sandbox", "init", "memory", "run")))
        self.assertGreater(phases["init"], 0)

    def test_payloads_come_from_files_and_stdin_and_answers_go_to_files(self):
        self.deploy_python("echo", "def handler(e, c): return e")
        event = self.write("event.json", '{"from": "a file"}')
        self.assertEqual(json.loads(self.run_cli("invoke", "echo", "--file", event).stdout), {"from": "a file"})
        self.assertEqual(json.loads(self.run_cli("invoke", "echo", "--file", "-", stdin="[2]").stdout), [2])
        out = self.folder / "answer.json"
        done = self.run_cli("invoke", "echo", "-d", "[3]", "--output", out)
        self.assertEqual((done.stdout, json.loads(out.read_text())), ("", [3]))

    def test_raw_bytes_reach_a_native_handler_unchanged(self):
        # This bootstrap speaks the Runtime API with nothing but Python's own modules.
        bootstrap = """#!/usr/bin/python3
import http.client
while True:
    api = http.client.HTTPConnection("127.0.0.1", 9001)
    api.request("GET", "/2018-06-01/runtime/invocation/next")
    event = api.getresponse()
    body = event.read()
    api = http.client.HTTPConnection("127.0.0.1", 9001)
    api.request("POST", "/2018-06-01/runtime/invocation/%s/response" % event.getheader("Lambda-Runtime-Aws-Request-Id"),
                body[::-1])
    api.getresponse().read()
"""
        self.write("raw/bootstrap", bootstrap).chmod(0o755)
        self.write("raw/lambent.toml", 'name = "raw"\nruntime = "provided.al2023"\nhandler = "bootstrap"\ncode = "."\n')
        self.run_cli("deploy", self.folder / "raw")
        sent = bytes(range(256))
        (self.folder / "bytes").write_bytes(sent)
        self.run_cli("invoke", "raw", "--raw", "--file", "bytes", "--output", "back", text=False)
        self.assertEqual((self.folder / "back").read_bytes(), sent[::-1])

    def test_an_asynchronous_invocation_is_waited_for(self):
        self.deploy_python("slow", "import time\ndef handler(e, c):\n  time.sleep(1)\n  return {'n': e['n'] + 1}")
        invocation = self.run_cli("invoke", "slow", "--async", "-d", '{"n": 1}').stdout.strip()
        self.assertRegex(invocation, f"^{UUID}$")
        pending = self.run_cli("result", invocation, expect=UNAVAILABLE)
        self.assertIn("--wait", pending.stderr)
        done = self.run_cli("result", invocation, "--wait")
        self.assertEqual(json.loads(done.stdout), {"n": 2})
        self.assertRegex(done.stderr, PHASES)
        self.assertEqual(self.json_of("result", invocation)["payload"], {"n": 2})
        self.assertRegex(self.json_of("invoke", "slow", "--async", "-d", '{"n": 1}')["id"], UUID)
        self.run_cli("result", "00000000-0000-4000-8000-000000000000", expect=NOT_FOUND)

    def test_logs_are_shown_and_followed(self):
        self.deploy_python("printer", "def handler(e, c):\n  print('line', e)")
        self.run_cli("invoke", "printer", "-d", "1")
        self.assertIn("line 1", self.run_cli("logs", "printer").stdout)
        texts = [json.loads(line)["text"] for line in self.run_cli("logs", "printer", "--json").stdout.splitlines()]
        self.assertIn("line 1\n", texts)
        follower = subprocess.Popen([LAMBENT, "logs", "-f", "printer", "--endpoint", self.worker.endpoint],
                                    stdout=subprocess.PIPE, text=True)
        try:
            self.run_cli("invoke", "printer", "-d", "2")
            seen = ""
            while "line 2" not in seen:
                line = follower.stdout.readline()
                self.assertTrue(line, seen)
                seen += line
            self.assertIn("line 1", seen)
        finally:
            follower.terminate()
            follower.wait(10)
            follower.stdout.close()

    def test_version_tells_of_the_worker(self):
        self.assertRegex(self.run_cli("version").stdout, r"lambent [\d.]+\nworker  [\d.]+   policy density, 1 GPU \(.*emulated")
        worker = self.json_of("version")["worker"]
        self.assertEqual((worker["policy"], worker["devices"], worker["emulated"], worker["time_scale"]),
                         ("density", 1, True, 1))

    def test_the_event_comes_from_a_text_a_file_or_standard_input(self):
        self.deploy_python("echo", "def handler(e, c): return e")
        path = self.write("event.json", '{"n": 3}')
        self.assertEqual(json.loads(self.run_cli("invoke", "echo", "-d", f"@{path}").stdout), {"n": 3})
        self.assertEqual(json.loads(self.run_cli("invoke", "echo", "-d", "-", stdin='{"n": 4}').stdout), {"n": 4})
        self.assertIn("/nowhere", self.run_cli("invoke", "echo", "-d", "@/nowhere", expect=NOT_FOUND).stderr)
        self.assertIn("-d @FILE", self.run_cli("invoke", "echo", "-d", "text", expect=INVALID).stderr)

    def test_logs_begin_at_a_time_and_show_one_invocation(self):
        self.deploy_python("numbers", "def handler(e, c): print('number', e['n'])")
        ids = [self.json_of("invoke", "numbers", "-d", json.dumps({"n": n}))["id"] for n in (1, 2)]
        one = self.run_cli("logs", "numbers", "--id", ids[0]).stdout
        self.assertRegex(one, rf"^START RequestId: {ids[0]}.*\nnumber 1\nEND RequestId: {ids[0]}\nREPORT RequestId: {ids[0]}")
        self.assertNotIn("number 2", one)
        self.assertIn("number 2", self.run_cli("logs", "numbers", "--since", "10m").stdout)
        self.assertEqual(self.run_cli("logs", "numbers", "--since", "2100-01-01T00:00:00Z").stdout, "")
        self.assertIn("--since: a time ago", self.run_cli("logs", "numbers", "--since", "soon", expect=INVALID).stderr)
        self.run_cli("logs", "numbers", "--id", "0e6c9d1e-4f2c-4c33-9a52-6f1b1b3f0f7a", expect=NOT_FOUND)

    def test_invoke_says_on_a_terminal_what_it_waits_for(self):
        self.deploy_python("slow", "import time\ntime.sleep(2.5)\ndef handler(e, c): return 1")
        ours, its = os.openpty()
        self.addCleanup(os.close, ours)
        done = subprocess.run([LAMBENT, "invoke", "slow", "--endpoint", self.worker.endpoint], stdout=subprocess.PIPE, stderr=its, timeout=120)
        os.close(its)
        self.assertEqual((done.returncode, done.stdout), (0, b"1\n"))
        self.assertRegex(os.read(ours, 65536).decode(), r"waiting, [\d.]+ s by now: a sandbox is being started")

    def test_the_short_help_has_the_usual_options_and_help_all_the_others(self):
        short, long = self.run_cli("serve", "--help").stdout, self.run_cli("serve", "--help-all").stdout
        self.assertLess(len(short.splitlines()), 50)
        self.assertGreater(len(long.splitlines()), 100)
        for option in ("--listen", "--gpu", "--state"):
            self.assertIn(f"  {option} ", short)
        self.assertIn("lambent serve --help-all", short)
        self.assertNotIn("--managed-memory", short)
        self.assertIn("--managed-memory", long)
        for verb in ("invoke", "simulate", "sweep", "bundle", "run"):
            self.assertIn("--help", self.run_cli(verb, "--help-all").stdout, verb)

    def test_every_verb_has_help_with_an_example(self):
        for verb in ("init", "deploy", "invoke", "result", "ls", "schedules", "ps", "logs", "rm", "devices", "drain", "undrain", "replay",
                     "report", "version"):
            self.assertIn("Example", self.run_cli(verb, "--help").stdout, verb)
        self.assertIn("Example", self.run_cli("serve", "--help").stdout)


class BadInputTest(CommandTest):
    def test_an_unknown_function_is_answered_with_the_one_that_was_meant(self):
        self.deploy_python("vector-add", "def handler(e, c): return 1")
        done = self.run_cli("invoke", "vector-ad", expect=NOT_FOUND)
        self.assertIn("NOT_FOUND", done.stderr)
        self.assertIn("vector-add", done.stderr)
        error = json.loads(self.run_cli("invoke", "vector-ad", "--json", expect=NOT_FOUND).stderr)
        self.assertEqual(error["error"]["code"], "NOT_FOUND")
        for verb in ("logs", "rm"):
            self.run_cli(verb, "nothing-of-the-kind", expect=NOT_FOUND)

    def test_a_failed_function_is_status_1_with_its_answer(self):
        self.deploy_python("fails", "def handler(e, c): raise ValueError('no good')")
        done = self.run_cli("invoke", "fails", expect=1)
        self.assertEqual(json.loads(done.stdout)["errorMessage"], "no good")
        self.assertRegex(done.stderr, r"^ValueError: no good\n  File \"/var/task/app.py\", line 1, in handler\n")
        self.assertIn("\nfunction error", done.stderr)
        self.assertEqual(self.json_of("invoke", "fails", expect=1)["outcome"], "function_error")
        invocation = self.run_cli("invoke", "fails", "--async").stdout.strip()
        self.run_cli("result", invocation, "--wait", expect=1)

    def test_a_handler_that_is_not_there_is_told(self):
        self.write("f/app.py", "def handle(e, c): pass")
        self.write("f/lambent.toml", 'name = "mistyped"\nruntime = "python3"\nhandler = "app.handler"\ncode = "."\n')
        self.run_cli("deploy", "f")
        self.assertIn("handle", self.run_cli("invoke", "mistyped", expect=1).stdout)

    def test_a_bad_manifest_is_refused_with_its_line(self):
        for text, said in (('name = "f"\nmemory = "much"\n', r"lambent.toml line 2: memory"),
                           ('name = "f"\ntimeout_s = "x"\n', r"line 2: timeout_s must be a number"),
                           ('name = \n', r"lambent.toml.*line 1"),
                           ('runtime = "python3"\n', r"no name"),
                           ('name = "f"\nruntime = "python3"\nhandler = "a.b"\nbundles = ["nowhere"]\n', r"nowhere")):
            with self.subTest(text=text):
                self.write("bad/lambent.toml", text)
                done = self.run_cli("deploy", "bad", expect=INVALID if "nowhere" not in text else NOT_FOUND)
                self.assertRegex(done.stderr, said)
        self.run_cli("deploy", "nothing-here", expect=NOT_FOUND)

    def test_an_unknown_key_is_warned_of_with_the_one_that_was_meant(self):
        self.write("w/app.py", "def handler(e, c): pass")
        self.write("w/lambent.toml", 'name = "w"\nruntime = "python3"\nhandler = "app.handler"\ncode = "."\ntimout_s = 3\n')
        self.assertIn("did you mean 'timeout_s'?", self.run_cli("deploy", "w").stderr)

    def test_a_payload_that_is_not_json_is_not_sent(self):
        self.deploy_python("echo2", "def handler(e, c): return e")
        self.assertIn("--raw", self.run_cli("invoke", "echo2", "-d", "{oops", expect=INVALID).stderr)
        self.run_cli("invoke", "echo2", "--file", "missing.json", expect=NOT_FOUND)

    def test_no_worker_is_status_24_and_says_where_it_looked(self):
        with socket.socket() as held:
            held.bind(("127.0.0.1", 0))  # bound and not listening: nobody answers
            endpoint = f"http://127.0.0.1:{held.getsockname()[1]}"
            for verb in (("ls",), ("ps",), ("invoke", "f"), ("replay",)):
                done = self.run_cli(*verb, "--endpoint", endpoint, expect=UNAVAILABLE)
                self.assertIn(endpoint.rpartition(":")[2], done.stderr)
            self.assertIn("none answers", self.run_cli("version", "--endpoint", endpoint).stdout)

    def test_bad_usage_is_status_2(self):
        for arguments in ((), ("no-such-verb",), ("invoke",), ("invoke", "f", "--no-such-flag"), ("replay", "--spread", "odd")):
            self.run_cli(*arguments, expect=2)

    def test_a_word_that_is_misspelt_is_answered_with_the_one_that_was_meant(self):
        for arguments, said in ((("deply", "x"), "no command 'deply'; did you mean 'deploy'?"),
                                (("list",), "no command 'list'; did you mean 'ls'?"),
                                (("objects", "pvt", "x"), "lambent objects: there is no command 'pvt'; did you mean 'put'?"),
                                (("xyzzyx",), "no command 'xyzzyx'\n"),
                                (("ls", "--jsno"), "lambent ls: there is no option --jsno; did you mean '--json'?"),
                                (("invoke", "f", "--payload", "{}"), "no option --payload; did you mean '--data'?"),
                                (("invoke", "f", "g"), "'g' is one word too many"),
                                (("serve", "--listn", "1"), "lambent serve: there is no option --listn; did you mean '--listen'?"),
                                (("simulate", "--polcy", "fcfs"), "there is no option --polcy; did you mean '--policy'?"),
                                (("slices", "aply"), "lambent slices: there is no command 'aply'; did you mean 'apply'?"),
                                (("why", "x", "--journal", "y", "--jsno"), "there is no option --jsno; did you mean '--json'?"),
                                (("shim", "--memroy", "1G"), "there is no option --memroy; did you mean '--memory'?"),
                                (("bundle", "biuld"), "there is no command 'biuld'; did you mean 'build'?"),
                                (("serve", "--log-level", "loud"), "'loud' is none of debug,info,warning,error"),
                                (("invoke",), "NAME is required\nExample:\n  lambent invoke hello"),
                                (("--endpoint", "unix:x", "serve"), "write 'lambent serve ...'")):
            with self.subTest(arguments=arguments):
                stderr = self.run_cli(*arguments, expect=2).stderr
                self.assertIn(said, stderr)
                self.assertIn(" --help-all\n", stderr)
        self.assertIn("did you mean '--policy'?", self.run_cli("sweep", "--vary", "D=1:2", "--polcy", "fcfs", expect=INVALID).stderr)
        error = json.loads(self.run_cli("invoke", "f", "g", "--json", expect=2).stderr)["error"]
        self.assertEqual((error["code"], error["message"]), ("INVALID_ARGUMENT", "'g' is one word too many"))

    def test_a_value_that_had_another_name_is_taken_with_a_warning(self):
        wrong = ("serve", "--concurrency", "0", "--executor-objects")
        self.assertNotIn("warning", self.run_cli(*wrong, "shared", expect=2).stderr)
        stderr = self.run_cli(*wrong, "lent", expect=2).stderr
        self.assertIn("warning: --executor-objects lent is called shared now", stderr)
        self.assertIn("--concurrency is 1 to 1024", stderr)
        self.assertNotIn("lent", self.run_cli(*wrong, "borrowed", expect=2).stderr)

    def test_a_program_is_run_under_the_driver_that_is_named_or_not_at_all(self):
        done = self.run_cli("shim", "--driver", "nowhere/libcuda.so.1", "--", "true", expect=NOT_FOUND)
        self.assertIn(f"--driver: there is no file {self.folder}/nowhere/libcuda.so.1", done.stderr)
        driver = os.path.relpath(PREFIX / "lib/emulated/libcuda.so.1", self.folder)
        script = "import ctypes, os; os.chdir('/'); print(ctypes.CDLL('libcuda.so.1').cuInit(0))"
        done = self.run_cli("shim", "--driver", driver, "--", sys.executable, "-c", script,
                            environment={"EMULATED_CUDA_NODE": str(self.folder / "node"), "EMULATED_CUDA_CONFIG": "tiny"})
        self.assertEqual(done.stdout, "0\n")

    def test_a_program_whose_memory_cannot_come_back_is_told_of(self):
        call = """
import ctypes, os, sys
from ctypes import byref, c_int, c_size_t, c_ubyte, c_uint64, c_void_p
cuda, context, address = ctypes.CDLL("libcuda.so.1"), c_void_p(), c_uint64()
assert cuda.cuInit(0) == 0
assert cuda.cuDevicePrimaryCtxRetain(byref(context), c_int(0)) == 0 and cuda.cuCtxSetCurrent(context) == 0
"""
        holds = call + """
assert cuda.cuMemAlloc_v2(byref(address), c_size_t(100 << 20)) == 0
print("has it", flush=True)
while not os.path.exists(sys.argv[1]):
    assert cuda.cuMemsetD8_v2(address, c_ubyte(7), c_size_t(4096)) == 0
"""
        takes_its_place = call + """
pieces = 0
while pieces < 92:
    pieces += cuda.cuMemAlloc_v2(byref(address), c_size_t(10 << 20)) == 0
print("has it", flush=True)
sys.stdin.read()
"""
        stop = self.folder / "stop"
        environment = {**os.environ, "EMULATED_CUDA_NODE": str(self.folder / "node"), "EMULATED_CUDA_CONFIG": "tiny"}
        with subprocess.Popen([LAMBENT, "shim", "--emulated", "--move-every", "50", "--", sys.executable, "-c", holds, str(stop)],
                              env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as first:
            self.assertEqual(first.stdout.readline(), "has it\n")
            with subprocess.Popen([sys.executable, "-c", takes_its_place], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                  env={**environment, "LD_LIBRARY_PATH": str(PREFIX / "lib/emulated")}) as second:
                self.assertEqual(second.stdout.readline(), "has it\n")
                self.assertIn("its memory cannot come back: the GPU has no room for it", first.stderr.readline())
                second.stdin.close()
                self.assertEqual(second.wait(), 0)
            stop.touch()
            self.assertRegex(first.stderr.read(), r"moved out \d+ times.*times refused")
            self.assertEqual(first.wait(), 0)

    def test_a_second_worker_says_which_options_give_it_places_of_its_own(self):
        first = pathlib.Path(self.worker.folder)
        address = self.worker.endpoint.removeprefix("http://")
        for run, state, listen, code, said in (
                (first / "run", "state", "127.0.0.1:0", ALREADY_EXISTS, "(--run, --state, --listen)"),
                ("run", first / "state", "127.0.0.1:0", PRECONDITION, "a state folder of its own (--state)"),
                ("run", "state", address, UNAVAILABLE, "choose another with --listen")):
            done = self.run_cli("serve", "--gpu", "none", "--run", run, "--state", state, "--listen", listen, expect=code)
            self.assertIn(said, done.stderr)

    @unittest.skipUnless(os.geteuid() == 0 and shutil.which("setpriv"), "only root can be somebody else, with setpriv")
    def test_an_empty_variable_is_no_folder(self):
        shown = subprocess.run(["setpriv", "--reuid=64123", LAMBENT, "serve", "--help-all"], capture_output=True, text=True,
                               env={**os.environ, "XDG_RUNTIME_DIR": "", "HOME": ""})
        self.assertIn("--run TEXT=/tmp/lambent-64123\n", shown.stdout, shown.stderr)
        self.assertIn("--state TEXT=/var/lib/lambent\n", shown.stdout)

    def test_without_a_verb_and_with_help_all_verbs_are_told(self):
        alone = self.run_cli(expect=2)
        self.assertEqual(alone.stdout, "")
        for text in (alone.stderr, self.run_cli("--help").stdout, self.run_cli("help").stdout):
            for verb in ("init", "deploy", "invoke", "serve", "simulate", "slices", "objects", "shim"):
                self.assertRegex(text, rf"(?m)^  {verb} ")
        self.assertIn("--listen", self.run_cli("help", "serve").stdout)
        self.assertIn("--shape", self.run_cli("help", "objects", "put").stdout)
        self.assertRegex(self.run_cli("-v").stdout, r"^lambent [\d.]+$")

    def test_a_folder_without_a_function_is_told_with_those_that_have_one(self):
        self.write("shelf/a/lambent.toml", 'name = "a"')
        self.write("shelf/empty/notes", "")
        self.assertIn("there is no folder or file 'nowhere'", self.run_cli("deploy", "nowhere", expect=NOT_FOUND).stderr)
        self.assertIn("there is one in shelf/a", self.run_cli("deploy", "shelf", expect=NOT_FOUND).stderr)
        self.assertIn("'lambent init NAME' writes one", self.run_cli("deploy", "shelf/empty", expect=NOT_FOUND).stderr)

    def test_what_an_invocation_would_fail_for_is_warned_of_while_deploying(self):
        self.write("n/lambent.toml", 'name = "n"\nruntime = "python3"\nhandler = "app.handler"\n')
        self.assertIn("app.py, which is not in n", self.run_cli("deploy", "n").stderr)
        self.write("n/app/__init__.py", "def handler(e, c): return 1")
        self.assertEqual(self.run_cli("deploy", "n").stderr, "")
        self.write("b/lambent.toml", 'name = "b"\nruntime = "provided.al2023"\nhandler = "x"\n')
        self.assertIn("no program 'bootstrap' in b", self.run_cli("deploy", "b").stderr)
        self.write("b/bootstrap", "#!/bin/sh\n")
        self.assertIn("not executable", self.run_cli("deploy", "b").stderr)
        # The handler is missing because its key is misspelt.
        self.write("k/lambent.toml", 'name = "k"\nruntime = "python3"\nhandlr = "app.handler"\n')
        self.assertIn("did you mean 'handler'?", self.run_cli("deploy", "k", expect=INVALID).stderr)

    def test_a_pipeline_on_a_worker_without_slices_is_refused_with_the_reason(self):
        refused = self.run_cli("deploy", str(PREFIX / "examples/17_pipeline_image"), expect=PRECONDITION)
        self.assertIn("--pipeline-slices", refused.stderr)

    def test_bad_rows_of_a_trace_are_named_by_line(self):
        trace = self.write("t.csv", "t_ms,func\n1,a\nnot-a-number,a\n5,b\n")
        done = self.run_cli("replay", trace, expect=INVALID)
        self.assertRegex(done.stderr, r"t\.csv.*line 3|t\.csv:3")
        minutes = self.folder / "azure.csv.gz"
        with gzip.open(minutes, "wt") as out:
            out.write("fid,Trigger,1,2\nf1,timer,3,x\n")
        self.assertRegex(self.run_cli("replay", minutes, expect=INVALID).stderr, r"azure.*(line |:)2")
        self.run_cli("replay", "no-such-trace.csv", expect=NOT_FOUND)

    def test_a_result_file_that_is_none_is_refused(self):
        self.write("r.jsonl", "not json\n")
        self.assertIn("r.jsonl", self.run_cli("report", "r.jsonl", expect=INVALID).stderr)
        self.run_cli("report", "missing.jsonl", expect=NOT_FOUND)


class ReplayTest(CommandTest):
    gpu = "emulated:v100-16gb"
    flags = ("--time-scale", "20", "--policy", "fcfs", "--pool", "4")

    def test_a_trace_is_replayed_and_reported(self):
        # Far enough apart for what two cold starts hold up to be worked off.
        rows = "".join(f"{i * 1800},{'ab'[i % 2]}\n" for i in range(20))
        trace = self.write("short.csv", "t_ms,func\n" + rows)
        self.write("short_functions.csv", "func,gpu_function\na,Isoneural\nb,FFT\n")
        begin = time.monotonic()
        run = self.json_of("replay", trace, "--deploy", "--time-scale", "20", "--out", "run.jsonl")
        self.assertLess(time.monotonic() - begin, 30)
        self.assertEqual((run["run"], run["invocations"], run["failed"], run["emulated"]), ("fcfs", 20, 0, True))
        by_name = {each["name"]: each for each in run["functions"]}
        # FFT takes 0.897 s when warm: nothing is faster, and the median is not far from it.
        self.assertGreaterEqual(by_name["b"]["p50_s"], 0.89)
        self.assertLess(by_name["b"]["p50_s"], 4)
        self.assertLess(by_name["a"]["p50_s"], by_name["b"]["p50_s"])
        # Each starts cold, once: the overhead was measured with a function of its own, which is gone.
        self.assertEqual(by_name["a"]["cold_ratio"], 0.1)
        self.assertEqual(by_name["b"]["cold_ratio"], 0.1)
        self.assertNotIn("replay-overhead", json.dumps(self.json_of("ls")))
        done = self.run_cli("report", "run.jsonl", "-o", "page.html")
        self.assertIn("fcfs", done.stdout)
        page = (self.folder / "page.html").read_text()
        self.assertIn("emulated", page)
        self.assertNotRegex(re.sub(r"http://www\.w3\.org/\S*", "", page), r"https?://")

    def test_a_time_scale_that_is_not_the_workers_is_refused(self):
        done = self.run_cli("replay", "--time-scale", "10", expect=PRECONDITION)
        self.assertIn("--time-scale 20", done.stderr)

    def test_without_the_packages_that_make_kernels_of_models_it_says_what_is_missing_and_how_to_get_it(self):
        (self.folder / "m.onnx").write_bytes(b"\x08\x08")
        programs = self.folder / "programs"
        python = self.write("programs/python", "#!/bin/sh\necho \"lambent.onnx: No module named 'numpy': making kernels of a model "
                            "needs the packages of lambent[onnx] (pip install -r there), or uv\" >&2\nexit 4\n")
        python.chmod(0o755)
        (programs / "env").symlink_to(shutil.which("env"))
        (programs / "sh").symlink_to(shutil.which("sh"))
        words = ("deploy", self.folder / "m.onnx", "--engine", "kernels", "--dry-run", "--importer-python", python)
        paths = {"PATH": str(programs)}
        said = self.run_cli(*words, expect=PRECONDITION, environment=paths).stderr
        self.assertIn("FAILED_PRECONDITION: No module named 'numpy'", said)
        self.assertIn("pip install -r there), or uv", said)
        self.assertIn("--importer-python", said)
        uv = self.write("programs/uv", "#!/bin/sh\necho 'error: dns error: no such host' >&2\nexit 2\n")
        uv.chmod(0o755)
        said = self.run_cli(*words, expect=PRECONDITION, environment=paths).stderr
        self.assertIn("No module named 'numpy'", said)
        self.assertIn("dns error: no such host", said)

    def test_functions_that_are_not_deployed_are_told(self):
        done = self.run_cli("replay", "--time-scale", "20", "--prefix", "never-", expect=NOT_FOUND)
        self.assertIn("--deploy", done.stderr)

    def test_what_cannot_finish_is_counted_not_forgotten(self):
        rows = "".join(f"{i},b\n" for i in range(30))
        self.write("burst.csv", "t_ms,func\n" + rows)
        self.write("burst_functions.csv", "func,gpu_function\nb,Ffmpeg\n")
        done = self.run_cli("replay", "burst.csv", "--deploy", "--time-scale", "20", "--give-up", "20", "--outstanding", "20",
                            "--no-overhead", "--json")
        run = json.loads(done.stdout)
        self.assertEqual(run["invocations"] + run["failed"], 30)
        self.assertIn("10 invocations were not sent", done.stderr)
        self.assertIn("had no answer when the run gave up", done.stderr)


class LookAndCancelTest(CommandTest):
    CANCELLED = 11
    SLOW = ("import time\n\n\ndef handler(event, context):\n    time.sleep(event.get('s', 60))\n    return 'done'\n")

    def live(self, *arguments):
        return {each["invocation"]: each["phase"] for each in self.json_of("invocations", *arguments)["live"]}

    def until(self, condition, what):
        deadline = time.monotonic() + 30
        while not condition():
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(0.05)

    def ask_in_vain(self, path, told):
        try:
            self.worker.request("GET", path)
        except HttpError as error:
            told.append(error)

    def begin(self, name, event="{}"):
        return self.run_cli("invoke", name, "--async", "-d", event).stdout.strip()

    def test_what_waits_and_what_runs_is_listed_and_cancelled(self):
        self.deploy_python("slow", self.SLOW, "max_concurrency = 1\n")
        first = self.begin("slow")
        self.until(lambda: self.live("slow").get(first) == "running", "it does not run")
        second = self.begin("slow")
        self.until(lambda: self.live("slow").get(second) == "queued", "it does not wait")
        shown = self.run_cli("invocations", "slow").stdout
        self.assertRegex(shown, rf"{second}  slow      queued +[\d.]+ m?s  its function ran as many as it may at once")
        self.assertEqual(self.json_of("describe", "slow")["activity"]["queued"], 1)
        self.assertRegex(self.run_cli("describe", "slow").stdout, r"now +1 queued, 1 running, 1 sandboxes")
        self.assertRegex(self.run_cli("top").stdout, r"queued 1, running 1\n[^\0]*slow +1 +1 +- +- .* 1 +-\n")
        self.assertRegex(self.run_cli("cancel", second).stdout, "was queued and is cancelled")
        self.assertIn("CANCELLED", self.run_cli("result", second, "--wait", expect=self.CANCELLED).stderr)
        self.assertRegex(self.run_cli("cancel", first).stdout, "was running and is being cancelled")
        answer = self.run_cli("result", first, "--wait", expect=1)
        self.assertIn("Invocation.Cancelled", answer.stdout)
        self.assertIn("it was cancelled by a request", answer.stdout)
        self.assertIn("has ended already", self.run_cli("cancel", first, expect=PRECONDITION).stderr)
        ended = {each["invocation"]: each for each in self.json_of("invocations", "slow")["ended"]}
        self.assertEqual(ended[second]["outcome"], "rejected")
        self.assertEqual(ended[first]["error_type"], "Invocation.Cancelled")
        # It works on.
        self.assertEqual(self.run_cli("invoke", "slow", "-d", '{"s": 0}').stdout, '"done"\n')

    def test_one_that_starts_is_cancelled_and_its_sandbox_stays(self):
        self.deploy_python("starts", "import time\n\ntime.sleep(3)\n" + self.SLOW)
        one = self.begin("starts")
        self.until(lambda: self.live("starts").get(one) == "starting", "it does not start")
        self.assertRegex(self.run_cli("cancel", one).stdout, "was starting and is being cancelled")
        self.assertIn("Invocation.Cancelled", self.run_cli("result", one, "--wait", expect=1).stdout)
        self.assertRegex(self.run_cli("invoke", "starts", "-d", '{"s": 0}').stderr, "   warm   ")

    def test_a_client_that_waits_is_told(self):
        self.deploy_python("waits", self.SLOW)
        with subprocess.Popen([LAMBENT, "invoke", "waits"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.folder,
                              env={**os.environ, "LAMBENT_ENDPOINT": self.worker.endpoint}) as client:
            self.until(lambda: "running" in self.live("waits").values(), "it does not run")
            self.run_cli("cancel", *self.live("waits"))
            out, _ = client.communicate(timeout=30)
            self.assertEqual(client.returncode, 1)
            self.assertIn("Invocation.Cancelled", out)

    def test_a_request_to_an_http_function_ends_and_others_in_its_sandbox_go_on(self):
        server = ("import http.server\nimport os\nimport time\n\nBEGAN = time.time_ns()\n\n\nclass Handler(http.server.BaseHTTPRequestHandler):\n"
                  "    def do_GET(self):\n        time.sleep(float(self.path.rpartition('/')[2]))\n        self.send_response(200)\n"
                  "        self.end_headers()\n        self.wfile.write(str(BEGAN).encode())\n\n\n"
                  "http.server.ThreadingHTTPServer(('127.0.0.1', int(os.environ['PORT'])), Handler).serve_forever()\n")
        for name, concurrency in (("one", 1), ("several", 4)):
            with self.subTest(name):
                self.write(f"{name}/server.py", server)
                self.write(f"{name}/lambent.toml", f'name = "{name}"\nkind = "http"\ncommand = ["python3", "server.py"]\nport = 8080\n'
                           f"concurrency = {concurrency}\n")
                self.run_cli("deploy", self.folder / name)
                before = self.worker.request("GET", f"/f/{name}/0").body
                told = []
                asking = threading.Thread(target=self.ask_in_vain, args=(f"/f/{name}/60", told))
                asking.start()
                self.until(lambda name=name: "running" in self.live(name).values(), "it does not run")
                self.run_cli("cancel", *self.live(name))
                asking.join(30)
                self.assertEqual([(error.status, error.json["error"]["code"]) for error in told], [(502, "CANCELLED")])
                after = self.worker.request("GET", f"/f/{name}/0").body
                self.assertEqual(after == before, concurrency > 1, "whether the program goes on")

    def test_a_run_of_a_workflow_is_cancelled(self):
        self.deploy_python("part", self.SLOW)
        self.write("whole/lambent.toml", 'name = "whole"\nkind = "workflow"\n\n[[component]]\nname = "only"\nfunction = "part"\n'
                   'input = {s = 3}\n')
        self.run_cli("deploy", self.folder / "whole")
        run = self.begin("whole")
        self.until(lambda: "running" in self.live("part").values(), "its call does not run")
        self.assertRegex(self.run_cli("cancel", run).stdout, "was running and is (being )?cancelled")
        self.assertIn("it was cancelled by a request", self.run_cli("result", run, "--wait", expect=self.CANCELLED).stderr)
        self.until(lambda: not self.live("part"), "its call does not end")

    def test_the_first_line_of_a_worker_says_which_gpus_it_has(self):
        lines = [json.loads(line) for line in self.worker.log().splitlines() if line.startswith("{")]
        first = next(line for line in lines if line["level"] != "debug")
        self.assertEqual(first["event"], "gpus")
        self.assertRegex(first["gpus"], r"^0: .+, \d.* [MG]iB, emulated")

    def test_what_cannot_be_cancelled_is_refused_with_the_reason(self):
        self.assertIn("'lambent invocations' lists", self.run_cli(
            "cancel", "0e6c9d1e-4f2c-4c33-9a52-6f1b1b3f0f7a", expect=NOT_FOUND).stderr)
        self.run_cli("cancel", "no-id", expect=INVALID)
        self.run_cli("describe", "no-such-function", expect=NOT_FOUND)
        self.run_cli("invocations", "no-such-function", expect=NOT_FOUND)

    def by_python(self, arguments, environment):
        """Whether the worker answers lambent.client.Client(arguments), or the code of its refusal."""
        program = ("from lambent.client import Client\nfrom lambent.errors import LambentError\n"
                   f"try:\n    Client({arguments}).version()\n    print('answered')\nexcept LambentError as error:\n    print(error.code)\n")
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60,
                              env={**os.environ, "PYTHONPATH": str(PREFIX / "share/lambent/python"), **environment})
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def test_a_context_says_which_worker_is_asked_and_its_token_goes_nowhere_else(self):
        config = self.folder / "config.toml"
        here = {"LAMBENT_ENDPOINT": "", "LAMBENT_CONFIG": str(config)}
        token = self.write("token", "lambent_secret\n")
        token.chmod(0o600)
        self.run_cli("config", "set", "test", "--endpoint", self.worker.endpoint, environment=here)
        self.assertEqual(config.stat().st_mode & 0o777, 0o600)
        self.assertIn("functions", self.json_of("ls", environment=here))
        self.run_cli("config", "set", "away", "--endpoint", "http://127.0.0.1:1", "--token-file", token, environment=here)
        self.run_cli("ls", "--context", "away", expect=UNAVAILABLE, environment=here)
        self.run_cli("ls", expect=UNAVAILABLE, environment={**here, "LAMBENT_CONTEXT": "away"})
        self.run_cli("config", "use", "away", environment=here)
        self.run_cli("ls", expect=UNAVAILABLE, environment=here)
        self.run_cli("ls", "--context", "test", environment=here)
        self.assertEqual(self.by_python("context='test'", here), "answered")
        self.assertEqual(self.by_python("", here), "UNAVAILABLE")
        self.assertEqual(self.by_python("", {**here, "LAMBENT_CONTEXT": "test"}), "answered")
        self.run_cli("config", "set", "test", "--token-file", token, environment=here)
        self.assertEqual(self.by_python("context='test'", here), "UNAUTHENTICATED")
        self.assertEqual(self.by_python(f"{self.worker.endpoint!r}", here), "answered")  # without the token
        self.assertIn("UNAUTHENTICATED", self.run_cli("ls", "--context", "test", expect=26, environment=here).stderr)
        self.run_cli("ls", "--context", "test", "--endpoint", self.worker.endpoint, expect=INVALID, environment=here)
        with socket.create_server(("127.0.0.1", 0)) as other:
            asked = subprocess.Popen([LAMBENT, "ls", "--endpoint", f"http://127.0.0.1:{other.getsockname()[1]}"], stdout=subprocess.DEVNULL,
                                     stderr=subprocess.DEVNULL, env={**os.environ, **here, "LAMBENT_CONTEXT": ""})
            connection, _ = other.accept()
            with connection:
                head = connection.recv(65536).decode()
            asked.wait(60)
        self.assertTrue(head.startswith("GET /v1/functions"), head)
        self.assertNotIn("lambent_secret", head)
        self.assertNotIn("secret", self.run_cli("config", "ls", environment=here).stdout)


if __name__ == "__main__":
    unittest.main()
