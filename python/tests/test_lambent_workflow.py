"""The builder of workflows: python3 -m unittest."""
import json
import os
import sys
import tempfile
import unittest

try:
    import tomllib
except ImportError:  # Python 3.10
    tomllib = None

PYTHON = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, PYTHON)
from lambent.workflow import COMPONENTS, Workflow, WorkflowError, index, item, not_  # noqa: E402


class WorkflowTest(unittest.TestCase):
    def setUp(self):
        self.flow = Workflow("traffic")

    def refused(self, message):
        return self.assertRaisesRegex(WorkflowError, message)

    def test_calls_become_components(self):
        flow = self.flow
        detect = flow.call("detector", {"image": flow.input.image}, name="detect")
        faces = flow.call("face", {"box": item, "n": index, "price": "$5", "more": [1, 2.5, None, True]},
                          for_each=detect.boxes, when=item.score >= 0.5, idempotent=True)
        audit = flow.call("log", after=[faces], when=not_(flow.input["is quiet"]), inline=True)
        flow.output({"faces": faces[0].name, "audit": audit})
        self.assertEqual(flow.json(), {
            "components": [
                {"name": "detect", "function": "detector", "input": {"image": "$input.image"}},
                {"name": "face", "function": "face",
                 "input": {"box": "$item", "n": "$index", "price": "$$5", "more": [1, 2.5, None, True]},
                 "for_each": "$detect.boxes", "when": {"ref": "$item.score", "op": ">=", "value": 0.5},
                 "idempotent": True},
                {"name": "log", "function": "log", "when": {"not": '$input["is quiet"]'}, "after": ["face"],
                 "inline": True}],
            "output": {"faces": "$face[0].name", "audit": "$log"}})

    def test_every_comparison_is_a_condition(self):
        x = self.flow.input.x
        for condition, operator in ((x == 1, "=="), (x != 1, "!="), (x < 1, "<"), (x <= 1, "<="), (x > 1, ">"),
                                    (x >= 1, ">=")):
            self.assertEqual(condition.form, {"ref": "$input.x", "op": operator, "value": 1})
        self.assertEqual((x == self.flow.input.y).form["value"], "$input.y")

    def test_what_makes_no_sense_is_refused_where_it_is_written(self):
        flow = self.flow
        a = flow.call("f", name="a")
        other = Workflow("other").call("f")
        for what, message in (
                (lambda: flow.call("f", name="a"), "there is a component 'a' already"),
                (lambda: flow.call("f", name="item"), "a meaning of its own"),
                (lambda: flow.call("no name"), "is no name for a component"),
                (lambda: flow.call("f", {"x": item}), r"'f': \$item means nothing without a for_each"),
                (lambda: flow.call("f", when=index > 1), r"\$index means nothing"),
                (lambda: flow.call("f", for_each=item.x), r"for_each: \$item.x means nothing"),
                (lambda: flow.call("f", other.x), r"\$f.x is of workflow 'other'"),
                (lambda: flow.call("f", {1: 2}), "keys are texts"),
                (lambda: flow.call("f", object()), "neither a reference nor JSON"),
                (lambda: flow.call("f", float("nan")), "no form in JSON"),
                (lambda: flow.call("f", when=True), "when is a reference or a condition"),
                (lambda: flow.call("f", after=[flow.input]), "after takes results of calls"),
                (lambda: flow.output(item), r"the output: \$item means nothing"),
                (lambda: a[-1], "counted from 0"),
                (lambda: a[1.5], "a key or a whole number"),
                (lambda: bool(a), "no value before the workflow runs"),
                (lambda: a == 1 and True, "decided when the workflow runs"),
                (lambda: not_(3), "takes a reference"),
                (lambda: flow.save("x", time_out=3), "did you mean 'timeout_s'"),
                (lambda: Workflow("empty").json(), "calls nothing yet")):
            with self.refused(message):
                what()
        with self.assertRaises(TypeError):
            list(a)
        flow.output(a)
        with self.refused("an output already"):
            flow.output(a)

    def test_what_was_refused_leaves_nothing_behind(self):
        with self.refused("means nothing"):
            self.flow.call("f", item)
        self.flow.call("f")
        self.assertEqual(len(self.flow.json()["components"]), 1)

    def test_the_limit_is_reached(self):
        for i in range(COMPONENTS):
            self.flow.call("f", name="c%d" % i)
        with self.refused("at most 256 components"):
            self.flow.call("f")

    @unittest.skipIf(tomllib is None, "this Python does not read TOML")
    def test_a_package_is_written(self):
        self.flow.call("f", self.flow.input)
        with tempfile.TemporaryDirectory() as folder:
            package = os.path.join(folder, "package")
            self.flow.save(package, timeout_s=5, description="of \"cars\" \U0001f697\x7f", tags={"team": "a\U0001f697"})
            with open(os.path.join(package, "lambent.toml"), "rb") as file:
                self.assertEqual(tomllib.load(file), {
                    "name": "traffic", "kind": "workflow", "graph": "workflow.json", "timeout_s": 5,
                    "description": "of \"cars\" \U0001f697\x7f", "tags": {"team": "a\U0001f697"}})
            with open(os.path.join(package, "workflow.json"), encoding="utf-8") as file:
                self.assertEqual(json.load(file), self.flow.json())


if __name__ == "__main__":
    unittest.main()
