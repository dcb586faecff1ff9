"""Verbs and options by their names of the version before: they do the same, and a warning says what they are called now."""
import pathlib
import subprocess
import tempfile
import unittest

from harness import PREFIX

LAMBENT = str(PREFIX / "bin/lambent")
UNAVAILABLE = 24


class FormerNamesTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="lambent-former-")))

    def both(self, former, present, *, said, expect=0):
        """The standard output by the old name, which is that by the name now."""
        shown = []
        for arguments, warnings in ((former, 1), (present, 0)):
            done = subprocess.run([LAMBENT, *map(str, arguments)], capture_output=True, text=True, timeout=60, cwd=self.folder)
            self.assertEqual(done.returncode, expect, f"{arguments}\n{done.stdout}\n{done.stderr}")
            warning = f"warning: {said} now; the next version does not know the old name\n"
            self.assertEqual(done.stderr.count(warning), warnings, done.stderr)
            self.assertEqual(done.stderr.count("warning: "), warnings, done.stderr)
            shown.append(done.stdout)
        self.assertEqual(shown[0], shown[1])
        return shown[0]

    def test_slices_list_is_ls(self):
        node = self.folder / "n.node"
        subprocess.run([str(PREFIX / "bin/emulated-gpu"), "create", "--node", str(node), "--config", "tiny"], check=True, capture_output=True)
        shown = self.both(("slices", "list", "--emulated", node), ("slices", "ls", "--emulated", node), said="list is called ls")
        self.assertIn("0", shown)

    def test_init_runtime_is_kind(self):
        done = subprocess.run([LAMBENT, "init", "two", "--runtime", "native"], capture_output=True, text=True, timeout=60, cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("warning: --runtime is called --kind now", done.stderr)
        self.assertIn("# A function in C++", (self.folder / "two/lambent.toml").read_text())

    def test_load_payload_is_file(self):
        (self.folder / "event.json").write_text("{}")
        endpoint = ("--endpoint", f"unix:{self.folder}/none.sock", "load", "f", "--seconds", "0.1")
        self.both((*endpoint, "--payload", "event.json"), (*endpoint, "--file", "event.json"), said="--payload is called --file", expect=UNAVAILABLE)

    def test_the_shown_layouts_are_limited_by_limit(self):
        given = ("slices", "advise", "--pipeline", "none", "--rate", "1")
        self.both((*given, "--shown", "1"), (*given, "--limit", "1"), said="--shown is called --limit", expect=15)
        self.both(("plan", "--pipeline", "none", "--most", "1"), ("plan", "--pipeline", "none", "--limit", "1"),
                  said="--most is called --limit", expect=15)


if __name__ == "__main__":
    unittest.main()
