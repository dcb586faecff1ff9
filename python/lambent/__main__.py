"""python3 -m lambent deploy FILE | dev FILE | run FILE::FUNCTION [ARGUMENT...] [--KEYWORD VALUE...]: apps from the shell."""
from __future__ import annotations

import argparse
import ast
import importlib.util
import inspect
import os
import sys
from collections.abc import Iterable
from types import ModuleType
from typing import Any

from .app import App, Function
from .app_calls import RemoteTraceback
from .app_watch import NO_WORKER, dev
from .errors import LambentError


def load(path: str) -> ModuleType:
    """The module of a file, under its own name."""
    if not os.path.isfile(path):
        raise LambentError("there is no file %r" % path, "NOT_FOUND")
    folder, name = os.path.split(os.path.abspath(path))
    sys.path.insert(0, folder)
    name = os.path.splitext(name)[0]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise LambentError("%r is no Python file" % path, "INVALID_ARGUMENT")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def app_in(module: ModuleType, path: str) -> App:
    apps = [value for value in vars(module).values() if isinstance(value, App)]
    if len(apps) != 1:
        raise LambentError("%s has %d apps; it needs one, app = lambent.App(NAME)" % (path, len(apps)), "INVALID_ARGUMENT")
    return apps[0]


def value_of(word: str) -> Any:
    """3, [1, 2], {"a": 1}, True; all else is a text."""
    try:
        return ast.literal_eval(word)
    except (ValueError, SyntaxError):
        return word


def arguments_of(words: Iterable[str]) -> tuple[list[Any], dict[str, Any]]:
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    left = list(words)
    while left:
        word = left.pop(0)
        if not word.startswith("--"):
            args.append(value_of(word))
            continue
        name, equals, value = word[2:].partition("=")
        if not equals:
            if not left:
                raise LambentError("--%s has no value" % name, "INVALID_ARGUMENT")
            value = left.pop(0)
        kwargs[name.replace("-", "_")] = value_of(value)
    return args, kwargs


def say(line: str) -> None:
    sys.stderr.write("lambent: %s\n" % line)


def deploy(path: str) -> None:
    app = app_in(load(path), path)
    changed = app.deploy(say)
    for name in app.deployments:
        print("deployed" if name in changed else "unchanged", name)


def run(place: str, words: Iterable[str]) -> None:
    path, colons, name = place.partition("::")
    module = load(path)
    app = app_in(module, path)
    found = app.functions.get(name.partition(".")[0]) if colons else None
    if found is not None and "." in name:
        found = getattr(found(), name.partition(".")[2], None)
    if not isinstance(found, Function):
        why = ""
        if name:
            why = "there is no function %r; " % name if found is None else "%s is a class: %s::%s.METHOD; " % (name, path, name)
        raise LambentError("%ssay which function: %s" % (why, ", ".join("%s::%s" % (path, each) for each in app.functions)), "NOT_FOUND")
    args, kwargs = arguments_of(words)
    app.deploy(say)
    is_generator = any(kind(inspect.unwrap(found)) for kind in (inspect.isgeneratorfunction, inspect.isasyncgenfunction))
    for answer in found.remote_gen(*args, **kwargs) if is_generator else [found.remote(*args, **kwargs)]:
        if answer is not None:
            print(answer, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python3 -m lambent", description="Deploys the functions of an app, and runs them.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("deploy", help="deploy an app's functions").add_argument("file")
    verbs.add_parser("dev", help="deploy whenever a file beside the app changes, and show what its functions print").add_argument("file")
    runs = verbs.add_parser("run", help="deploy, call one function and print what it returns")
    runs.add_argument("place", metavar="FILE::FUNCTION")
    runs.add_argument("words", nargs=argparse.REMAINDER, metavar="ARGUMENT", help="as Python writes them; --name VALUE by keyword")
    options = parser.parse_args()
    try:
        if options.verb == "run":
            run(options.place, options.words)
        else:
            {"deploy": deploy, "dev": dev}[options.verb](options.file)
    except Exception as error:
        if isinstance(error.__cause__, RemoteTraceback):  # the function's: where it was called here tells nothing
            sys.stderr.write("lambent: %s failed\n%s\n" % (options.place, error.__cause__.text))
        elif isinstance(error, LambentError):
            sys.stderr.write("lambent: %s\n" % error)
        else:
            raise
        return NO_WORKER if isinstance(error, LambentError) and error.code == "UNAVAILABLE" else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
