"""Does what a page of the documentation says, as a reader would, and fails where that does not work: python3 play.py PAGE...

Each page is played in network, mount and process namespaces of its own, so that 127.0.0.1:8980 and /var/lib/lambent are what the page
says and belong to nobody else. LAMBENT_PREFIX is the build, VENV (may be left out) a folder with the aws cli and boto3.
"""
import ast
import fcntl
import json
import os
import pathlib
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
import tomllib

import shell_commands
from markdown import Block, Heading, Inline, file_named_for, pieces_of
from reader import WHOLE, Reader
from shell_session import ShellSession

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
INSIDE = "LAMBENT_DOCS_NAMESPACES"  # in the environment of a page's process: whose it is
PREPARED = "LAMBENT_DOCS_PREPARED"
SKIPPED = 77
SLOW_SECONDS = 3  # which commands are named with what they took
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}(?:\.\d+)?")
ENDINGS = {"toml": ".toml", "python": ".py", "json": ".json", "cuda": (".cu",), "c": ".c", "csv": ".csv"}


class Play:
    """One page, from its top to its end."""

    def __init__(self, page, session, reader):
        self.page, self.session, self.reader = page, session, reader
        self.failures, self.ran, self.not_run, self.printed = [], 0, [], []
        self.shortened, self.slow = [], []

    def fail(self, line, said):
        self.failures.append(f"{self.page}:{line}: {said}")

    def play(self, text):
        if self.reader.begin:
            self.prepare(1, self.reader.begin)
        for piece in pieces_of(text):
            if isinstance(piece, Heading):
                commands = self.reader.find("alone", piece.text)
                if commands is not None:
                    if not self.session.stop_jobs():
                        self.fail(piece.line, "what runs in the background does not end")
                    self.prepare(piece.line, commands)
            elif isinstance(piece, Inline):
                if (piece.is_example or self.reader.runs_inline) and shell_commands.is_command(piece.text):
                    self.run(shell_commands.Command(piece.line, piece.text, []))
            elif shell_commands.is_shell(piece):
                for command in shell_commands.commands_of(piece):
                    self.run(command)
            elif piece.language in ENDINGS:
                self.write(piece)
            else:
                self.compare(piece)
        if not self.session.stop_jobs():
            self.fail("end", "what runs in the background does not end")
        for entry in self.reader.unused():
            self.fail("end", f"readers.toml has something that the page has not (any more): {entry}")

    def prepare(self, line, commands):
        """What the reader does without being told here."""
        for command in shell_commands.commands_of(Block(0, "sh", commands, "")):
            self.execute(line, command.text)

    def run(self, command):
        reason = self.reader.why_not_run(command.text)
        if reason:
            self.not_run.append(command.text)
            return
        program = self.reader.find("only_with", command.text)
        if program and self.session.run(f"command -v {program}")[0] != 0:
            self.not_run.append(f"{command.text} ({program} is not installed)")
            return
        before = self.reader.find("before", command.text)
        if before:
            self.prepare(command.line, before)
        self.ran += 1
        follow = self.reader.find("follow", command.text)
        shorter = self.reader.find("shorter", command.text)
        if shorter and not WHOLE:
            self.shortened.append(f"{command.text} as {shorter}")
            command = shell_commands.Command(command.line, shorter, command.printed)
        output = self.execute(command.line, self.with_values(command), follow)
        if output is not None:
            self.printed.append(output)
            for missing in shell_commands.missing_lines(self.expected(command.printed), output):
                self.fail(command.line, f"`{command.text}` did not print a line like\n  {missing}\nbut\n{output[-3000:]}")

    def with_values(self, command):
        """The command with what its placeholders stand for at this moment."""
        text = command.text
        for placeholder, words in self.reader.placeholders_in(text).items():
            value = self.execute(command.line, f'printf %s "{words}"')
            text = text.replace(placeholder, value or "")
        return text

    def execute(self, line, text, follow=None):
        """Runs a command; what it printed, or None if it failed. follow: it ends by Ctrl-C, after it printed that."""
        is_worker = "lambent serve" in text and "--help" not in text
        in_background = text.split("#")[0].rstrip().endswith("&")
        if follow or is_worker and not in_background:
            text = re.sub(r"\s+#.*$", "", text) + " &"  # another terminal
        begun = time.monotonic()
        status, output = self.session.run(text)
        took = time.monotonic() - begun
        if took > SLOW_SECONDS:
            self.slow.append(f"{took:.0f} s {text}")
        number = self.session.count
        if status is None:
            self.fail(line, f"`{text}` did not end\n{output[-3000:]}")
            raise SystemExit(report([self]))
        if status != 0:
            self.fail(line, f"`{text}` ended with {status}\n{output[-3000:]}")
            return None
        awaited = follow or ("listening endpoint=" if is_worker else None)
        if awaited:
            if not self.session.wait_for_output(number, awaited):
                self.fail(line, f"`{text}` did not say '{awaited}'\n{self.session.output(number)[-3000:]}")
                return None
            if follow:
                self.session.interrupt_job()
        output = self.session.output(number)
        ids = UUID.findall(output)
        if ids:
            (self.session.folder / ".home/id").write_text(ids[-1])
        return output

    def write(self, block):
        """Makes the file that the page shows, where it names it; else it has to be well-formed at least."""
        name = file_named_for(block, ENDINGS[block.language])
        if name:
            path = self.session.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text + "\n")
        elif not self.reader.find("unnamed", block.text.strip()) and block.language not in ("toml", "json", "python"):
            self.fail(block.line, "the text before this block does not name the file that it is")
        try:
            if block.language == "toml":
                tomllib.loads(block.text)
            elif block.language == "json":
                json.loads(block.text)
            elif block.language == "python":
                ast.parse(block.text)
        except (ValueError, SyntaxError) as error:
            self.fail(block.line, f"this is no {block.language}: {error}")

    def expected(self, lines):
        return [line for line in lines if line.strip() and not self.reader.find("not_printed", line.strip())]

    def compare(self, block):
        """Holds what the page shows as printed against what was printed, unless it is known to come from elsewhere."""
        if self.reader.find("no_output", block.text.strip()):
            return
        for missing in shell_commands.missing_lines(self.expected(block.text.split("\n")), "\n".join(self.printed)):
            self.fail(block.line, f"nothing on this page printed a line like\n  {missing}\nafter\n{''.join(self.printed)[-3000:]}")


def report(plays):
    failures = [failure for play in plays for failure in play.failures]
    for play in plays:
        if play.ran or play.not_run:
            print(f"{play.page}: {play.ran} commands run, {len(play.not_run)} not: {'; '.join(play.not_run)}")
        for text in play.shortened:
            print(f"{play.page}: in its short form (./dev test --all has the whole): {text}")
        for text in play.slow:
            print(f"{play.page}: took {text}")
    for failure in failures:
        print(f"\nFAILED {failure}")
    return 1 if failures else 0


def processes_beside(own):
    """Processes of this namespace that are neither pid 1 nor among those given."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) not in own:
            try:
                if (entry / "stat").read_text().rpartition(")")[2].split()[0] != "Z":
                    found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip())
            except OSError:
                pass
    return found


def is_to_be_played(page):
    """Whether a page has anything but sentences."""
    reader = Reader(page)
    return any(isinstance(piece, Block) or isinstance(piece, Inline) and (piece.is_example or reader.runs_inline)
               for piece in pieces_of((REPOSITORY / page).read_text()))


def play_page(page):
    prefix = pathlib.Path(os.environ["LAMBENT_PREFIX"]).resolve()
    python_folder = pathlib.Path(os.environ["VENV"]) if os.environ.get("VENV") else None
    folder = tempfile.mkdtemp(prefix="lambent-docs-")
    try:
        play = None
        session = ShellSession(folder, REPOSITORY, prefix, python_folder)
        try:
            play = Play(page, session, Reader(page))
            play.play((REPOSITORY / page).read_text())
        finally:
            session.close()
        left = processes_beside({1, os.getpid()})
        if left:
            play.fail("end", f"processes were left behind: {left}")
        return play
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def bring_up_loopback():
    up = 1
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        fcntl.ioctl(one, 0x8914, struct.pack("16sh14x", b"lo", up))  # SIOCSIFFLAGS, IFF_UP


def protect_sources(repository):
    """A reader's clone is made of links: what a page writes through one must not reach the repository. Its build folder is for all."""
    build = repository / "build"
    commands = [["mount", "--rbind", repository, repository]]
    if build.is_dir():
        commands.append(["mount", "--rbind", build, build])
    # What the folder's file system forbids already, an ordinary user's namespace cannot allow.
    flags = os.statvfs(repository).f_flag
    kept = [name for name in ("nosuid", "nodev", "noexec", "noatime", "relatime") if flags & getattr(os, f"ST_{name.upper()}")]
    commands.append(["mount", "-o", ",".join(["remount", "bind", "ro", *kept]), repository])
    for command in commands:
        subprocess.run(command, check=True)


def as_ordinary_user(user, group):
    """In namespaces of whom a user was made root: what runs a command as that user again."""
    return ["unshare", "-U", f"--map-user={user}", f"--map-group={group}"]


def play_in_namespaces(pages):
    """Starts this program again for each page, where it has a loopback, a /run and a /var/lib to itself."""
    user, group = os.geteuid(), os.getegid()
    for flags in ("-nmpf", "-Urnmpf"):
        command = ["unshare", flags, "--mount-proc", "--kill-child"]
        inner = as_ordinary_user(user, group) if user != 0 else []  # as main() will need it
        if subprocess.run([*command, *inner, "true"], capture_output=True).returncode == 0:
            environment = {**os.environ, INSIDE: f"{user}:{group}"}
            return max([subprocess.run([*command, sys.executable, "-B", __file__, page], env=environment).returncode for page in pages],
                       default=0)
    print("this machine gives no namespaces: SKIPPED")
    return SKIPPED


def main():
    if INSIDE not in os.environ:
        return play_in_namespaces([page for page in sys.argv[1:] if is_to_be_played(page)])
    user, _, group = os.environ[INSIDE].partition(":")
    if os.environ.get(PREPARED) is None:
        bring_up_loopback()
        for folder in ("/run", "/var/lib"):
            subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=1777", "none", folder], check=True)
        protect_sources(REPOSITORY)
        if user != "0":
            # An ordinary user was root of the namespaces for so long only; the page's reader is not.
            os.execvpe("unshare", [*as_ordinary_user(user, group), sys.executable, "-B", *sys.argv], {**os.environ, PREPARED: "yes"})
    return report([play_page(page) for page in sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
