#!/usr/bin/env python3
"""Makes the packages of a finished build: a tarball, a Debian package, wheels for pip and the list of what they are made of.

`make.py --build build/release --out dist`. The same commit and the same programs give the same bytes.
"""
import argparse
import hashlib
import pathlib
import shutil
import sys
import tempfile

import archives
import contents
import debian
import materials
import spdx
import symbols
import wheel


def add_materials(tree, build, version, time):
    """The list, and the licences of what it names; returns what a Debian package says that it was built of."""
    found = materials.find_materials(build)
    (tree / "sbom.spdx.json").write_text(spdx.document(found, version, time))
    folder = tree / "share/licences"
    folder.mkdir()
    for source, material in sorted(found.items()):
        package = sorted(material.binaries)[0].split()[0]
        shutil.copyfile(f"/usr/share/doc/{package}/copyright", folder / source)
    return [f"{source} (= {material.version})" for source, material in sorted(found.items()) if material.linked]


def make(build, out, fast=False):
    """Writes into the folder `out`; returns the paths. Missing if something is not there or would not run elsewhere. `fast`: larger
    archives."""
    version, time = contents.version(), contents.commit_time()
    name = f"lambent-{version}-linux-x86_64"
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="lambent-package-") as folder:
        tree, stage = pathlib.Path(folder, name), pathlib.Path(folder, "debian")
        tree.mkdir()
        stage.mkdir()
        contents.make_tree(build, tree)
        built_using = add_materials(tree, build, version, time)
        contents.settle_modes(tree)
        glibc, offences = symbols.check(tree)
        if offences:
            raise contents.Missing("this would not run on every system that it is for:\n  " + "\n  ".join(offences))
        tarball = out / f"{name}.tar.gz"
        archives.write_tar_gz(tree, name, time, tarball, 1 if fast else 9)
        deb = out / f"lambent_{version}_amd64.deb"
        wheels = wheel.write_wheels(tree, version, glibc, time, out, 1 if fast else 9)
        debian.write_deb(tree, stage, version, time, glibc, built_using, deb, 0 if fast else 6)
        listing = out / f"{name}.spdx.json"
        shutil.copyfile(tree / "sbom.spdx.json", listing)
    return [tarball, deb, *wheels, listing]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=contents.ROOT / "build/release")
    parser.add_argument("--out", type=pathlib.Path, default=contents.ROOT / "dist")
    parser.add_argument("--fast", action="store_true", help="compress less, as tests do")
    arguments = parser.parse_args()
    try:
        made = make(arguments.build, arguments.out, arguments.fast)
    except contents.Missing as error:
        print(f"package: {error}", file=sys.stderr)
        return 1
    for path in made:
        print(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path}  {path.stat().st_size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
