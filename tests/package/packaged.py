"""The packages of the build under test, made once for a test program."""
import contextlib
import functools
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PREFIX = pathlib.Path(os.environ["LAMBENT_PREFIX"])
TOOLS = ROOT / "tools/package"
sys.path.insert(0, str(TOOLS))


def make(out, **environment):
    """Runs the packer as `./dev package` does; what it prints."""
    done = subprocess.run([sys.executable, "-B", TOOLS / "make.py", "--build", PREFIX, "--out", out, "--fast"], capture_output=True, text=True,
                          env={**os.environ, **environment})
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return done.stdout


@functools.cache
def packages():
    """A folder with the tarball, the Debian package and the list of materials; removed at the end of the program."""
    folder = tempfile.TemporaryDirectory(prefix="lambent-packages-")
    packages.kept = folder
    make(folder.name)
    return pathlib.Path(folder.name)


def one(pattern):
    (path,) = packages().glob(pattern)
    return path


def tarball():
    return one("*.tar.gz")


def deb():
    return one("*.deb")


def listing():
    return one("*.spdx.json")


@contextlib.contextmanager
def shared(*paths):
    """A folder with copies of these files and folders, for another system to see."""
    with tempfile.TemporaryDirectory(prefix="lambent-files-") as folder:
        for path in paths:
            if pathlib.Path(path).is_dir():
                shutil.copytree(path, pathlib.Path(folder, pathlib.Path(path).name))
            else:
                shutil.copy(path, folder)
        os.chmod(folder, 0o755)
        yield pathlib.Path(folder)
