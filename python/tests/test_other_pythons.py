"""The SDK and the runtime by the other versions of Python that this machine has: python3.10 to python3.14 of the PATH, of pyenv, and that
which tools/dev/newer_python.sh brings (./dev test --all)."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

BROUGHT = pathlib.Path(__file__).resolve().parents[2] / ".cache"
VERSIONS = ["3.%d" % minor for minor in range(10, 15)]
MODULES = ["test_lambent_app", "test_lambent_client", "test_lambent_contexts", "test_lambent_runtime", "test_lambent_several", "test_lambent_workflow"]
if "LAMBENT_PREFIX" in os.environ:
    MODULES += ["test_lambent_overlap", "test_lambent_pipeline", "test_lambent_stage", "test_lambent_stage_processes"]


def programs():
    """{version: program} of those that run and are not this one."""
    found = {}
    for version in VERSIONS:
        candidates = [shutil.which("python" + version), *sorted(pathlib.Path.home().glob(".pyenv/versions/%s.*/bin/python3" % version)),
                      *BROUGHT.glob("python%s/usr/bin/python%s" % (version, version))]
        for program in filter(None, candidates):
            said = subprocess.run([program, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], capture_output=True, text=True,
                                  timeout=60, check=False)
            if said.returncode == 0 and said.stdout.strip() == version != "%d.%d" % sys.version_info[:2]:
                found[version] = str(program)
                break
    return found


class OtherPythonsTest(unittest.TestCase):
    def test_every_other_python_passes_the_same_tests(self):
        found = programs()
        if not found:
            self.skipTest("this machine has no other Python")
        for version, program in found.items():
            with self.subTest(version):
                done = subprocess.run([program, "-B", "-m", "unittest", *MODULES], cwd=pathlib.Path(__file__).parent, capture_output=True,
                                      text=True, timeout=600, check=False)
                self.assertEqual(done.returncode, 0, done.stderr[-3000:])
                print("Python %s: %s" % (version, re.search(r"Ran (\d+ tests)", done.stderr)[1]))


if __name__ == "__main__":
    unittest.main()
