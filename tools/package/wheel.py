"""The wheels for pip: one with Lambent's Python only, for any machine, and one with the programs beside it. pip takes the second where
it runs, so that `pip install lambent` brings `lambent serve`."""
import base64
import hashlib
import pathlib
import time as clock
import tomllib
import zipfile

from contents import MANUAL

# Of the folder of a package: what a worker needs. It lies below the Python package, because pip has no other place of its own.
PROGRAMS = "lambent/_server"
FOLDERS = ("bin", "lib", "share", "examples")
PYTHON = "share/lambent/python"

METADATA = """\
Metadata-Version: 2.4
Name: lambent
Version: {version}
Summary: A serverless platform for GPUs: functions, models and servers that share them
License-Expression: Apache-2.0
License-File: LICENSE
Requires-Python: >=3.9
Classifier: Operating System :: POSIX :: Linux
Classifier: Typing :: Typed
{extras}Description-Content-Type: text/plain

Lambent runs functions that need GPUs: Python and native handlers, HTTP servers, models, graphs of kernels, workflows and pipelines.
It decides where and when each runs, keeps it warm and shares the GPUs fairly. Without a GPU an emulated one takes its place.

    lambent serve &          # on Linux for x86-64, where the programs are part of the wheel
    lambent init hello
    lambent deploy hello
    lambent invoke hello -d '{{"name": "Ada"}}'

`import lambent` is the client, on any system.
"""

WHEEL = """\
Wheel-Version: 1.0
Generator: lambent
Root-Is-Purelib: {pure}
Tag: py3-none-{platform}
"""


PROJECT = pathlib.Path(__file__).resolve().parents[2] / "python/pyproject.toml"


def extras():
    """The lines of the metadata for what pip installs with lambent[NAME]."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    return "".join(f"Provides-Extra: {name}\n" + "".join(f"Requires-Dist: {needed}; extra == '{name}'\n" for needed in all_needed)
                   for name, all_needed in project["optional-dependencies"].items())


def digest(content):
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def python_files(tree):
    """{name in the wheel: path} of Lambent's Python packages."""
    root = tree / PYTHON
    return {path.relative_to(root).as_posix(): path for path in sorted(root.rglob("*")) if path.is_file()}


def server_files(tree):
    return {f"{PROGRAMS}/{path.relative_to(tree).as_posix()}": path
            for folder in FOLDERS for path in sorted((tree / folder).rglob("*")) if path.is_file() and not path.is_relative_to(tree / MANUAL)}


def manual_files(tree, version):
    """Where pip puts what `man` looks for: share/man of the environment."""
    return {f"lambent-{version}.data/data/{MANUAL}/{path.name}": path for path in sorted((tree / MANUAL).iterdir())}


def write(files, version, platform, time, target, level):
    """One wheel: `files` by name, with the metadata that pip wants."""
    info = f"lambent-{version}.dist-info"
    pure = platform == "any"
    contents = {name: (path.read_bytes(), path.stat().st_mode & 0o777) for name, path in files.items()}
    contents |= {f"{info}/{name}": (text.encode(), 0o644) for name, text in {
        "METADATA": METADATA.format(version=version, extras=extras()), "WHEEL": WHEEL.format(pure="true" if pure else "false", platform=platform),
        "entry_points.txt": "[console_scripts]\nlambent = lambent._command:main\n"}.items()}
    record = "".join(f"{name},{digest(content)},{len(content)}\n" for name, (content, _) in contents.items())
    contents[f"{info}/RECORD"] = (f"{record}{info}/RECORD,,\n".encode(), 0o644)
    # Zip files know no time before 1980.
    date = clock.gmtime(max(time, 315532800))[:6]
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=level) as archive:
        for name, (content, mode) in contents.items():
            entry = zipfile.ZipInfo(name, date)
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content, compresslevel=level)


def write_wheels(tree, version, glibc, time, out, level):
    """Writes both into the folder `out`, of the folder of a package; their paths."""
    info = f"lambent-{version}.dist-info"
    documents = {f"{info}/licenses/LICENSE": tree / "LICENSE"}
    python = python_files(tree)
    pure = {name: path for name, path in python.items() if path.suffix != ".so"}
    paths = []
    for platform, files in (("any", pure | documents),
                            (f"manylinux_{glibc.replace('.', '_')}_x86_64",
                             python | server_files(tree) | manual_files(tree, version) | documents | {f"{info}/sboms/lambent.spdx.json": tree / "sbom.spdx.json"})):
        paths.append(pathlib.Path(out, f"lambent-{version}-py3-none-{platform}.whl"))
        write(files, version, platform, time, paths[-1], level)
    return paths
