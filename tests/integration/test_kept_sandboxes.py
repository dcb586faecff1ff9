"""A worker becomes the program that is installed now, and its idle sandboxes stay: the same processes answer afterwards."""
import concurrent.futures
import contextlib
import sqlite3
import sys
import time
import unittest

import harness
from harness import descendants, make_zip, process_exists
from test_replacement import DOUBLE, Load, ReplacedTest

# Which process it is, and how often it was called.
WHO = """
import uuid
NAME, calls = str(uuid.uuid4()), 0
def handler(event, context):
    global calls
    calls += 1
    if event.get('use_mib'):
        block = bytearray(event['use_mib'] << 20)
    if event.get('print'):
        print(event['print'], flush=True)
    return [NAME, calls]
"""
READS = WHO.replace("return [NAME, calls]", "return [NAME, calls, open(os.environ['KEY']).read()]").replace("uuid", "os, uuid", 1)
# A program that begins with the first value again, and then is the worker.
CHANGES_SECRET = """#!/bin/sh
case "$*" in
  *--check*|*--kept-sandboxes-format*) ;;
  *) {python} -c "import sqlite3
with sqlite3.connect('{database}') as d: d.execute('UPDATE secrets SET sealed = (SELECT sealed FROM first_secret)')" ;;
esac
exec {real} "$@"
"""
SERVER = """
import http.server, uuid
NAME = str(uuid.uuid4())
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def do_GET(self):
        body = NAME.encode()
        self.send_response(200)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *words):
        pass
http.server.HTTPServer(('0.0.0.0', 8080), Handler).serve_forever()
"""

MEET = """
import threading, uuid
NAME, together = str(uuid.uuid4()), threading.Barrier(4)
def handler(event, context):
    together.wait(20)
    return NAME
"""


def meet(worker):
    """The processes that answer four calls at once."""
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        return set(pool.map(lambda _: worker.invoke("meet", {}).json, range(4)))


class KeptSandboxesTest(ReplacedTest):
    def pids(self, function):
        return sorted(each["pid"] for each in self.worker.sandboxes() if each["function"] == function)

    def test_the_same_processes_answer_afterwards(self):
        worker = self.start()
        worker.create_python("who", WHO)
        worker.create("served", make_zip({"app.py": SERVER}), handler="python3 app.py", tags={"lambent:kind": "http"})
        name, calls = worker.invoke("who", {}).json
        served = worker.request("GET", "/f/served/").body
        before = self.pids("who") + self.pids("served")
        for _ in range(3):  # launchers of each stay as long as they have one
            self.replace()
            self.assertEqual(self.pids("who") + self.pids("served"), before)
            calls += 1
            self.assertEqual(worker.invoke("who", {}).json, [name, calls])
            self.assertEqual(worker.request("GET", "/f/served/").body, served)
            self.assertEqual(self.starts(), 0)
        self.assertIn('"kept":2', worker.log())
        worker.invoke("who", {"print": "said afterwards"})
        worker.wait_for(lambda: b"said afterwards" in worker.request("GET", "/v1/functions/who/log").body, what="its log")

    def test_one_that_is_shown_files_with_secrets_stays_while_they_are_the_same(self):
        worker = self.start()
        worker.request("PUT", "/v1/secrets/key", "first")
        worker.create_python("who", READS, environment={"KEY": "${secret-file:key}"})
        name, _, _ = worker.invoke("who", {}).json
        self.replace()
        self.assertEqual(worker.invoke("who", {}).json, [name, 2, "first"])
        self.assertEqual(self.starts(), 0)
        database = worker.folder / "state/catalog.db"
        with contextlib.closing(sqlite3.connect(database)) as state, state:
            state.execute("CREATE TABLE first_secret AS SELECT sealed FROM secrets")
        worker.request("PUT", "/v1/secrets/key", "second")
        other, _, value = worker.invoke("who", {}).json
        self.assertEqual(value, "second")
        # The function is what it was, and the value is not.
        worker.install_broken(CHANGES_SECRET.format(python=sys.executable, database=database, real=harness.PREFIX / "bin/lambent-worker"))
        self.replacements += 1
        worker.replace()
        self.wait_until_replaced()
        last, calls, value = worker.invoke("who", {}).json
        self.assertEqual((calls, value), (1, "first"))
        self.assertNotIn(last, (name, other))

    def test_one_that_takes_several_calls_at_once_takes_them_afterwards(self):
        worker = self.start()
        worker.create("meet", make_zip({"app.py": MEET}),
                      tags={"lambent:http-concurrency": "4", "lambent:max-concurrency": "1"})
        [process] = meet(worker)  # now there are four threads that wait for work
        self.replace()
        self.assertEqual(meet(worker), {process})
        self.assertEqual(self.starts(), 0)

    def test_under_load_no_request_fails_and_none_starts_cold(self):
        worker = self.start()
        worker.create_python("double", DOUBLE)
        load = Load(worker)
        time.sleep(1)
        sandboxes = self.pids("double")
        self.replace()
        before = load.answered
        worker.wait_for(lambda: load.answered > before + 100, what="answers of the new program")
        load.end()
        self.assertEqual(load.failures, [])
        self.assertEqual(self.starts(), 0)
        self.assertEqual(self.pids("double"), sandboxes)

    def test_limits_hold_and_crashes_are_told(self):
        worker = self.start()
        worker.create_python("who", WHO, memory=128)
        name, _ = worker.invoke("who", {}).json
        self.replace()
        self.assertEqual(worker.invoke("who", {}).json, [name, 2])
        reply = worker.invoke("who", {"use_mib": 512})
        self.assertIn("memory", reply.json["errorMessage"].lower())
        again, calls = worker.invoke("who", {}).json
        self.assertNotEqual(again, name)
        self.assertEqual(calls, 1)

    def test_a_function_that_changes_gets_new_ones(self):
        worker = self.start()
        worker.create_python("who", WHO)
        name, _ = worker.invoke("who", {}).json
        self.replace()
        worker.delete("who")
        worker.create_python("who", WHO + "\n# changed")
        self.assertNotEqual(worker.invoke("who", {}).json[0], name)

    def test_nothing_is_left_whatever_ends_the_worker(self):
        for ends in (self.worker_stops, self.worker_is_killed):
            worker = self.start()
            worker.create_python("who", WHO)
            worker.invoke("who", {})
            self.replace()
            below = descendants(worker.process.pid)
            self.assertTrue(set(self.pids("who")) <= set(below))
            ends(worker)
            worker.wait_for(lambda: not any(process_exists(pid) for pid in below), what="the end of all processes")
            worker.close()

    def worker_stops(self, worker):
        self.assertEqual(worker.stop(), 0)

    def worker_is_killed(self, worker):
        worker.kill()

    def test_a_worker_killed_while_it_gives_way_leaves_nothing(self):
        for moment in ("replacing", "gives_way"):
            worker = self.start()
            worker.create_python("who", WHO)
            worker.invoke("who", {})
            below = descendants(worker.process.pid)
            worker.replace()
            worker.wait_for(lambda: worker.events(moment), 60, moment)
            below += descendants(worker.process.pid)
            worker.kill()
            worker.wait_for(lambda: not any(process_exists(pid) for pid in below), what="the end of all processes")
            worker.close()

    def test_a_program_that_does_not_know_the_format_starts_cold(self):
        worker = self.start()
        worker.create_python("who", WHO)
        name, _ = worker.invoke("who", {}).json
        real = harness.PREFIX / "bin/lambent-worker"
        worker.install_broken(f'#!/bin/sh\n[ "$1" = --kept-sandboxes-format ] && echo "sandboxes 0.0" && exit 0\nexec {real} "$@"\n')
        worker.replace()
        worker.wait_for(lambda: worker.events("listening") > 1, 60, "the new program's start")
        again, calls = worker.invoke("who", {}).json
        self.assertNotEqual(again, name)
        self.assertEqual(calls, 1)
        self.assertIn('"keeps_sandboxes":false', worker.log())


if __name__ == "__main__":
    unittest.main()
