"""A reader's shell: one bash in a folder that looks like a clone with a finished build, fed one command after the other. Used by
play.py, inside the namespaces that it makes.
"""
import os
import pathlib
import select
import shutil
import subprocess
import time

from reader import WHEELS, WHOLE

COMMAND_SECONDS = 1200 if WHOLE else 240  # one that takes longer, on a busy machine, is not for a test; PyTorch is installed in some minutes


class ShellSession:
    def __init__(self, folder, repository, prefix, python_folder=None):
        self.folder, self.outputs = pathlib.Path(folder), pathlib.Path(folder) / ".outputs"
        self.count = 0
        self.outputs.mkdir()
        self.make_clone(pathlib.Path(repository), pathlib.Path(prefix))
        home = self.folder / ".home"
        (home / "run").mkdir(parents=True, mode=0o700)
        path = [str(prefix / "bin"), os.environ["PATH"], *([str(python_folder / "bin")] if python_folder else [])]
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("LAMBENT_", "EMULATED_", "XDG_", "PYTHON"))}
        status_read, status_write = os.pipe()
        self.shell = subprocess.Popen(
            ["bash", "--norc", "--noprofile"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            cwd=self.folder, pass_fds=[status_write], text=True,
            env={**kept, "PATH": ":".join(path), "HOME": str(home), "XDG_RUNTIME_DIR": str(home / "run"), "PYTHONDONTWRITEBYTECODE": "1",
                 "AWS_EC2_METADATA_DISABLED": "true",
                 # Unless told otherwise, all programs of a machine share one emulated node under /tmp.
                 "EMULATED_CUDA_NODE": str(home / "gpu.node")})
        os.close(status_write)
        self.status = os.fdopen(status_read)
        # ERR tells of the first of several commands in a line; the others would hide it. Jobs are numbered, as at a terminal.
        self.shell.stdin.write(f"exec 9>&{status_write} {status_write}>&-; set -m; trap 'failed=$?' ERR\n")

    def make_clone(self, repository, prefix):
        """The repository and its build, by links; what pages write into is a copy. Through links nothing is written (play.protect_sources).
        ./dev is not there: it installs and builds."""
        for entry in repository.iterdir():
            if entry.name in ("build", "dev", "dist", "examples") or entry.name.startswith("."):
                continue
            (self.folder / entry.name).symlink_to(entry)
        shutil.copytree(repository / "examples", self.folder / "examples", symlinks=True)
        build = self.folder / "build/release"
        build.mkdir(parents=True)
        for name in ("bin", "lib", "share", "tests", "CTestTestfile.cmake"):
            if (prefix / name).exists():
                (build / name).symlink_to(prefix / name)
        if WHEELS.exists():
            (build.parent / "framework-wheels").symlink_to(WHEELS.resolve())
        else:
            (build.parent / "framework-wheels").mkdir()
        shutil.copytree(prefix / "examples", build / "examples", symlinks=True,
                        ignore=shutil.ignore_patterns("CMakeFiles", "*.cmake", "__pycache__"))

    def run(self, text, seconds=COMMAND_SECONDS):
        """Runs a command as if it were typed; its exit status (None: it did not end) and what it printed."""
        self.begin(text)
        status = self.wait(seconds)
        return status, self.output()

    def begin(self, text):
        self.count += 1
        command = self.outputs / f"{self.count}.sh"
        command.write_text(text + "\n")
        self.shell.stdin.write(f'failed=0; eval "$(<{command})" >{self.outputs}/{self.count} 2>&1 </dev/null 9>&-; '
                               f'ended=$?; [ $failed -ne 0 ] || failed=$ended; echo $failed >&9\n')
        self.shell.stdin.flush()

    def wait(self, seconds):
        ready, _, _ = select.select([self.status], [], [], seconds)
        line = self.status.readline() if ready else ""
        return int(line) if line.strip() else None

    def output(self, number=None):
        return (self.outputs / str(number or self.count)).read_text(errors="replace")

    def wait_for_output(self, number, words, seconds=30):
        """Until a job in the background has printed that. False if it ended before, or did not in time."""
        deadline = time.monotonic() + seconds
        while words not in self.output(number):
            alive = self.run("jobs -r | grep -q .")[0] == 0
            if time.monotonic() > deadline or not alive:
                return words in self.output(number)
            time.sleep(0.05)  # there is nothing to wait on: another process writes a file
        return True

    def interrupt_job(self):
        """What Ctrl-C does to the latest job."""
        self.run("kill -INT %%; wait %%")

    def stop_jobs(self):
        """Ends what runs in the background, as a reader does who has seen enough; False if something does not end."""
        return self.run("for job in $(jobs -p); do kill $job; done; wait", 60)[0] is not None

    def close(self):
        self.shell.stdin.close()
        try:
            self.shell.wait(10)
        except subprocess.TimeoutExpired:
            self.shell.kill()
            self.shell.wait()
        self.status.close()
