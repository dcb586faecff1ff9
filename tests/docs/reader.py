"""readers.toml, which says what readers know or have that a page does not print: what placeholders stand for, what is done before a
command, and what is not run here and why. Used by play.py and by the tests of this folder.
"""
import os
import pathlib
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
TABLES = ("alone", "before", "stands_for", "follow", "only_with", "shorter", "not_printed", "no_output", "unnamed")
WHOLE = bool(os.environ.get("LAMBENT_WHOLE_TESTS"))  # ./dev test --all: nothing in its short form
# What tools/framework_wheels.py fetches. Commands that say `whole` need them; where they could not be fetched those are not run.
WHEELS = pathlib.Path(os.environ.get("LAMBENT_FRAMEWORK_WHEELS", HERE.parents[1] / "build/framework-wheels"))
PAGE_KEYS = {"name", "begin", "inline", *TABLES}


class Reader:
    """What holds for one page. Each entry that is used is noted: those that are not, at the end, are of no use any more."""

    def __init__(self, page, path=HERE / "readers.toml"):
        table = tomllib.loads(pathlib.Path(path).read_text())
        self.not_run_entries = table.get("not_run", [])
        self.pages = [entry["name"] for entry in table.get("page", [])]
        own = next((entry for entry in table.get("page", []) if entry["name"] == page), {})
        unknown = set(own) - PAGE_KEYS
        if unknown:
            raise ValueError(f"readers.toml: {page} has unknown keys: {sorted(unknown)}")
        self.page = page
        self.begin = own.get("begin", "")
        self.runs_inline = own.get("inline", False)
        self.tables = {key: own.get(key, {}) for key in TABLES}
        self.used = {key: set() for key in self.tables}

    def find(self, table, text):
        """The value whose key the text begins with, or None."""
        for key, value in self.tables[table].items():
            if text.startswith(key):
                self.used[table].add(key)
                return value
        return None

    def why_not_run(self, command):
        """The reason why a command is not run, or None. With ./dev test --all those that say `whole` are run, if the wheels are there."""
        for entry in self.not_run_entries:
            if command.startswith(entry["command"]) and entry.get("page", self.page) == self.page:
                return None if entry.get("whole") and WHOLE and (WHEELS / "installed.txt").exists() else entry["reason"]
        return None

    def placeholders_in(self, command):
        """Those of the page's placeholders that the command has, with the words of the shell that say what each stands for."""
        found = {placeholder: words for placeholder, words in self.tables["stands_for"].items() if placeholder in command}
        self.used["stands_for"].update(found)
        return found

    def unused(self):
        return [f"{table}: {key}" for table, entries in self.tables.items() for key in entries if key not in self.used[table]]
