"""Root file systems of the systems that packages are for, and disks with kernels of their own, made once by debootstrap in build/roots."""
import contextlib
import dataclasses
import hashlib
import os
import pathlib
import shutil
import subprocess
import tomllib
import urllib.error
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
ROOTS = HERE.parents[1] / "build/roots"
SYSTEMS = tomllib.loads((HERE / "systems.toml").read_text())

UBUNTU = "http://archive.ubuntu.com/ubuntu"
# With Ubuntu's signing key of 2018, F6ECB3762474EDA9D21B7022871920D1991BC93C, which Debian has no package of.
KEYRING = "pool/main/u/ubuntu-keyring/ubuntu-keyring_2021.03.26_all.deb"
KEYRING_SHA256 = "0d0e7ed6b112f5d03eabf3c7eb01ebdacf9c57714b279e90495cfc58c8c4520f"
# A minute or two where nothing else runs.
MOST_SECONDS = 900
# For releases that are newer than this debootstrap; it has one for all of Ubuntu.
UBUNTU_SCRIPT = "/usr/share/debootstrap/scripts/gutsy"


class Unavailable(Exception):
    """The system cannot be had here; says why."""


def ubuntu_keyring():
    keyring = ROOTS / "keys/ubuntu-archive-keyring.gpg"
    if keyring.exists():
        return keyring
    try:
        with urllib.request.urlopen(f"{UBUNTU}/{KEYRING}", timeout=30) as answer:
            content = answer.read()
    except (urllib.error.URLError, OSError) as error:
        raise Unavailable(f"Ubuntu's mirror does not answer: {error}") from None
    if hashlib.sha256(content).hexdigest() != KEYRING_SHA256:
        raise Unavailable("Ubuntu's keyring is not the one that is known here")
    keyring.parent.mkdir(parents=True, exist_ok=True)
    package = keyring.with_suffix(".deb")
    package.write_bytes(content)
    tree = subprocess.run(["dpkg-deb", "--fsys-tarfile", package], check=True, capture_output=True).stdout
    found = subprocess.run(["tar", "xO", "./usr/share/keyrings/ubuntu-archive-keyring.gpg"], input=tree, check=True, capture_output=True)
    keyring.write_bytes(found.stdout)
    return keyring


def command_for(system, packages, target):
    settings = SYSTEMS[system]
    command = ["debootstrap", "--variant=minbase", f"--include={','.join(packages)}"]
    if settings.get("distributor") != "ubuntu":
        return [*command, system, str(target)]
    return [*command, "--components=main,universe", f"--keyring={ubuntu_keyring()}", system, str(target), UBUNTU, UBUNTU_SCRIPT]


def root_of(system):
    """The folder of the system's root file system, to be left as it is. Unavailable if it cannot be made."""
    settings = SYSTEMS[system]
    if "environment" in settings:
        folder = os.environ.get(settings["environment"], "")
        if not folder:
            raise Unavailable(f"{settings['environment']} names no root file system, and no mirror of one is known here")
        return pathlib.Path(folder)
    root = ROOTS / system
    if not root.exists():
        bootstrap(system, settings["packages"], root)
    return root


def bootstrap(system, packages, root):
    """Makes the folder `root`, and beside it a log."""
    if os.geteuid() != 0 or shutil.which("debootstrap") is None:
        raise Unavailable("needs root and debootstrap")
    ROOTS.mkdir(parents=True, exist_ok=True)
    unfinished, log_file = root.with_suffix(".unfinished"), root.with_suffix(".log")
    shutil.rmtree(unfinished, ignore_errors=True)
    with open(log_file, "wb") as log:
        try:
            done = subprocess.run(command_for(system, packages, unfinished), stdout=log, stderr=log, timeout=MOST_SECONDS)
        except subprocess.TimeoutExpired:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise Unavailable(f"debootstrap {system} took longer than {MOST_SECONDS} s") from None
    if done.returncode != 0:
        last = log_file.read_text(errors="replace").strip().splitlines()[-1:]
        shutil.rmtree(unfinished, ignore_errors=True)
        raise Unavailable(f"debootstrap {system}: {' '.join(last)}")
    unfinished.rename(root)


@dataclasses.dataclass
class Disk:
    """What a virtual machine starts from; `initrd` is None where the kernel needs none."""
    image: pathlib.Path
    kernel: pathlib.Path
    initrd: pathlib.Path | None


def make_image(folder, image, size):
    """An ext4 file system with what is in the folder, as a file that takes no more room than that."""
    subprocess.run(["truncate", "-s", size, image], check=True)
    done = subprocess.run(["mkfs.ext4", "-q", "-F", "-d", folder, image], capture_output=True, text=True)
    if done.returncode != 0:
        raise Unavailable(f"mkfs.ext4: {done.stderr.strip()}")


def disk_of(system):
    """The system's disk, to be left as it is, with the kernel of its distributor. Unavailable if it cannot be made."""
    packages = SYSTEMS[system]["packages"] + SYSTEMS[system]["kernel"]
    agent = (HERE / "agent.service").read_text()
    made_of = hashlib.sha256("\n".join([*packages, agent]).encode()).hexdigest()[:12]
    disk = ROOTS / f"{system}-disk-{made_of}"
    if not disk.exists():
        root, unfinished = ROOTS / f"{system}-whole", disk.with_suffix(".unfinished")
        for old in (root, *ROOTS.glob(f"{system}-disk*")):
            shutil.rmtree(old, ignore_errors=True)
        bootstrap(system, packages, root)
        (root / "files").mkdir()
        units = root / "etc/systemd/system"
        (units / "agent.service").write_text(agent)
        (units / "multi-user.target.wants").mkdir(exist_ok=True)
        (units / "multi-user.target.wants/agent.service").symlink_to("../agent.service")
        unfinished.mkdir()
        for name in ("vmlinuz", "initrd.img"):
            for path in (root / "boot").glob(f"{name}-*"):
                shutil.copy(path, unfinished / name)
        make_image(root, unfinished / "root.ext4", "3G")
        unfinished.rename(disk)
        shutil.rmtree(root)
    initrd = disk / "initrd.img"
    return Disk(disk / "root.ext4", disk / "vmlinuz", initrd if initrd.exists() else None)
