"""The Debian package: the same files below /usr/lib/lambent, and what makes them a service."""
import gzip
import os
import pathlib
import shutil
import subprocess

import contents

HERE = pathlib.Path(__file__).resolve().parent / "debian"
PREFIX = "usr/lib/lambent"
DOCUMENTATION = "usr/share/doc/lambent"

CONTROL = """\
Package: lambent
Version: {version}
Architecture: amd64
Maintainer: The Lambent developers <lambent@localhost>
Installed-Size: {size}
Depends: libc6 (>= {glibc}), libgcc-s1, adduser
Recommends: python3
Suggests: clang, bash-completion, skopeo, umoci
Built-Using: {built_using}
Section: science
Priority: optional
Description: serverless platform for GPUs
 Lambent runs functions that need GPUs: black-box programs, graphs of kernels,
 workflows and models cut into stages. It decides where and when each runs,
 keeps it warm and shares the GPUs fairly. Clients of AWS Lambda work
 unmodified. Without a GPU an emulated one takes its place.
 .
 The service lambent.service runs a worker as the user lambent.
"""


def put(source, target):
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def lay_out(tree, stage, version, time):
    """Moves the files of the folder `tree` to their places below `stage`."""
    (stage / "usr/lib").mkdir(parents=True)
    shutil.copytree(tree, stage / PREFIX, symlinks=True)
    documentation = stage / DOCUMENTATION
    documentation.mkdir(parents=True)
    for path in sorted((stage / PREFIX).iterdir()):
        if path.name not in ("bin", "lib", "share", "examples"):
            path.rename(documentation / path.name)
    (documentation / "examples").symlink_to("../../../lib/lambent/examples")
    (documentation / "LICENSE").rename(documentation / "copyright")
    changes = (documentation / "CHANGELOG.md").read_bytes()
    (documentation / "changelog.gz").write_bytes(gzip.compress(changes, 9, mtime=0))
    (stage / "usr/bin").mkdir()
    (stage / "usr/bin/lambent").symlink_to("../lib/lambent/bin/lambent")
    put(HERE / "lambent.service", stage / "usr/lib/systemd/system/lambent.service")
    put(HERE / "worker.env", stage / "etc/lambent/worker.env")
    put(HERE / "root.conf", documentation / "root.conf")
    put(HERE / "apparmor", stage / PREFIX / "share/lambent/apparmor")
    manual = stage / "usr/share/man/man1"
    manual.mkdir(parents=True)
    for page in sorted((stage / PREFIX / contents.MANUAL).iterdir()):
        (manual / f"{page.name}.gz").write_bytes(gzip.compress(page.read_bytes(), 9, mtime=0))
    shutil.rmtree(stage / PREFIX / "share/man")
    completion = stage / "usr/share/bash-completion/completions/lambent"
    completion.parent.mkdir(parents=True)
    completion.write_bytes(subprocess.run([tree / "bin/lambent", "completion", "bash"], check=True, capture_output=True).stdout)


def write_deb(tree, stage, version, time, glibc, built_using, target, level=6):
    """Writes `target` from `tree`; `stage` is an empty folder to work in."""
    lay_out(tree, stage, version, time)
    control = stage / "DEBIAN"
    control.mkdir()
    size = sum(path.lstat().st_size for path in stage.rglob("*") if path.is_file())
    (control / "control").write_text(CONTROL.format(version=version, size=size // 1024, glibc=glibc,
                                                    built_using=", ".join(built_using)))
    (control / "conffiles").write_text("/etc/lambent/worker.env\n")
    for script in ("postinst", "prerm", "postrm"):
        put(HERE / script, control / script)
        (control / script).chmod(0o755)
    contents.settle_modes(stage)
    for path in [stage, *stage.rglob("*")]:
        os.utime(path, (time, time), follow_symlinks=False)
    subprocess.run(["dpkg-deb", "--root-owner-group", "-Zxz", f"-z{level}", "--build", stage, target], check=True, stdout=subprocess.DEVNULL,
                   env={**os.environ, "SOURCE_DATE_EPOCH": str(time)})
