"""lambent.pipeline: DAGs and their mistakes, values, running in one process."""
import contextlib
import io
import json
import os
import types
import unittest
from unittest import mock

from pipeline_apps import APP, PYTHON, Folder, answer_to

from lambent.pipeline import Component, Pipeline, PipelineError, channel, dag, stage_processes, values
from lambent.pipeline.meter import DeviceMeter
from lambent.pipeline.profile import merge
from lambent.pipeline.runner import Runner


class Identity(Component):
    def forward(self, *inputs):
        return inputs[0]


def pipeline_of(define, **attributes):
    return type("Made", (Pipeline,), dict(attributes, define_dag=define))()


class DagTest(Folder):
    def refused(self, define, words, **attributes):
        with self.assertRaisesRegex(PipelineError, words):
            pipeline_of(define, **attributes).to_json("app.App")

    def test_build_writes_what_define_dag_registers(self):
        self.write(APP)
        code, out, error = self.program("build", "app.App")
        self.assertEqual((code, error), (0, ""))
        self.assertEqual(json.loads(out), {
            "pipeline": 1, "handler": "app.App", "inputs": ["n"],
            "components": [{"name": "double", "inputs": ["$n"]}, {"name": "plus", "inputs": ["double"]},
                           {"name": "minus", "inputs": ["double"], "optional": True},
                           {"name": "pair", "inputs": ["plus", "minus"]}],
            "outputs": ["pair"], "slo": {"ms": 200}, "batch": 4})
        code, out, _ = self.program("build", "app.App", "-o", "pipeline.json")
        self.assertEqual(code, 0)
        self.assertIn("4 components", out)

    def test_reg_names_a_component_after_its_class_and_outputs_are_what_nobody_needs(self):
        class SuperResolution(Identity):
            pass

        def define(self, x, y):
            a = SuperResolution.reg(self, x)
            Identity.reg(self, a, y, name="second")
            Identity.reg(self, a, name="third")

        document = pipeline_of(define, slo_scale=1.5, rank="balance", isolation="auto").to_json("m.C")
        self.assertEqual([c["name"] for c in document["components"]], ["super_resolution", "second", "third"])
        self.assertEqual(document["outputs"], ["second", "third"])
        self.assertEqual((document["slo"], document["rank"]), ({"scale": 1.5}, "balance"))
        self.assertEqual(document["isolation"], "auto")

    def test_mistakes_are_named(self):
        def one(self, x):
            return self.register("a", Identity, x)

        self.refused(lambda self: None, "takes no input")
        self.refused(lambda self, x: None, "registered no component")
        self.refused(lambda self, *x: None, "name each input")
        self.refused(lambda self, x: self.register("a b", Identity, x), "component 'a b'.*no name")
        self.refused(lambda self, x: self.register("a", Identity), "component 'a': it has no input")
        self.refused(lambda self, x: self.register("a", Identity, 5), "input 0 is 5")
        self.refused(lambda self, x: self.register("a", Identity, x, when=True), "when= is True")
        self.refused(lambda self, x: self.register("a", 5, x), "5 is no module")
        self.refused(lambda self, x: self.register("a", int, x), "int is no class of a component")
        self.refused(lambda self, x: self.register("a", type("Bare", (Component,), {}), x, k=1), "Bare .*no forward")
        self.refused(lambda self, x: [one(self, x), one(self, x)], "two of that name")
        self.refused(lambda self, x: [one(self, x), x], "the input \\$x")
        self.refused(lambda self, x: [one(self, x)] * 2, "returned a twice")
        self.refused(lambda self, x: (one(self, x), 5), "returned .*5")
        self.refused(lambda self, x: [self.register("b", Identity, x), one(self, x)][:1], "component 'a': nothing needs it")
        self.refused(lambda self, x: one(self, x) if x else None, "cannot look at values")
        self.refused(one, "give one of them", slo_ms=1, slo_scale=1)
        self.refused(one, "slo_ms is 0", slo_ms=0)
        self.refused(one, "batch is 0", batch=0)
        self.refused(one, "rank is 'best'", rank="best")
        self.refused(one, "isolation is 'none'", isolation="none")

    def test_the_program_says_what_is_wrong_with_the_module(self):
        self.write("class App: pass\nimport nothing_such\n")
        for name, words in (("app.App", "nothing_such"), ("missing.App", "missing"), ("App", "module.function")):
            code, _, error = self.program("build", name)
            self.assertEqual(code, 1)
            self.assertIn(words, error)


    def test_the_program_tells_what_user_code_raises_without_our_frames(self):
        self.write(json.dumps({"n": 13}), "event.json")
        for source, verb, words in (
                (APP, "run", "component 'double': ValueError: 13 is unlucky"),
                (APP.replace("13 is unlucky\")", "\" + nothing)"), "run", "component 'double': NameError"),
                (APP.replace("doubled = self", "doubled = nothing"), "build", "lambent.pipeline: NameError: name 'nothing'"),
                (APP.replace("n == 13", "False").replace('"n": event["n"]', '"n": {1}'), "run", "is no JSON")):
            self.write(source)
            event = () if verb == "build" else ("--event", "event.json")
            code, _, error = self.program(verb, "app.App", *event)
            self.assertEqual(code, 1)
            self.assertIn(words, error)
            self.assertNotIn("Traceback", error)
            self.assertNotIn("lambent/pipeline", error)


class MergeTest(unittest.TestCase):
    @staticmethod
    def profile_of(shape, ms, batch_ms=None):
        network = {"weights_mb": 1, "memory_mb": 1, "output_bytes": 4, "probability": 1.0, "ms": {shape: ms}}
        if batch_ms:
            network["batch_ms"] = {shape: batch_ms}
        return {"profile": 1, "context_mb": 1, "start_ms": 1, "shapes": {shape: {}}, "components": {"network": network}}

    def test_batches_of_a_shape_that_was_measured_without_are_dropped_and_those_of_others_stay(self):
        old = merge(self.profile_of("small", 10, {"2": 12}), self.profile_of("large", 5, {"2": 6}))
        self.assertEqual(old["components"]["network"]["batch_ms"], {"small": {"2": 12}, "large": {"2": 6}})
        new = merge(old, self.profile_of("small", 9))["components"]["network"]
        self.assertEqual(new["batch_ms"], {"large": {"2": 6}})
        self.assertEqual(new["ms"], {"small": 9, "large": 5})


class RunTest(Folder):
    def setUp(self):
        super().setUp()
        self.write(APP)
        self.import_anew()
        self.app = stage_processes.load_app("app.App", self.folder)

    def test_an_app_runs_in_one_process(self):
        app = self.app()
        for n in (1, 5, 6, 100):
            self.assertEqual(app.run({"n": n}), answer_to(n))
        with self.assertRaisesRegex(ValueError, "unlucky"):
            app.run({"n": 13})
        with self.assertRaisesRegex(ValueError, "no 'n'"):
            app.run({})

    def run_components(self, module, inputs, **register):
        app = pipeline_of(lambda self, *x: None)
        graph = dag.Dag(["x"])
        reference = graph.add("only", module, [dag.Reference(graph, "$x")], register.get("when"))
        graph.finish(reference)
        runner = Runner(graph.nodes.values())
        runner.setup()
        del app
        with contextlib.redirect_stderr(io.StringIO()):
            return runner.run("only", inputs), runner.measured["only"]

    def test_one_request_that_fails_fails_alone(self):
        class Inverse(Component):
            def forward(self, x):
                return 1 / x

        before = values.Failed("Earlier", "before")
        outputs, measured = self.run_components(Inverse, [(2,), (0,), (before,), (4,)])
        self.assertEqual((outputs[0], outputs[3]), (0.5, 0.25))
        self.assertEqual(outputs[1].error_type, "ZeroDivisionError")
        self.assertIn("component 'only'", outputs[1].message)
        self.assertIs(outputs[2], before)
        self.assertEqual(measured.ran, 3)

    def test_where_the_condition_does_not_hold_the_first_input_passes_through(self):
        outputs, measured = self.run_components(lambda: Identity(), [(1,), (2,), (None,)], when=lambda x: x > 1)
        self.assertEqual(outputs[:2], [1, 2])
        self.assertEqual(outputs[2].error_type, "TypeError")
        self.assertEqual(measured.ran, 1)

    def test_what_decode_began_is_waited_for_even_if_all_of_it_passes_through(self):
        with mock.patch.object(DeviceMeter, "synchronize") as waited:
            self.run_components(Identity, [(values.Failed("Earlier", "before"),)])
            waited.assert_not_called()
            outputs, measured = self.run_components(Identity, [(1,), (2,)], when=lambda x: False)
            waited.assert_called_once()
        self.assertEqual((outputs, measured.ran), ([1, 2], 0))

    def test_values_come_apart_and_together(self):
        for value in (None, 5, "é", [1, [2.5, True]], {"a": {"b": []}}, (1, (2,)), {"$x": 1, "y": {3: 4}}, [b"raw", b"", (b"x",)]):
            text, leaves = values.take_apart(value)
            tensors = [bytes(leaf.owner) for leaf in leaves]
            self.assertEqual(values.put_together(text, tensors), value)
        for value in (object(), {"a": {1, 2}}, [lambda: 0]):
            with self.assertRaisesRegex(values.ValueRefused, "cannot be handed on"):
                values.take_apart(value)
        for text in ("[", '{"$tensor": 1}', '{"$tensor": -1}', '{"$tuple": 5}', '{"$dict": [1]}', '{"$dict": [[[], 1]]}'):
            with self.assertRaises(values.ValueRefused):
                values.put_together(text, [b"only"])

    def test_an_exception_that_cannot_say_what_it_is_has_failed_as_any(self):
        class Mute(Exception):
            def __str__(self):
                raise KeyError(1)

        self.assertEqual(values.failed_by(Mute(), "x: ").message, "x: (the __str__ of Mute raised KeyError)")

    def test_datatypes_are_those_of_the_channel(self):
        with open(os.path.join(PYTHON, "..", "src/gpu/stage_channel/datatypes.h"), encoding="utf-8") as file:
            text = file.read()
        words = [line.strip().split(" ")[0].strip(",") for line in text.splitlines() if line.strip().startswith("k")]
        self.assertEqual([word[1:].lower() for word in words], list(values.DATATYPES))


class TensorOfTorch:
    """What values.py asks of one on a device, at an address; `made_contiguous` is the address of the copy, if it needs one."""

    dtype, shape, device, layout = "torch.float32", (2, 2), types.SimpleNamespace(type="cuda"), "torch.strided"

    def __init__(self, address, made_contiguous=None):
        self.address, self.made_contiguous = address, made_contiguous or address

    def detach(self):
        return TensorOfTorch(self.address, self.made_contiguous)

    resolve_conj = resolve_neg = detach

    def contiguous(self):
        return TensorOfTorch(self.made_contiguous)

    def data_ptr(self):
        return self.address

    def numel(self):
        return 4

    def element_size(self):
        return 4


class TorchTest(Folder):
    """With a stand-in for torch, of which the current stream is 77."""

    def setUp(self):
        super().setUp()
        cuda = types.SimpleNamespace(current_stream=lambda _: types.SimpleNamespace(cuda_stream=77))
        torch = mock.patch.dict("sys.modules", torch=types.SimpleNamespace(Tensor=TensorOfTorch, cuda=cuda))
        torch.start()
        self.addCleanup(torch.stop)
        path = os.path.join(self.folder, "channel")
        channel.create(path, 1, 1 << 20)
        self.end = channel.SendingEnd(path)
        self.addCleanup(self.end.close)

    def stream_of(self, value, complete):
        """What the copies follow, and the addresses that they are made from."""
        with mock.patch.object(self.end, "_functions") as functions:
            functions.lambent_stage_send.return_value = channel.DONE
            self.end.send(0, [value], complete=complete)
        _, _, _, entries, count, stream, _ = functions.lambent_stage_send.call_args.args
        return stream, [entry.address for entry in entries[:count] if entry.on_device]

    def test_a_copy_that_is_made_to_be_sent_is_followed_even_if_the_value_is_complete(self):
        as_it_is, permuted = TensorOfTorch(1 << 20), TensorOfTorch(2 << 20, 3 << 20)
        self.assertEqual(self.stream_of(as_it_is, True), (values.NO_STREAM, [1 << 20]))
        self.assertEqual(self.stream_of(as_it_is, False), (77, [1 << 20]))
        self.assertEqual(self.stream_of(permuted, True), (77, [3 << 20]))
        self.assertEqual(self.stream_of({"a": permuted, "b": as_it_is}, True), (77, [3 << 20, 1 << 20]))


if __name__ == "__main__":
    unittest.main()
