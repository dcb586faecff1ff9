"""The command `lambent` of an installed wheel: starts the program that the wheel has beside this file."""
import os
import sys


def is_app_verb(words: list[str]) -> bool:
    """'run' and 'dev', and 'deploy' of a Python file, one that is no value of an option: as the program (src/bin/lambent.cc) tells them."""
    if words[:1] in (["run"], ["dev"]):
        return True
    return words[:1] == ["deploy"] and any(word.endswith(".py") and not word.startswith("-") and not before.startswith("--")
                                           for before, word in zip(words, words[1:]))


def main() -> None:
    if is_app_verb(sys.argv[1:]):  # by the Python that has the wheel, and so what the user's file imports
        os.environ["LAMBENT_PROGRAM"] = "lambent"
        from .__main__ import main as app_verbs
        sys.exit(app_verbs())
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_server", "bin", "lambent")
    if not os.path.exists(program):
        sys.exit("lambent: this wheel has the Python client only; the programs are in the wheels for Linux on x86-64 with glibc 2.34 or newer, "
                 "and in the packages (docs/get-started/install.md). Apps are deployed by 'python3 -m lambent deploy'")
    # uv lies beside this command, which may have been called by its path.
    beside = os.path.dirname(os.path.abspath(sys.argv[0]))
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    if beside not in folders:
        os.environ["PATH"] = os.pathsep.join([*folders, beside])
    os.execv(program, [program, *sys.argv[1:]])
