"""The tarball on each system that it is for: unpacked as root of a fresh one, from there to first answers, without a compiler."""
import os
import re
import subprocess
import unittest

import booted
import packaged
import roots

HERE = packaged.ROOT / "tests/package"
MOST_MS = 60_000


def enter(root, files, *command, timeout=300):
    return subprocess.run([*booted.NAMESPACES, HERE / "enter.sh", root, files, *command], capture_output=True, text=True, timeout=timeout)


@unittest.skipUnless(os.geteuid() == 0, "only root can enter other systems")
class SystemsTest(unittest.TestCase):
    def check(self, system):
        settings = roots.SYSTEMS[system]
        try:
            root = roots.root_of(system)
        except roots.Unavailable as error:
            self.skipTest(f"{settings['name']}: {error}")
        with packaged.shared(HERE / "first_answer.sh", packaged.tarball()) as files:
            libc = enter(root, files, "ldd", "--version").stdout.splitlines()[0]
            self.assertIn(settings["glibc"], libc)
            done = enter(root, files, "sh", "/files/first_answer.sh")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(len(re.findall(r'"correct": ?true', done.stdout)), 3, done.stdout)
        self.assertIn('"words":["the","quick","fox"]', done.stdout)
        self.assertNotRegex(done.stdout, "(?m)^help ")
        took = int(re.search(r"^first_answer_ms (\d+)$", done.stdout, re.M)[1])
        print(f"{settings['name']} ({libc}): first answer {took} ms after the tarball", flush=True)
        self.assertLess(took, MOST_MS)
        self.assertIn("ended 0", done.stdout)

    def test_debian_12(self):
        self.check("bookworm")

    def test_debian_13(self):
        self.check("trixie")

    def test_ubuntu_22_04(self):
        self.check("jammy")

    def test_ubuntu_24_04(self):
        self.check("noble")

    def test_red_hat(self):
        self.check("rhel")


if __name__ == "__main__":
    unittest.main()
