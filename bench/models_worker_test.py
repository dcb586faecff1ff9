#!/usr/bin/env python3
"""What bench models draws, what its client of explicit loading does, and what the part through a worker says where something is missing: a
program, a library, any answer."""
import collections
import gzip
import pathlib
import random
import sys
import tempfile
import threading
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import models_arrivals  # noqa: E402
import models_worker  # noqa: E402
from models_explicit import ExplicitLoader  # noqa: E402

# A day of four functions from minute 539 on: the second is never called, the third too often for one device.
TRACE = (539, [[9, 1, 0, 2], [0, 0, 0, 0], [300, 300, 300, 300], [5, 0, 3, 0]])


class ArrivalsTest(unittest.TestCase):
    def test_a_trace_is_read_with_its_first_minute(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "invocations.csv.gz"
            with gzip.open(path, "wt") as file:
                file.write("HashOwner,Trigger,480,481\na,timer,1,0\nb,http,7,2\n")
            self.assertEqual(models_arrivals.read_trace(path), (480, [[1, 0], [7, 2]]))

    def test_functions_that_none_calls_or_no_device_serves_are_not_drawn(self):
        rows = models_arrivals.drawn_functions(TRACE, 10, random.Random(1))
        self.assertEqual(sorted(rows), [[0, 3, 0], [1, 0, 2]])
        self.assertEqual(models_arrivals.busiest(TRACE[1]), [TRACE[1][0], TRACE[1][3]])
        drawn = [models_arrivals.drawn_functions(TRACE, 1, random.Random(seed))[0] for seed in range(20)]
        self.assertEqual({tuple(row) for row in drawn}, {(0, 3, 0), (1, 0, 2)}, "each may be drawn")

    def test_calls_are_in_their_minutes_and_the_same_for_a_seed(self):
        rows = [[1, 0, 2], [0, 3, 0]]
        calls = models_arrivals.calls_of(rows, 0, 180, random.Random(3))
        self.assertEqual(calls, sorted(calls))
        self.assertEqual(collections.Counter((number, int(at // 60)) for at, number in calls), {(0, 0): 1, (0, 2): 2, (1, 1): 3})
        self.assertEqual(calls, models_arrivals.calls_of(rows, 0, 180, random.Random(3)))
        later = models_arrivals.calls_of(rows, 1, 90, random.Random(3))
        self.assertEqual(sum(number == 1 for _, number in later), 3)
        self.assertLess(max(at for at, _ in later), 90)

    def test_rounds_follow_each_other_and_the_hot_ones_are_called_most_after_the_warm_up(self):
        # In the first minute the first function is called, after it the second.
        rows = [[60] + [0] * 5, *([0, 30 - 3 * number, 0, 30 - 3 * number, 0, 0] for number in range(6))]
        plan = models_worker.Plan(models=7, rounds=2, warm_up=60, seconds=60)
        with mock.patch.object(models_arrivals, "drawn_functions", lambda *_: rows):
            sizes, rounds, hot = models_worker.workload(plan, TRACE, random.Random(1))
        self.assertEqual([len(calls) for calls in rounds], [60 + 135, 135])
        self.assertEqual(hot, {"m001", "m002", "m003", "m004", "m005"})
        self.assertEqual(set(sizes), {f"m{number:03}" for number in range(7)})


class ExplicitLoaderTest(unittest.TestCase):
    def setUp(self):
        self.told = []
        self.loader = ExplicitLoader({"a": 4, "b": 4, "c": 4, "large": 8, "huge": 20}, 10,
                                     lambda name: self.told.append(f"load {name}"), lambda name: self.told.append(f"unload {name}"))

    def use(self, *names):
        for name in names:
            with self.loader.loaded(name):
                pass
        told, self.told[:] = [*self.told], []
        return told

    def test_the_least_recently_used_leaves_and_before_the_other_comes(self):
        self.assertEqual(self.use("a", "b", "a"), ["load a", "load b"])
        self.assertEqual(self.use("c"), ["unload b", "load c"])
        self.assertEqual(self.use("large"), ["unload a", "unload c", "load large"])
        self.assertEqual(self.use("large"), [])

    def test_one_that_is_larger_than_all_room_is_loaded_by_itself(self):
        self.use("a")
        self.assertEqual(self.use("huge", "a"), ["unload a", "load huge", "unload huge", "load a"])

    def test_one_that_is_at_work_stays_and_who_needs_its_room_waits(self):
        began = threading.Event()

        def other():
            began.set()
            self.use_large()
        with self.loader.loaded("a"):
            self.use("b")
            self.assertEqual(self.use("c"), ["unload b", "load c"])
            waiting = threading.Thread(target=other)
            waiting.start()
            began.wait()
            waiting.join(0.05)
            self.assertTrue(waiting.is_alive())
            self.assertEqual(self.told, [])
        waiting.join()
        self.assertEqual(self.told, ["unload a", "unload c", "load large"])

    def use_large(self):
        with self.loader.loaded("large"):
            pass

    def test_who_asks_while_it_is_loaded_waits_for_that(self):
        loading, may_end, order = threading.Event(), threading.Event(), []

        def load(_):
            loading.set()
            may_end.wait()
            order.append("loaded")

        def ask():
            with self.loader.loaded("a"):
                order.append("asked")
        self.loader.load = load
        first, second = threading.Thread(target=ask), threading.Thread(target=ask)
        first.start()
        loading.wait()
        second.start()
        second.join(0.05)
        may_end.set()
        first.join()
        second.join()
        self.assertEqual(order, ["loaded", "asked", "asked"])


class ModelsWorkerTest(unittest.TestCase):
    def test_latencies_are_of_what_was_answered(self):
        figures = models_worker.figures([0.5, None, 1.5])
        self.assertEqual((figures["calls"], figures["failed"], figures["mean_s"], figures["p99_s"]), (3, 1, 1.0, 1.5))
        self.assertEqual(models_worker.over(figures, {"mean_s": 0.5, "p50_s": 3.0, "p99_s": 1.5}), {"mean_s": 2, "p50_s": 0.5, "p99_s": 1})

    def test_there_are_none_where_nothing_was_answered(self):
        none = models_worker.figures([None, None])
        self.assertEqual(none, {"calls": 2, "failed": 2, "mean_s": None, "p50_s": None, "p99_s": None})
        self.assertEqual(models_worker.figures([])["calls"], 0)
        some = models_worker.figures([1.0])
        for pair in ((none, some), (some, none)):
            self.assertEqual(set(models_worker.over(*pair).values()), {None})

    def test_rounds_are_told_together_and_one_by_one(self):
        turn = lambda answers, loads, held: mock.Mock(answers=answers, loads=collections.Counter(loads), held=held, load_1min=1.0)  # noqa: E731
        turns = [turn([("a", 0.1), ("b", 0.5)], {"b": 2}, [10, 20]), turn([("a", 0.3), ("b", None)], {"a": 1}, [30])]
        told = models_worker.summary(turns, {"a": 4, "b": 16}, {"a"}, {"mean_s": 0.1, "p50_s": 0.1, "p99_s": 0.1})
        self.assertEqual((told["calls"], told["failed"], told["loads"], told["hot_loads"], told["loaded_mib"]), (4, 1, 3, 1, 36))
        self.assertEqual((told["held_mib"], told["hot"]["calls"], told["hot_over_alone"]["mean_s"]), ({"mean": 20, "most": 30}, 2, 2))
        self.assertEqual([(each["loads"], each["p50_s"]) for each in told["rounds"]], [(2, 0.1), (1, 0.3)])

    def test_models_that_are_kept_are_ready_before_the_first_call(self):
        worker = mock.Mock()
        states = iter([["starting"], ["idle"]])
        with mock.patch.object(models_worker, "sandboxes", lambda _: [{"function": "a", "state": state} for state in next(states)]):
            models_worker.keep(worker, {"a"})
        self.assertEqual(next(states, None), None)
        (verb, path, body), _ = worker.request.call_args
        self.assertEqual((verb, path.endswith("function%3Aa"), "min-instances" in body), ("POST", True, True))
        with mock.patch.object(models_worker, "sandboxes", lambda _: []), mock.patch.object(models_worker, "KEPT_WITHIN_S", 0):
            with self.assertRaisesRegex(SystemExit, "not ready.*a"):
                models_worker.keep(worker, {"a"})

    def test_what_is_missing_is_the_reason_to_skip(self):
        with mock.patch.object(models_worker, "find_library", lambda: None), mock.patch.object(models_worker.shutil, "which", lambda _: "/bin/sh"):
            self.assertIn("there is no onnxruntime", models_worker.run(models_worker.QUICK, random.Random(1))["skipped"])
        with mock.patch.object(models_worker, "ROOT", pathlib.Path("/none")), mock.patch.object(models_worker.shutil, "which", lambda _: None):
            self.assertEqual(models_worker.run(models_worker.QUICK, random.Random(1)), {"skipped": "there is no uv", "systems": {}})


if __name__ == "__main__":
    unittest.main()
