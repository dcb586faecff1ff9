"""A whole system in a virtual machine, on its own kernel: where cgroups and AppArmor are as users have them.

The processor is emulated: many machines that run tests have no KVM, or one without nested paging, under which these kernels hang."""
import json
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time
import unittest

import booted
import packaged
import roots

HERE = pathlib.Path(__file__).resolve().parent
QEMU = "qemu-system-x86_64"
MEMORY_MIB = 1536
# A minute where little else runs.
MOST_BOOT_SECONDS = 600


def check_here():
    """SkipTest where no virtual machine can run."""
    for program in (QEMU, "mkfs.ext4"):
        if shutil.which(program) is None:
            raise unittest.SkipTest(f"needs {program}")


class Machine(booted.Commands):
    """Boots it, with one processor and no network; SkipTest where it cannot be had. What it writes is gone at its end."""

    def __init__(self, system, *files):
        check_here()
        try:
            disk = roots.disk_of(system)
        except roots.Unavailable as error:
            raise unittest.SkipTest(str(error)) from None
        self.temporary = tempfile.TemporaryDirectory(prefix="lambent-machine-")
        folder = pathlib.Path(self.temporary.name)
        with packaged.shared(HERE / "agent.py", *files) as shared:
            roots.make_image(shared, folder / "files.ext4", "1G")
        self.console = folder / "console"
        with open(folder / "qemu", "wb") as output:
            self.process = subprocess.Popen(self.command(disk, folder), env={**os.environ, "TMPDIR": str(folder)}, stdin=subprocess.DEVNULL,
                                            stderr=subprocess.STDOUT, stdout=output)
        self.agent = None
        try:
            self.agent = self.connect(folder / "agent")
            self.wait_for(self.is_booted, "systemd to boot", MOST_BOOT_SECONDS)
        except BaseException:
            self.close()
            raise

    def command(self, disk, folder):
        arguments = "root=/dev/vda rw console=ttyS0 panic=-1 loglevel=4 systemd.unit=multi-user.target systemd.show_status=0"
        return [QEMU, "-accel", "tcg,thread=single", "-cpu", "max", "-smp", "1", "-m", str(MEMORY_MIB), "-nodefaults", "-no-user-config", "-no-reboot",
                "-display", "none", "-serial", f"file:{self.console}", "-kernel", disk.kernel,
                *(["-initrd", disk.initrd] if disk.initrd else []), "-append", arguments,
                "-drive", f"file={disk.image},format=raw,if=virtio,snapshot=on",
                "-drive", f"file={folder}/files.ext4,format=raw,if=virtio,readonly=on",
                "-chardev", f"socket,id=agent,path={folder}/agent,server=on,wait=off",
                "-device", "virtio-serial-pci", "-device", "virtserialport,chardev=agent"]

    def connect(self, path):
        self.wait_for(path.exists, "qemu to start", 30)
        agent = socket.socket(socket.AF_UNIX)
        agent.connect(str(path))
        return agent

    def has_ended(self):
        return self.process.poll() is not None

    def outcome(self, command, timeout):
        words = [str(word) for word in command]
        self.agent.sendall(json.dumps({"command": words, "timeout": timeout}).encode() + b"\n")
        deadline = time.monotonic() + timeout + MOST_BOOT_SECONDS
        pending = b""
        while not pending.endswith(b"\n"):
            self.agent.settimeout(1)
            try:
                pending += self.agent.recv(1 << 20)
            except TimeoutError:
                if self.has_ended() or time.monotonic() > deadline:
                    raise AssertionError(f"no answer to {words}; the console: {self.told()}") from None
        return subprocess.CompletedProcess(words, **json.loads(pending))

    def told(self):
        """The last of what the kernel and qemu wrote."""
        return "".join(path.read_text(errors="replace")[-4000:] for path in (self.console, self.console.with_name("qemu")) if path.exists())

    def close(self):
        if self.agent is not None:
            self.agent.close()
        self.process.kill()
        self.process.wait(30)
        self.temporary.cleanup()
