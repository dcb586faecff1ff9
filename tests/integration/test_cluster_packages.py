"""Python packages of functions on several nodes: each installs them from its own index; a node that lacks one for a while gets the
function once it is there; a lock makes versions equal. From folders of wheels that this test writes."""
import hashlib
import json
import os
import pathlib
import shutil
import tempfile
import unittest

from harness import make_zip
from python_wheels import write_wheel
from test_cluster import Cluster
from test_python_packages import UV

HANDLER = "import pear\ndef handler(event, context):\n    return pear.VERSION\n"


@unittest.skipUnless(os.path.exists(UV), "there is no uv")
class PackagesTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="lambent-cluster-packages-")))
        self.wheels = {}
        for name in "ab":
            self.wheels[name] = self.folder / name
            self.wheels[name].mkdir()

    def begin(self):
        self.cluster = Cluster(self, names="ab", flags=("--uv", str(UV), "--python-offline"),
                               own_flags={name: ("--python-wheels", str(folder)) for name, folder in self.wheels.items()})
        self.cluster.wait_until_up()

    def deploy(self, name, requirements, **more):
        package = {"app.py": HANDLER, ".lambent/python.json": json.dumps({"version": "", "requirements": requirements, **more})}
        self.cluster["a"].create(name, make_zip(package))

    def has(self, node, function):
        listed = self.cluster[node].request("GET", "/v1/functions", headers={"X-Lambent-Only-Here": "true"}).json["functions"]
        return function in {each["name"] for each in listed}

    def at(self, node, function):
        """What the function answers on that node, asked at the other one, which takes no work."""
        other = "ab".replace(node, "")
        self.cluster.set_drained(other, True)
        before = self.cluster.completed(function)[node]
        answer = self.cluster[other].invoke(function).json
        self.assertEqual(self.cluster.completed(function)[node], before + 1)
        self.cluster.set_drained(other, False)
        return answer


class OnTwoNodes(PackagesTest):
    def test_a_function_with_packages_that_is_deployed_at_one_runs_at_the_other(self):
        for folder in self.wheels.values():
            write_wheel(folder, "pear", "2.0")
        self.begin()
        self.deploy("fruit", ["pear>=1"])
        self.cluster.wait_for(lambda: self.has("b", "fruit"), seconds=60)
        self.assertEqual((self.at("a", "fruit"), self.at("b", "fruit")), ("2.0", "2.0"))
        self.assertEqual([self.cluster[name].log().count('"environment_built"') for name in "ab"], [1, 1])

    def test_a_lock_makes_versions_equal(self):
        old = write_wheel(self.wheels["a"], "pear", "1.0")
        shutil.copy(old, self.wheels["b"])
        write_wheel(self.wheels["b"], "pear", "2.0")
        self.begin()
        self.deploy("loose", ["pear"])
        self.deploy("locked", ["pear==1.0 --hash=sha256:" + hashlib.sha256(old.read_bytes()).hexdigest()], locked=True)
        self.cluster.wait_for(lambda: self.has("b", "loose") and self.has("b", "locked"), seconds=60)
        self.assertEqual((self.at("a", "loose"), self.at("b", "loose")), ("1.0", "2.0"))
        self.assertEqual((self.at("a", "locked"), self.at("b", "locked")), ("1.0", "1.0"))


class WithAnIndexThatLacksOne(PackagesTest):
    def test_the_function_comes_once_the_package_is_there(self):
        write_wheel(self.wheels["a"], "pear", "1.0")
        self.begin()
        self.deploy("fruit", ["pear"])
        # The node without it says why, and passes requests on.
        self.cluster.wait_for(lambda: '"function_not_copied"' in self.cluster["b"].log(), seconds=60)
        said = next(line for line in self.cluster["b"].log().splitlines() if '"function_not_copied"' in line)
        self.assertIn("pear", said)
        self.assertEqual(self.cluster["b"].invoke("fruit").json, "1.0")
        self.assertFalse(self.has("b", "fruit"))
        # Others hear of it, so that they send its calls elsewhere first.
        absent = {name: len(self.cluster[name].request("GET", "/v1/cluster/report").json["absent"]) for name in "ab"}
        self.assertEqual(absent, {"a": 0, "b": 1})
        # Nothing in the catalog changes.
        write_wheel(self.wheels["b"], "pear", "1.0")
        self.cluster.wait_for(lambda: self.has("b", "fruit"), seconds=120)
        self.assertEqual(self.at("b", "fruit"), "1.0")
        self.assertEqual(self.cluster["b"].request("GET", "/v1/cluster/report").json["absent"], [])
        tries = self.cluster["b"].log().count('"function_not_copied"')
        self.assertLess(tries, 7, "each waits longer than the one before")


if __name__ == "__main__":
    unittest.main()
