"""What tests of the Debian package share: a system on which it is installed, with a member of its group (ada) and another user (eve)."""
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import booted
import packaged

EXAMPLE = "/usr/lib/lambent/examples/01_python_vector_add"


def newer_package(folder):
    """The same with a higher version."""
    tree = pathlib.Path(folder, "newer")
    subprocess.run(["dpkg-deb", "-R", packaged.deb(), tree], check=True)
    control = tree / "DEBIAN/control"
    control.write_text(control.read_text().replace("\nVersion: ", "\nVersion: 9."))
    newer = pathlib.Path(folder, "newer.deb")
    subprocess.run(["dpkg-deb", "--root-owner-group", "-Znone", "--build", tree, newer], check=True, stdout=subprocess.DEVNULL)
    return newer


class Installed(unittest.TestCase):
    system_name = "bookworm"
    make_system = booted.System
    files = ()

    @classmethod
    def setUpClass(cls):
        if shutil.which("dpkg-deb") is None:
            raise unittest.SkipTest("needs dpkg-deb")
        with tempfile.TemporaryDirectory() as folder:
            package = shutil.copy(packaged.deb(), pathlib.Path(folder, "lambent.deb"))
            cls.system = cls.make_system(cls.system_name, package, newer_package(folder), *cls.files)
        cls.addClassCleanup(cls.system.close)
        cls.system.run("dpkg", "-i", "/files/lambent.deb", check=True, timeout=900)
        cls.system.run("useradd", "--create-home", "--groups", "lambent", "ada", check=True)
        cls.system.run("useradd", "--create-home", "eve", check=True)

    def lambent(self, *words, user="ada"):
        return self.system.run("runuser", "-u", user, "--", "lambent", *words)

    def state(self):
        return self.system.run("systemctl", "is-active", "lambent").stdout.strip()
