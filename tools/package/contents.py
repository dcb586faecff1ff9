"""What a package contains, and the folder that both kinds are made from."""
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import man_pages  # noqa: E402

# Name of the program: the CMake target that makes it.
PROGRAMS = {name: name for name in (
    "lambent", "lambent-worker", "lambent-launcher", "lambent-device", "lambent-environment", "lambent-executor", "lambent-bundle", "lambent-model-server", "lambent-grpc",
    "lambent-simulator", "lambent-sweep", "lambent-why", "lambent-slices", "lambent-shim", "emulated-gpu")}
# Libraries, and a program that the shim starts, below the build folder.
LIBRARIES = {
    "lib/emulated/libcuda.so.1": "emulated_cuda_driver",
    "lib/emulated/libnvidia-ml.so.1": "emulated_cuda_nvml",
    "lib/emulated/linker/ptx_for_cubins.so": "emulated_cuda_ptx_for_cubins",
    "lib/emulated/linker/libnvJitLink.so.12": "emulated_cuda_no_linker_12",
    "lib/emulated/linker/libnvJitLink.so.13": "emulated_cuda_no_linker_13",
    "lib/emulated_runtime/libcudart.so.13": "emulated_cuda_runtime",
    "lib/forward/libcuda.so.1": "lambent_forward_client",
    "lib/shim/liblambent_shim.so": "lambent_shim",
    "lib/shim/liblambent_shim_nvml.so": "lambent_shim_nvml",
    "lib/shim/lambent-checkpoint": "lambent_checkpoint",
    "share/lambent/python/lambent/pipeline/liblambent_stage.so": "lambent_stage",
}
EXAMPLE_PROGRAMS = {"examples/05_native_handler/bootstrap": "example_05_native_handler",
                    "examples/06_paper_function/bootstrap": "example_06_paper_function"}
TARGETS = {*PROGRAMS.values(), *LIBRARIES.values(), *EXAMPLE_PROGRAMS.values()}
FOLDERS = ("lib/emulated/presets", "share", "examples")
# What CMake and Python leave in folders.
LEFT_OUT = {"CMakeFiles", "CTestTestfile.cmake", "cmake_install.cmake", "__pycache__"}
MANUAL = "share/man/man1"
DOCUMENTS = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "STYLE.md", "CHANGELOG.md", "LICENSE", "docs")


class Missing(Exception):
    """Something that a package needs is not there; says what makes it."""


def version():
    line = next(line for line in (ROOT / "CMakeLists.txt").read_text().splitlines() if line.startswith("project(lambent VERSION "))
    return line.split()[2]


def commit_time():
    """SOURCE_DATE_EPOCH if it is set, else when the commit was made, in seconds since 1970."""
    if os.environ.get("SOURCE_DATE_EPOCH"):
        return int(os.environ["SOURCE_DATE_EPOCH"])
    shown = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True)
    if shown.returncode != 0:
        raise Missing("this is no git clone: set SOURCE_DATE_EPOCH to the time of the sources, in seconds since 1970")
    return int(shown.stdout)


def strip(source, target):
    """Without debug information; without the build id too, which is made of it and so of the names of folders."""
    target.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["strip", "--strip-unneeded", "--remove-section=.note.gnu.build-id", "-o", target, source], check=True)
    target.chmod(0o755)


def needed(build, path):
    source = build / path
    if not source.exists():
        raise Missing(f"{source} is not there: ./dev build release product")
    return source


def settle_modes(folder):
    """Readable for everybody, writable for the owner only, whatever this process makes files with."""
    for path in [folder, *folder.rglob("*")]:
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)


def make_tree(build, tree):
    """Fills the new folder `tree` from the build folder `build`: bin, lib, share, examples and documents side by side."""
    for program in PROGRAMS:
        strip(needed(build, f"bin/{program}"), tree / "bin" / program)
    for folder in FOLDERS:
        shutil.copytree(needed(build, folder), tree / folder, ignore=lambda _, names: LEFT_OUT.intersection(names))
    for path in [*LIBRARIES, *EXAMPLE_PROGRAMS]:
        (tree / path).unlink(missing_ok=True)
        strip(needed(build, path), tree / path)
    for name in DOCUMENTS:
        source = ROOT / name
        (shutil.copytree if source.is_dir() else shutil.copyfile)(source, tree / name)
    man_pages.write(tree / "bin", tree / MANUAL, version(), commit_time())
