#!/usr/bin/env python3
"""Fetches NVIDIA's own driver library, and what belongs to it, from Debian's non-free archive into a folder; installs nothing.

usage: fetch_nvidia_driver.py FOLDER [--suite NAME] [--mirror URL]

The archive is the one from which apt has the system's main component (--mirror, --suite: another). apt works on lists and a cache
inside FOLDER, so that the system knows nothing of the non-free component, and checks signatures as ever.
The packages are unpacked and not configured: FOLDER/usr/lib/x86_64-linux-gnu/nvidia/current then holds libcuda.so.1, libnvidia-ml.so.1
and the compiler of PTX. Without a device the library loads and says CUDA_ERROR_NO_DEVICE, which is enough for the tests of
tests/nvidia_driver. What lies there is NVIDIA's, under the licence in FOLDER/usr/share/doc, and no part of Lambent.
"""
import argparse
import pathlib
import shutil
import subprocess
import sys

PACKAGES = ("libcuda1", "libnvidia-ml1", "libnvidia-ptxjitcompiler1", "nvidia-smi")
LIBRARIES = "usr/lib/x86_64-linux-gnu/nvidia/current"
KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
PATIENCE_S = 300


def fail(why):
    sys.exit(f"fetch_nvidia_driver.py: {why}")


def run(words, folder):
    try:
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        fail(f"{words[0]} did not end within {PATIENCE_S} s")
    if done.returncode:
        fail(f"{' '.join(words[:2])}: {(done.stderr or done.stdout).strip()[-500:]}")


def archive_of_system():
    """(URI, suite) of Debian's main component, as apt is configured."""
    told = subprocess.run(["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE)", "Created-By: Packages", "Component: main"],
                          capture_output=True, text=True, timeout=PATIENCE_S).stdout
    for line in told.splitlines():
        uri, _, suite = line.partition(" ")
        if uri.rstrip("/").endswith("/debian") and "-" not in suite:
            return uri, suite
    fail("apt has no archive of Debian's: name one with --mirror and --suite")


def apt_options(folder, mirror, suite):
    sources = folder / "sources"
    for each in (sources, folder / "lists/partial", folder / "cache/archives/partial"):
        each.mkdir(parents=True, exist_ok=True)
    (sources / "non-free.sources").write_text(f"Types: deb\nURIs: {mirror}\nSuites: {suite}\nComponents: non-free\nArchitectures: amd64\n"
                                              f"Signed-By: {KEYS}\n")
    told = {"Dir::Etc::SourceList": "/dev/null", "Dir::Etc::SourceParts": sources, "Dir::State::Lists": folder / "lists",
            "Dir::Cache": folder / "cache", "APT::Update::Post-Invoke-Success::": "", "APT::Sandbox::User": "root"}
    return [word for key, value in told.items() for word in ("-o", f"{key}={value}")]


def fetch(folder, mirror, suite):
    for program in ("apt-get", "dpkg-deb"):
        if shutil.which(program) is None:
            fail(f"there is no {program}: only Debian and its kin have it")
    if not pathlib.Path(KEYS).exists():
        fail(f"there is no {KEYS}: apt install debian-archive-keyring")
    if not (mirror and suite):
        own = archive_of_system()
        mirror, suite = mirror or own[0], suite or own[1]
    folder.mkdir(parents=True, exist_ok=True)
    options = apt_options(folder, mirror, suite)
    run(["apt-get", "update", "-qq", *options], folder)
    run(["apt-get", "download", "-qq", *options, *PACKAGES], folder)
    unpacked = folder / "unpacking"
    shutil.rmtree(unpacked, ignore_errors=True)
    for package in sorted(folder.glob("*.deb")):
        run(["dpkg-deb", "-x", str(package), str(unpacked)], folder)
        package.unlink()
    # The library last: what looks for it finds all of it or nothing.
    shutil.rmtree(folder / "usr", ignore_errors=True)
    (unpacked / "usr").rename(folder / "usr")
    shutil.rmtree(unpacked)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--suite")
    parser.add_argument("--mirror")
    told = parser.parse_args()
    folder = told.folder.absolute()
    if not (folder / LIBRARIES / "libcuda.so.1").exists():
        fetch(folder, told.mirror, told.suite)
    print(folder / LIBRARIES)


if __name__ == "__main__":
    main()
