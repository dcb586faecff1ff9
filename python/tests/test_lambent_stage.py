"""One stage process of a pipeline against channels whose other ends are in the test, and served by lambent_runtime."""
import json
import os
import subprocess
import sys
import unittest
from unittest import mock

from pipeline_apps import APP, PYTHON, Folder, answer_to
from test_lambent_runtime import FakeRuntimeApi

from lambent.pipeline import channel, stage_processes
from lambent.pipeline.stage import Stage, StageError, job_of_unparsed


class StageTest(Folder):
    """A stage process against channels whose other ends are here."""

    def setUp(self):
        super().setUp()
        self.write(APP)
        self.import_anew()
        self.path = os.path.join(self.folder, "channel")
        channel.create(self.path, 4, 1 << 20)
        self.description = {"handler": "app.App", "stage_process": 1, "components": ["pair", "minus", "plus"], "sends": [],
                            "receives": [{"channel": self.path, "value": "double"}], "outputs": ["pair"]}

    def stage(self):
        stage = Stage(self.description, stage_processes.load_app("app.App", self.folder)()).open()
        self.addCleanup(stage.close)
        return stage

    def job(self, number, *numbers):
        return {"job": number, "requests": len(numbers), "events": [{"n": n} for n in numbers]}

    def test_values_of_jobs_that_were_given_up_are_passed_over(self):
        stage, before = self.stage(), channel.SendingEnd(self.path)
        for number in range(3):
            before.send(number, [2 * number])
        self.assertEqual(stage.serve(self.job(2, 2))["results"], [{"value": answer_to(2)}])

    def test_a_job_that_the_stage_process_before_never_had_fails_and_the_next_does_not(self):
        stage, before = self.stage(), channel.SendingEnd(self.path)
        before.send(5, [2 * 5])
        result, = stage.serve(self.job(4, 4))["results"]
        self.assertEqual(result["error"]["errorType"], "Channel.Skipped")
        self.assertEqual(stage.serve(self.job(5, 5))["results"], [{"value": answer_to(5)}])

    def test_jobs_of_different_sizes_are_an_error(self):
        stage, before = self.stage(), channel.SendingEnd(self.path)
        before.send(0, [2, 4])
        result, = stage.serve(self.job(0, 1))["results"]
        self.assertEqual(result["error"]["errorType"], "Channel.Malformed")

    def test_a_stage_process_waits_no_longer_than_its_job_may_take(self):
        stage, before = self.stage(), channel.SendingEnd(self.path)
        answer = stage.serve(self.job(0, 1), remaining_ms=1)
        self.assertEqual(answer["results"][0]["error"]["errorType"], "Channel.TimedOut")
        self.assertNotIn("broken", answer)
        before.send(0, [2])
        before.send(1, [4])
        self.assertEqual(stage.serve(self.job(1, 2))["results"], [{"value": answer_to(2)}])

    def test_a_value_for_which_no_slot_comes_free_in_time_is_lost_alone(self):
        self.description.update(components=["double"], receives=[], outputs=[], sends=[{"channel": self.path, "value": "double", "to": 1}])
        stage, after = self.stage(), channel.ReceivingEnd(self.path)
        for number in range(5):  # of which four have a slot
            self.assertNotIn("broken", stage.serve(self.job(number, number), remaining_ms=1 if number == 4 else None))
        for number in range(4):
            self.assertEqual(after.wait(), (number, 1))
            self.assertEqual(after.take(1), [2 * number])
        stage.serve(self.job(5, 5))
        self.assertEqual(after.wait(), (5, 1))

    def test_what_was_sent_before_the_stage_process_before_went_is_still_served(self):
        stage, before = self.stage(), channel.SendingEnd(self.path)
        before.send(0, [2])
        before.close()
        self.assertEqual(stage.serve(self.job(0, 1))["results"], [{"value": answer_to(1)}])
        answer = stage.serve(self.job(1, 2))
        self.assertEqual(answer["results"][0]["error"]["errorType"], "Channel.PeerGone")
        self.assertIn("gone", answer["broken"])

    def test_replicas_of_the_stage_process_before_send_in_turn(self):
        other = os.path.join(self.folder, "other")
        channel.create(other, 4, 1 << 20)
        self.description["receives"].append({"channel": other, "value": "double"})
        stage, before = self.stage(), [channel.SendingEnd(self.path), channel.SendingEnd(other)]
        for number, turn in ((3, 0), (5, 1), (6, 2)):
            before[turn % 2].send(number, [2 * number])
        for number, turn in ((3, 0), (5, 1), (6, 2)):
            self.assertEqual(stage.serve(dict(self.job(number, number), turn=turn))["results"], [{"value": answer_to(number)}])

    def test_each_job_goes_to_one_replica_of_each_stage_process_that_needs_it(self):
        paths = [os.path.join(self.folder, name) for name in ("left", "right", "alone")]
        for path in paths:
            channel.create(path, 4, 1 << 20)
        self.description.update(components=["double"], receives=[], outputs=[], sends=[
            {"channel": path, "value": "double", "to": to} for path, to in zip(paths, (1, 1, 2))])
        stage, after = self.stage(), [channel.ReceivingEnd(path) for path in paths]
        broken = b'{"job":8,"requests":1,"turn":3,"events":[%s]}' % (b"1" * 5000)
        for number, turn in ((3, 0), (5, 1), (6, 2)):
            stage.serve(dict(self.job(number, number), turn=turn))
        stage.serve(job_of_unparsed(broken, ValueError()))
        for end, numbers in zip(after, ((3, 6), (5, 8), (3, 5, 6, 8))):
            for number in numbers:
                self.assertEqual(end.wait(1000), (number, 1))
                end.drop()

    def first_stage_process(self):
        self.description.update(components=["double"], receives=[], outputs=[], sends=[{"channel": self.path, "value": "double", "to": 1}])
        return self.stage(), channel.ReceivingEnd(self.path)

    def test_a_job_keeps_no_value_that_it_does_not_need_any_more(self):
        """What the job holds when each component runs, and when it goes out."""
        def kept(**stage_process):
            self.description.update(stage_process)
            stage, found = self.stage(), []
            job, run = stage.begin(self.job(0, 1)), stage._runner.run

            def noted(name, inputs):
                found.append(set(job.values))
                return run(name, inputs)
            stage._runner.run = noted
            return found + [set(stage.work(job).values)]
        self.assertEqual(kept(components=["double", "plus", "minus", "pair"], receives=[]),
                         [{"$n"}, {"double"}, {"double", "plus"}, {"plus", "minus"}, {"pair"}])
        self.assertEqual(kept(outputs=["plus", "pair"])[-1], {"plus", "pair"})
        sends = [{"channel": os.path.join(self.folder, name), "value": name, "to": 1} for name in ("plus", "minus")]
        for entry in sends:
            channel.create(entry["channel"], 1, 1 << 20)
        self.assertEqual(kept(components=["double", "plus", "minus"], outputs=[], sends=sends)[-1], {"minus"}, "the other is sent")

    def test_who_waits_for_a_job_that_cannot_be_read_gets_its_failure(self):
        stage, after = self.first_stage_process()
        body = b'{"job":4,"requests":2,"events":[{"n":%s},{"n":1}]}' % (b"1" * 5000)
        with self.assertRaises(ValueError) as raised:
            json.loads(body)
        for number, job in ((3, {"job": 3, "requests": 1, "events": []}), (4, job_of_unparsed(body, raised.exception))):
            stage.serve(job)
            found, requests = after.wait(1000)
            self.assertEqual((found, requests), (number, job["requests"]))
            self.assertEqual([value.error_type for value in after.take(requests)], ["StageError"] * requests)
        with self.assertRaises(ValueError):
            job_of_unparsed(b"nothing", raised.exception)

    def test_who_waits_for_what_the_device_failed_to_decode_gets_its_failure(self):
        stage, after = self.first_stage_process()
        with mock.patch("lambent.pipeline.stage.complete_own_work", side_effect=RuntimeError("CUDA error 700")):
            stage.serve({"job": 3, "requests": 2, "events": [{"n": 1}, {}]})
        self.assertEqual(after.wait(1000), (3, 2))
        self.assertEqual([value.error_type for value in after.take(2)], ["RuntimeError", "ValueError"])
        stage.serve(self.job(4, 4))
        self.assertEqual(after.wait(1000), (4, 1))
        self.assertEqual(after.take(1), [8])

    def test_the_runtime_answers_a_job_that_it_cannot_read(self):
        self.description.update(components=["double"], receives=[], outputs=["double"])
        self.write(APP.replace('pair = outputs["pair"]', 'return outputs'))
        with open(os.path.join(self.folder, "stage.json"), "w", encoding="utf-8") as file:
            json.dump(self.description, file)
        body = b'{"job":4,"requests":1,"events":[%s]}' % (b"1" * 5000)
        (path, _, answer), = self.serve("not.used", [body], LAMBENT_STAGE=os.path.join(self.folder, "stage.json"))
        self.assertTrue(path.endswith("/response"), answer)
        self.assertIn("cannot be read", json.loads(answer)["results"][0]["error"]["errorMessage"])

    def test_texts_that_are_no_utf_8_spoil_their_own_request_alone(self):
        self.write("""
            from lambent.pipeline import Component, Pipeline
            class Say(Component):
                def forward(self, n):
                    if n == 1:
                        raise ValueError("\\ud800")
                    return "fine" if n == 0 else "bad"
            class App(Pipeline):
                def define_dag(self, n):
                    return self.register("say", Say, n)
                def encode(self, outputs):
                    return {"say": outputs["say"] if outputs["say"] == "fine" else "\\ud800"}
                def decode(self, event):
                    return {"n": event["n"]["deep"]} if event["n"] == 3 or event["n"] == {} else {"n": event["n"]}
            """)
        self.description.update(components=["say"], receives=[], outputs=["say"])
        answer = self.stage().serve({"job": 0, "requests": 4, "events": [{"n": n} for n in (0, 1, 2, {})]})
        json.dumps(answer, ensure_ascii=False).encode()
        fine, raised, returned, key = answer["results"]
        self.assertEqual(fine, {"value": {"say": "fine"}})
        self.assertEqual(raised["error"]["errorMessage"], "component 'say': ?")
        self.assertEqual(returned["error"]["errorType"], "UnicodeEncodeError")
        # What decode() itself raises is told as it is.
        self.assertEqual(key["error"], {"errorType": "KeyError", "errorMessage": "'deep'"})

    def test_jobs_and_descriptions_that_make_no_sense_are_refused(self):
        stage = self.stage()
        for job in (None, {}, {"job": 1}, {"job": "1", "requests": 1}, {"job": 1, "requests": -1}):
            with self.assertRaises(StageError):
                stage.serve(job)
        app = stage_processes.load_app("app.App", self.folder)()
        for change, words in (({"components": ["x"]}, "no component 'x': pipeline.json does not match the code"), ({"components": 5}, "no list of names"),
                              ({"receives": []}, "needs 'double'"), ({"receives": [{"value": 1}]}, "no list of channels"),
                              ({"outputs": ["double2"]}, "no component 'double2'"),
                              ({"sends": [{"channel": "c", "value": "$m"}]}, "no component")):
            with self.assertRaisesRegex(StageError, words):
                Stage(dict(self.description, **change), app)

    def test_the_runtime_serves_the_stage_process_that_its_environment_names(self):
        before = channel.SendingEnd(self.path)
        before.send(3, [2 * 7, 2 * 8])
        with open(os.path.join(self.folder, "stage.json"), "w", encoding="utf-8") as file:
            json.dump(self.description, file)
        posts = self.serve("not.used", [self.job(3, 7, 8)], LAMBENT_STAGE=os.path.join(self.folder, "stage.json"))
        (path, _, body), = posts
        self.assertTrue(path.endswith("/response"), body)
        answer = json.loads(body)
        self.assertEqual(answer["results"], [{"value": answer_to(7)}, {"value": answer_to(8)}])
        self.assertEqual(set(answer["components"]), {"plus", "minus", "pair"})
        self.assertEqual(set(answer["components"]["plus"]), {"ms", "ran", "memory", "weights", "output"})

    def test_without_a_stage_the_runtime_serves_the_whole_pipeline(self):
        posts = self.serve("app.App", [{"n": 6}, {"n": 13}])
        self.assertEqual(json.loads(posts[0][2]), answer_to(6))
        self.assertTrue(posts[1][0].endswith("/error"))

    def test_a_stage_that_cannot_start_is_an_error_of_init(self):
        for environment, words in (({"LAMBENT_STAGE": "/nowhere"}, "/nowhere"), ({"FAIL_SETUP": "1"}, "component 'plus': no weights")):
            (path, _, body), = self.serve("app.App", [], **environment)
            self.assertTrue(path.endswith("/init/error"))
            self.assertIn(words, json.loads(body)["errorMessage"])

    def serve(self, handler, events, **environment):
        api = FakeRuntimeApi([("application/json", event if isinstance(event, bytes) else json.dumps(event).encode()) for event in events])
        run = subprocess.run([sys.executable, "-m", "lambent_runtime", handler], cwd=self.folder, timeout=60, check=False,
                             env=dict(os.environ, AWS_LAMBDA_RUNTIME_API=api.address, PYTHONPATH=PYTHON,
                                      LAMBDA_TASK_ROOT=self.folder, **environment), capture_output=True)
        api.close()
        self.assertTrue(api.posts, run.stderr.decode())
        return api.posts


if __name__ == "__main__":
    unittest.main()
