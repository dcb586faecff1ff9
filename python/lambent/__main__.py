"""Apps from the shell: lambent deploy FILE | dev FILE | run FILE::FUNCTION [ARGUMENT...] [--KEYWORD VALUE...], or python3 -m lambent with the
same words. LAMBENT_PROGRAM is how the user called it."""
from __future__ import annotations

import argparse
import ast
import importlib.util
import inspect
import os
import sys
import traceback
from collections.abc import Container, Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any

from .app import App, Function
from .app_calls import RemoteTraceback
from .app_watch import dev
from .errors import CODES, FunctionError, LambentError


class LoadError(Exception):
    """The file could not be imported; the text tells where in it."""


def load_error_of(error: Exception, path: str) -> LoadError:
    own = error.__traceback__
    while own is not None and os.path.abspath(own.tb_frame.f_code.co_filename) != os.path.abspath(path):
        own = own.tb_next  # what called it is ours, and tells the user nothing
    text = "".join(traceback.TracebackException(type(error), error, own).format())
    if isinstance(error, ModuleNotFoundError):
        text += "lambent: this command imports the file too: install %s here, or import it inside of the functions that use it\n" % error.name
    return LoadError(text)


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
    try:
        spec.loader.exec_module(module)
    except LambentError:
        raise
    except Exception as error:
        raise load_error_of(error, path) from error
    return module


def app_in(module: ModuleType, path: str) -> App:
    apps = [value for value in vars(module).values() if isinstance(value, App)]
    if len(apps) != 1:
        hint = "" if apps else "; a handler is deployed by its folder, which has a lambent.toml ('lambent init NAME' writes one)"
        raise LambentError("%s has %d apps; it needs one, app = lambent.App(NAME)%s" % (path, len(apps), hint), "INVALID_ARGUMENT")
    return apps[0]


def value_of(word: str) -> Any:
    """3, [1, 2], {"a": 1}, True; all else is a text."""
    try:
        return ast.literal_eval(word)
    except (ValueError, SyntaxError):
        return word


_WORDS = {int: ("int", "a whole number"), float: ("float", "a number"), str: ("str", "a text"), list: ("list", "a list such as '[1, 2]'"),
          dict: ("dict", "a dictionary such as '{\"a\": 1}'")}


def typed_value_of(word: str, name: str, annotation: Any) -> Any:
    """As value_of(), where the function says what it takes. A text is the word itself; what is no such value is refused before a call."""
    kind = next((each for each, (text, _) in _WORDS.items() if annotation in (each, text)), None)
    if kind is str:
        return word
    value = value_of(word)
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind is None or (isinstance(value, kind) and not isinstance(value, bool)) or (kind is float and is_number):
        return value
    raise LambentError("%s is %s, not %r" % (name, _WORDS[kind][1], word), "INVALID_ARGUMENT")


_SWITCHES = {"true": True, "false": False, "1": True, "0": False}


def arguments_of(words: Iterable[str], switches: Container[str] = (), types: Mapping[str, Any] = {},
                 places: Sequence[str] | None = None) -> tuple[list[Any], dict[str, Any]]:
    """`switches`: keywords that are true or false, and true where no value follows. `types`: of parameters. `places`: those that take values
    without a name, in their order; None: all of `types`."""
    places = list(types) if places is None else places
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    left = list(words)
    while left:
        word = left.pop(0)
        if not word.startswith("--"):
            place = places[len(args)] if len(args) < len(places) else ""
            args.append(typed_value_of(word, place, types.get(place)))
            continue
        name, equals, value = word[2:].partition("=")
        keyword = name.replace("-", "_")
        if keyword in switches and (equals or (left and left[0].lower() in _SWITCHES)):
            value = value if equals else left.pop(0)
            if value.lower() not in _SWITCHES:
                raise LambentError("--%s is true or false, not %r" % (name, value), "INVALID_ARGUMENT")
            kwargs[keyword] = _SWITCHES[value.lower()]
            continue
        if keyword in switches:
            kwargs[keyword] = True
            continue
        if not equals:
            if not left:
                raise LambentError("--%s has no value" % name, "INVALID_ARGUMENT")
            value = left.pop(0)
        kwargs[keyword] = typed_value_of(value, "--" + name, types.get(keyword))
    return args, kwargs


def say(line: str) -> None:
    sys.stderr.write("lambent: %s\n" % line)


def deployed(app: App, path: str) -> list[str]:
    """What has changed. A workflow that makes no graph is shown where."""
    try:
        app.graphs()
    except Exception as error:
        raise load_error_of(error, path) from error
    return app.deploy(say)


def deploy(path: str) -> None:
    app = app_in(load(path), path)
    changed = deployed(app, path)
    for name in app.deployments:
        print("deployed" if name in changed else "unchanged", name)


def switches_of(function: Any) -> set[str]:
    """Its parameters that are `bool`, by what is written of them or by their default."""
    return {name for name, each in inspect.signature(function).parameters.items()
            if each.annotation in (bool, "bool") or isinstance(each.default, bool)}


def types_of(function: Any) -> dict[str, Any]:
    """What its parameters are said to be: first those that have a place, in their order."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {name: each.annotation for name, each in inspect.signature(function).parameters.items() if each.kind in kinds}


def places_of(function: Any) -> list[str]:
    """Its parameters that a value without a name may be for, in their order."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [name for name, each in inspect.signature(function).parameters.items() if each.kind in kinds]


def run(place: str, words: list[str]) -> None:
    path, colons, name = place.partition("::")
    if not colons and not path.endswith(".py"):
        raise LambentError("%r is no FILE.py::FUNCTION; a function that is deployed is called by 'lambent invoke %s'" % (place, place), "INVALID_ARGUMENT")
    module = load(path)
    app = app_in(module, path)
    found = app.functions.get(name.partition(".")[0]) if colons else None
    if found is not None and "." in name:
        found = getattr(found(), name.partition(".")[2], None)
    if not isinstance(found, Function):
        why = ""
        if name:
            why = "%s is a class: %s::%s.METHOD; " % (name, path, name)
            if found is None:
                why = "there is no function %r; " % name
            elif not hasattr(found, "lambent_class"):
                why = "%s is a web application, which 'lambent deploy %s' serves at /f/%s-%s/; " % (name, path, app.name, name)
        raise LambentError("%ssay which function: %s" % (why, ", ".join("%s::%s" % (path, each) for each in app.functions)), "NOT_FOUND")
    function = found  # whose signature is that of the callers
    if words in (["--help"], ["-h"]):
        text = inspect.getdoc(function)
        print("%s%s%s" % (place, inspect.signature(function), "\n\n" + text if text else ""))
        return
    args, kwargs = arguments_of(words, switches_of(function), types_of(function), places_of(function))
    deployed(app, path)
    is_generator = any(kind(inspect.unwrap(found)) for kind in (inspect.isgeneratorfunction, inspect.isasyncgenfunction))
    for answer in found.remote_gen(*args, **kwargs) if is_generator else [found.remote(*args, **kwargs)]:
        if answer is not None:
            print(answer, flush=True)


def choose_worker(options: argparse.Namespace) -> None:
    """Into the environment, which every client reads, also those of the processes that are started from here."""
    if options.endpoint and options.context:
        raise LambentError("--context and --endpoint both say which worker is asked: give one of them", "INVALID_ARGUMENT")
    if options.endpoint:
        os.environ.pop("LAMBENT_CONTEXT", None)  # it would go before the endpoint
        os.environ["LAMBENT_ENDPOINT"] = options.endpoint
    if options.context:
        os.environ["LAMBENT_CONTEXT"] = options.context


def exit_code_of(error: Exception) -> int:
    """As the command has them: 1 for what the function did, else the code's number and ten."""
    if not isinstance(error, LambentError) or isinstance(error, FunctionError) or isinstance(error.__cause__, RemoteTraceback):
        return 1
    return 10 + CODES.index(error.code)


def parser_of_verbs() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=os.environ.get("LAMBENT_PROGRAM") or "python3 -m lambent",
                                     description="Deploys the functions of an app (lambent.App), and calls them.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb, what in (("deploy", "deploy the functions of a Python file"),
                       ("dev", "deploy a Python file again whenever a file beside it changes, and show what its functions print"),
                       ("run", "deploy a Python file, call one of its functions and print what it returns")):
        below = verbs.add_parser(verb, help=what, description=what[0].upper() + what[1:] + ".")
        below.add_argument("--endpoint", metavar="URL", help="the worker: http://HOST:PORT, https://HOST:PORT or unix:PATH (or LAMBENT_ENDPOINT)")
        below.add_argument("--context", metavar="NAME", help="a worker that 'lambent config' has named (or LAMBENT_CONTEXT)")
        below.add_argument("--help-all", action="help", help=argparse.SUPPRESS)  # of every verb; --help has all here
        if verb == "run":
            below.add_argument("place", metavar="FILE::FUNCTION", help="the file with app = lambent.App(NAME), and a function or CLASS.METHOD of it")
            words = below.add_argument("words", nargs=argparse.REMAINDER, metavar="ARGUMENT", help="as Python writes them; --name VALUE by keyword")
            words.required = False  # argparse says that it is, though it takes none too
        else:
            below.add_argument("file", metavar="FILE", help="the file with app = lambent.App(NAME)")
    return parser


def main() -> int:
    options = parser_of_verbs().parse_args()
    try:
        choose_worker(options)
        if options.verb == "run":
            run(options.place, options.words)
        else:
            {"deploy": deploy, "dev": dev}[options.verb](options.file)
    except Exception as error:
        if isinstance(error.__cause__, RemoteTraceback):  # the function's: where it was called here tells nothing
            sys.stderr.write("lambent: %s failed\n%s\n" % (options.place, error.__cause__.text))
        elif isinstance(error, LoadError):
            sys.stderr.write(str(error))
        elif isinstance(error, LambentError):
            sys.stderr.write("lambent: %s\n" % error)
        else:
            raise
        return exit_code_of(error)
    return 0


if __name__ == "__main__":
    sys.exit(main())
