"""lambent.App against a real worker: calls, classes, exceptions, what is deployed again and what is not, the command."""
import asyncio
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

from harness import PREFIX, Worker

PYTHON = str(PREFIX / "share/lambent/python")
sys.path.insert(0, PYTHON)

APP = """
import os
import threading
import lambent

app = lambent.App("try", include=["words.txt", "tool.sh"])
together = threading.Barrier(3)
PROCESS = os.urandom(8).hex()
waiting = []

class Odd(Exception):
    def __init__(self, number):
        super().__init__("odd: %d" % number)
        self.number = number
    def __reduce__(self):
        return Odd, (self.number,)

@app.function(memory="128M", environment={"GREETING": "hello"})
def greet(name, times=1):
    with open(os.path.join(os.path.dirname(__file__), "words.txt")) as words:
        return {(os.environ["GREETING"], name): words.read().strip() * times}

@app.function(memory="128M")
def check(number):
    if number % 2:
        raise Odd(number)
    return number

@app.function(memory="128M")
def tool():
    import subprocess
    return subprocess.check_output([os.path.join(os.path.dirname(__file__), "tool.sh")], text=True)

@app.function(memory="256M")
def echo(value):
    return value

@app.function(memory="128M")
def count(n, fail_at=None, pause=0):
    import time
    for i in range(n):
        if i == fail_at:
            raise Odd(i)
        yield {i}
        time.sleep(pause)

@app.function(memory="128M")
async def later(n):
    import asyncio
    for i in range(n):
        await asyncio.sleep(0)
        yield i

@app.function(memory="128M", concurrency=3, max_concurrency=1)
def meet(n):
    together.wait(20)
    return n, PROCESS

@app.function(memory="128M", concurrency=3, max_concurrency=1)
async def doze(n):
    import asyncio
    waiting.append(asyncio.get_running_loop().create_future())
    mine = waiting[-1]
    if len(waiting) == 3:
        while waiting:
            waiting.pop().set_result(None)
    await mine
    return n, PROCESS

@app.cls(memory="128M")
class Counter:
    @lambent.enter
    def load(self):
        self.count = 100

    def add(self, n):
        self.count += n
        return self.count, os.getpid()
"""


class AppTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="lambent-app-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, True)
        (cls.folder / "tried_app.py").write_text(APP)
        (cls.folder / "words.txt").write_text("ho\n")
        (cls.folder / "tool.sh").write_text("#!/bin/sh\necho it runs\n")
        (cls.folder / "tool.sh").chmod(0o700)
        cls.worker = Worker(gpu="none")
        cls.addClassCleanup(cls.worker.close)
        os.environ["LAMBENT_ENDPOINT"] = cls.worker.endpoint
        cls.addClassCleanup(os.environ.pop, "LAMBENT_ENDPOINT", None)
        sys.path.insert(0, str(cls.folder))
        import tried_app

        cls.module = tried_app
        cls.deployed = tried_app.app.deploy()

    def run_command(self, *words):
        return subprocess.run([sys.executable, "-m", "lambent", *words], capture_output=True, text=True, cwd=self.folder, timeout=60,
                              env={**os.environ, "PYTHONPATH": PYTHON})

    def test_values_keep_their_types_on_their_way(self):
        self.assertEqual(self.module.greet.remote("Ada", times=2), {("hello", "Ada"): "hoho"})
        self.assertEqual(self.module.echo.remote((1, {2}, b"3", None)), (1, {2}, b"3", None))

    def test_programs_that_are_included_run(self):
        self.assertEqual(self.module.tool.remote(), "it runs\n")

    def test_many_calls_are_answered_in_order(self):
        self.assertEqual(list(self.module.echo.map(range(50), at_once=8)), list(range(50)))
        self.assertEqual(list(self.module.greet.starmap([("a", 1), ("b", 3)])), [{("hello", "a"): "ho"}, {("hello", "b"): "hohoho"}])

    def test_several_calls_are_in_one_sandbox_at_once(self):
        for function in (self.module.meet, self.module.doze):
            found = list(function.map(range(6), at_once=3))
            self.assertEqual([n for n, _ in found], list(range(6)))
            self.assertEqual(len({process for _, process in found}), 1)

    def test_what_a_function_raises_is_raised_here(self):
        for call in (lambda: self.module.check.remote(3), lambda: self.module.check.spawn(3).get(),
                     lambda: list(self.module.check.map([2, 3]))):
            with self.assertRaises(self.module.Odd) as caught:
                call()
            self.assertEqual(caught.exception.number, 3)
            self.assertIn("raise Odd(number)", str(caught.exception.__cause__))
            self.assertNotIn("app_calls", str(caught.exception.__cause__))
        self.assertIn('outcome="function_error"', self.worker.metrics())

    def test_large_values_go_as_objects(self):
        large = os.urandom(9 << 20)
        self.assertEqual(self.module.echo.remote(large), large)

    def test_a_class_has_one_object_in_a_sandbox(self):
        counter = self.module.Counter()
        (first, process), (second, same) = counter.add.remote(1), counter.add.remote(1)
        self.assertEqual((first, second, process), (101, 102, same))
        self.assertEqual(counter.add.local(5)[0], 105)

    def test_coroutines_wait_side_by_side(self):
        async def ask():
            return await asyncio.gather(*(self.module.echo.remote_async(n) for n in range(10)))

        self.assertEqual(asyncio.run(ask()), list(range(10)))

        async def map_them():
            return [each async for each in self.module.echo.map_async(range(20), at_once=4)]

        self.assertEqual(asyncio.run(map_them()), list(range(20)))

    def test_items_of_a_generator_come_one_by_one(self):
        self.assertEqual(list(self.module.count.remote_gen(300)), [{n} for n in range(300)])
        self.assertEqual(list(self.module.later.remote_gen(3)), [0, 1, 2])
        items = self.module.count.remote_gen(3, fail_at=2)
        self.assertEqual([next(items), next(items)], [{0}, {1}])
        with self.assertRaises(self.module.Odd) as caught:
            next(items)
        self.assertIn("raise Odd(i)", str(caught.exception.__cause__))
        # The first is there long before the last, and leaving ends the call.
        began = time.monotonic()
        endless = self.module.count.remote_gen(1000, pause=0.5)
        self.assertEqual(next(endless), {0})
        endless.close()
        self.assertLess(time.monotonic() - began, 120)

        async def ask():
            return [each async for each in self.module.later.remote_gen_async(4)]

        self.assertEqual(asyncio.run(ask()), [0, 1, 2, 3])

    def test_a_generator_is_told_from_a_function(self):
        with self.assertRaisesRegex(TypeError, "call it by remote_gen"):
            self.module.count.remote(3)
        with self.assertRaisesRegex(TypeError, "call it by remote"):
            list(self.module.echo.remote_gen(3))

    def test_other_clients_send_json(self):
        self.assertEqual(self.worker.invoke("try-check", {"number": 4}).json, 4)
        self.assertEqual(self.worker.invoke("try-check", [6]).json, 6)
        self.assertEqual(self.worker.invoke("try-Counter", {"method": "add", "n": 0}).json[0] >= 100, True)

    def test_only_what_has_changed_is_deployed(self):
        names = ["try-greet", "try-check", "try-tool", "try-echo", "try-count", "try-later", "try-meet", "try-doze", "try-Counter"]
        self.assertEqual(sorted(self.deployed), sorted(names))
        self.assertEqual(self.module.app.deploy(), [])
        done = self.run_command("deploy", "tried_app.py")
        self.assertEqual(done.stdout.splitlines(), ["unchanged " + name for name in names], done.stderr)
        (self.folder / "other.py").write_text(APP.replace('"try"', '"other"'))
        self.assertIn("deployed other-greet", self.run_command("deploy", "other.py").stdout)
        (self.folder / "other.py").write_text(APP.replace('"try"', '"other"').replace("hello", "bye"))
        self.assertIn("('bye', 'Eve'): 'ho'", self.run_command("run", "other.py::greet", "Eve").stdout)

    def test_dev_deploys_what_changes_and_shows_what_functions_print(self):
        folder = self.folder / "watched"
        folder.mkdir()
        text = "import lambent\napp = lambent.App('watched')\n\n@app.function(memory='128M')\ndef f(x):\n    print('got', x)\n    return x + 1\n"
        (folder / "live.py").write_text(text)
        process = subprocess.Popen([sys.executable, "-u", "-m", "lambent", "dev", "live.py"], cwd=folder, stdout=subprocess.PIPE, text=True,
                                   env={**os.environ, "PYTHONPATH": PYTHON})
        try:
            self.assertEqual(process.stdout.readline(), "deployed watched-f\n")
            self.assertEqual(self.worker.invoke("watched-f", [1]).json, 2)
            (folder / "live.py").write_text(text.replace("x + 1", "x + 10"))
            lines = [process.stdout.readline()]
            while lines[-1] != "deployed watched-f\n":
                lines.append(process.stdout.readline())
            self.assertEqual(self.worker.invoke("watched-f", [2]).json, 12)
            while lines[-1] != "watched-f | got 2\n":
                lines.append(process.stdout.readline())
            self.assertIn("watched-f | got 1\n", lines)
        finally:
            process.terminate()
            process.communicate()

    def test_a_file_that_is_run_gets_its_own_classes_back(self):
        text = ("import lambent\napp = lambent.App('ran')\nclass P:\n    pass\nclass Odd(Exception):\n    pass\n"
                "@app.function(memory='128M')\ndef f(p):\n    if p is None:\n        raise Odd\n    return P()\n"
                "if __name__ == '__main__':\n    with app.run():\n        print(type(f.remote(P())) is P)\n        try:\n"
                "            f.remote(None)\n        except Odd:\n            print('caught')\n")
        (self.folder / "ran.py").write_text(text)
        (self.folder / "unguarded.py").write_text(text.replace("'ran'", "'unguarded'").replace("__name__ == '__main__'", "True"))

        def ran(name):
            return subprocess.run([sys.executable, name], cwd=self.folder, env={**os.environ, "PYTHONPATH": PYTHON}, capture_output=True, text=True,
                                  timeout=60)
        done = ran("ran.py")
        self.assertEqual(done.stdout, "True\ncaught\n", done.stderr)
        self.assertIn("unguarded.py deploys when it is imported, which its sandboxes do as well: put app.run()", ran("unguarded.py").stderr)

    def test_a_map_that_asks_for_more_than_its_function_can_do_at_once_is_answered_whole(self):
        (self.folder / "crowded.py").write_text(
            "import time\nimport lambent\napp = lambent.App('crowded')\n@app.function(memory='128M', max_concurrency=2)\ndef work(i):\n"
            "    time.sleep(0.05)\n    return i\nif __name__ == '__main__':\n    with app.run():\n        print(sum(work.map(range(200))))\n")
        done = subprocess.run([sys.executable, "crowded.py"], cwd=self.folder, env={**os.environ, "PYTHONPATH": PYTHON}, capture_output=True,
                              text=True, timeout=120)
        self.assertEqual(done.stdout, "19900\n", done.stderr)

    def test_the_command_calls_functions_and_methods_and_tells_mistakes(self):
        self.assertEqual(self.run_command("run", "tried_app.py::echo", "[1, 2]").stdout, "[1, 2]\n")
        self.assertIn("10", self.run_command("run", "tried_app.py::Counter.add", "--n", "1").stdout)
        done = self.run_command("run", "tried_app.py::nothing")
        self.assertEqual(done.returncode, 15)
        self.assertIn("say which function: tried_app.py::greet", done.stderr)
        self.assertIn("there is no function 'nothing'", done.stderr)
        self.assertIn("Counter is a class: tried_app.py::Counter.METHOD", self.run_command("run", "tried_app.py::Counter").stderr)
        self.assertIn("there is no function 'Counter.nothing'", self.run_command("run", "tried_app.py::Counter.nothing").stderr)

    def test_a_file_that_cannot_be_imported_is_shown_where_and_what_to_do(self):
        (self.folder / "lacks.py").write_text("import lambent\nimport no_such_package\napp = lambent.App('lacks')\n")
        done = self.run_command("deploy", "lacks.py")
        self.assertEqual(done.returncode, 1)
        self.assertIn('lacks.py", line 2', done.stderr)
        self.assertIn("install no_such_package here, or import it inside", done.stderr)
        self.assertNotIn("__main__", done.stderr)
        (self.folder / "plain.py").write_text("def handler(event, context):\n    return event\n")
        self.assertIn("'lambent init NAME' writes one", self.run_command("deploy", "plain.py").stderr)

    def test_the_command_prints_the_items_of_a_generator(self):
        done = self.run_command("run", "tried_app.py::count", "3")
        self.assertEqual((done.stdout, done.returncode), ("{0}\n{1}\n{2}\n", 0), done.stderr)

    def test_the_command_shows_where_a_function_failed_and_nothing_of_itself(self):
        for words, what in ((["tried_app.py::check", "3"], "raise Odd(number)"), (["tried_app.py::check"], "missing 1 required positional")):
            done = self.run_command("run", *words)
            self.assertEqual(done.returncode, 1)
            self.assertIn(what, done.stderr)
            self.assertNotIn("app_calls", done.stderr)


if __name__ == "__main__":
    unittest.main()
