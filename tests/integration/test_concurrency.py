"""Several requests at once in one sandbox of an HTTP function (`concurrency`)."""
import base64
import json
import threading
import time
import unittest

from harness import WorkerTest, make_zip
from test_http_functions import SERVER


class ConcurrencyTest(WorkerTest):
    def create_http(self, name, timeout=20, source=SERVER, **tags):
        tags = {"lambent:kind": "http", **{"lambent:" + k.replace("_", "-"): str(v) for k, v in tags.items()}}
        return self.worker.create(name, make_zip({"server.py": source}), handler="python3 server.py",
                                  timeout=timeout, tags=tags)

    def get(self, path, **options):
        return self.worker.request("GET", path, **options)

    def at_once(self, paths, method="GET"):
        """The answers to these, asked side by side; an error is an answer."""
        answers = [None] * len(paths)

        def ask(number, path):
            try:
                answers[number] = self.worker.request(method, path)
            except Exception as error:
                answers[number] = error

        threads = [threading.Thread(target=ask, args=each) for each in enumerate(paths)]
        for thread in threads:
            thread.start()
        return threads, answers

    def wait(self, asked):
        threads, answers = asked
        for thread in threads:
            thread.join()
        return answers

    def sandboxes_of(self, name):
        return [each for each in self.worker.sandboxes() if each["function"] == name]

    def in_flight(self, name):
        return sorted(each["in_flight"] for each in self.sandboxes_of(name))

    def test_requests_share_a_sandbox_from_its_start_on(self):
        self.create_http("shared", http_concurrency=8)
        asked = self.at_once(["/f/shared/late?s=2"] * 8)
        self.worker.wait_for(lambda: self.in_flight("shared") == [8], what="all in one sandbox")
        began = time.monotonic()
        answers = self.wait(asked)
        self.assertEqual(len({answer.body for answer in answers}), 1, "one program served all")
        self.assertLess(time.monotonic() - began, 8, "and side by side")
        self.assertEqual(len({answer.headers["x-lambent-invocation-id"] for answer in answers}), 8)
        self.assertEqual(self.in_flight("shared"), [0])
        log = self.get("/v1/functions/shared/log?offset=0").body.decode()
        for answer in answers:
            self.assertIn("REPORT RequestId: " + answer.headers["x-lambent-invocation-id"], log)

    def test_one_more_than_fits_gets_another_sandbox(self):
        self.create_http("full", http_concurrency=2)
        asked = self.at_once(["/f/full/late?s=3"] * 3)
        self.worker.wait_for(lambda: self.in_flight("full") == [1, 2], what="two and one")
        self.assertEqual(len({answer.body for answer in self.wait(asked)}), 1, "each program is pid 2 of its own")

    def test_without_it_one_at_a_time_is_in_a_sandbox(self):
        self.create_http("single", max_concurrency=1)
        asked = self.at_once(["/f/single/late?s=1"] * 2)
        self.worker.wait_for(lambda: self.in_flight("single") == [1])
        self.wait(asked)

    def test_open_streams_leave_the_host_to_other_functions(self):
        self.create_http("streams", http_concurrency=32, timeout=60)
        self.create_http("other")
        asked = self.at_once(["/f/streams/events?n=80"] * 20)
        self.worker.wait_for(lambda: self.in_flight("streams") == [20], what="20 streams in one sandbox")
        began = time.monotonic()
        self.assertTrue(self.get("/f/other/pid").body)
        self.assertLess(time.monotonic() - began, 6)
        self.assertEqual(len({answer.body for answer in self.wait(asked)}), 1)

    def test_a_program_that_dies_fails_all_that_are_in_it_each_with_its_own_words(self):
        self.create_http("dying", http_concurrency=8)
        self.get("/f/dying/pid")
        # A GET would be sent again where its connection was kept from before.
        asked = self.at_once(["/f/dying/late?s=15"] * 3, "POST")
        self.worker.wait_for(lambda: self.in_flight("dying") == [3])
        error = self.error_of(self.get, "/f/dying/crashes")
        self.assertEqual(error.status, 502)
        for answer in self.wait(asked):
            self.assertEqual(answer.status, 502)
            self.assertIn("exit status 4", answer.json["error"]["message"])
        self.assertTrue(self.get("/f/dying/pid").body, "the next one gets another program")

    def test_a_request_that_times_out_leaves_the_others_and_the_program(self):
        # It answers at once with its number, so that a new program would be seen.
        source = SERVER.replace("str(os.getpid())", "str(os.stat('/proc/self').st_ctime_ns)")
        self.create_http("slow", source=source, http_concurrency=8, timeout=3)
        program = self.get("/f/slow/pid").body
        slow = self.at_once(["/f/slow/never"])
        time.sleep(1.5)
        stream = self.at_once(["/f/slow/events?n=20"])
        answered = self.get("/f/slow/pid").body
        self.assertEqual(answered, program)
        [error] = self.wait(slow)
        self.assertEqual(error.status, 504)
        [events] = self.wait(stream)
        self.assertEqual(events.body, b"".join(b"data: %d\n\n" % n for n in range(20)))
        self.assertEqual(self.get("/f/slow/pid").body, program)
        self.assertEqual(self.in_flight("slow"), [0])

    def test_a_program_that_hangs_is_killed_after_the_last_of_its_requests(self):
        self.create_http("hangs", http_concurrency=8, timeout=1)
        self.get("/f/hangs/pid")
        first = self.sandboxes_of("hangs")[0]["id"]
        for error in self.wait(self.at_once(["/f/hangs/never"] * 3)):
            self.assertEqual(error.status, 504)
        self.worker.wait_for(lambda: first not in [each["id"] for each in self.sandboxes_of("hangs")])
        self.assertTrue(self.get("/f/hangs/pid").body)

    def test_requests_end_in_the_revision_where_they_began(self):
        self.create_http("changing", http_concurrency=8)
        self.get("/f/changing/pid")
        asked = self.at_once(["/f/changing/late?s=2"] * 2)
        self.worker.wait_for(lambda: self.in_flight("changing") == [2])
        old = self.sandboxes_of("changing")[0]["id"]
        zipped = base64.b64encode(make_zip({"server.py": SERVER.replace("str(os.getpid()).encode())", "b'new')", 1)})).decode()
        self.worker.request("PUT", "/2015-03-31/functions/changing/code", json.dumps({"ZipFile": zipped}))
        self.assertEqual(self.get("/f/changing/pid").body, b"new")
        self.assertEqual({answer.body for answer in self.wait(asked)}, {b"2"})
        self.worker.wait_for(lambda: old not in [each["id"] for each in self.sandboxes_of("changing")])

    def test_a_client_that_leaves_takes_nothing_from_the_others(self):
        self.create_http("left", http_concurrency=8, timeout=4)
        self.get("/f/left/pid")
        asked = self.at_once(["/f/left/late?s=2"])
        connection = self.worker.connect()
        connection.request("GET", "/f/left/events?n=1000")
        self.assertEqual(connection.getresponse().read1(), b"data: 0\n\n")
        connection.close()
        self.assertEqual(self.wait(asked)[0].body, self.get("/f/left/pid").body)
        self.worker.wait_for(lambda: self.in_flight("left") == [0])

    def test_the_number_can_be_changed_while_requests_are_in_it(self):
        self.create_http("tuned", http_concurrency=4)
        self.get("/f/tuned/pid")
        asked = self.at_once(["/f/tuned/late?s=3"] * 3)
        self.worker.wait_for(lambda: self.in_flight("tuned") == [3])
        first = self.sandboxes_of("tuned")[0]["id"]
        self.worker.tag("tuned", {"lambent:http-concurrency": "1"})
        self.assertTrue(self.get("/f/tuned/pid").body)
        self.assertIn(first, [each["id"] for each in self.sandboxes_of("tuned")], "the program is kept")
        self.wait(asked)

    def test_mistakes_are_told(self):
        for value in ("0", "1001", "many"):
            error = self.error_of(self.create_http, "wrong", http_concurrency=value)
            self.assertEqual(error.status, 400)
            self.assertIn("1 to 1000", error.body.decode())


if __name__ == "__main__":
    unittest.main()
