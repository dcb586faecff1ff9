"""The tests that ctest knows of a build."""
import pathlib
import re
import subprocess
import tempfile


def listed_tests(build, pattern="."):
    """The names of those that match the regular expression. They are listed from another folder: ctest empties the log of the folder that it
    is called for, also where it only lists, and that log is of the run to which the caller belongs."""
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "CTestTestfile.cmake").write_text(f'subdirs("{pathlib.Path(build).resolve()}")\n')
        listed = subprocess.run(["ctest", "--test-dir", folder, "-N", "-R", pattern], check=True, capture_output=True, text=True).stdout
    return set(re.findall(r"^ *Test +#\d+: (\S+)", listed, re.M))
