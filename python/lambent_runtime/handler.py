"""Finds the handler that a function's configuration names; what fails here is an init error."""
import sys


class InitError(Exception):
    """Why there is no handler: `error_type` is Lambda's name for it."""

    def __init__(self, error_type, message, trace=()):
        super().__init__(message)
        self.error_type = error_type
        self.trace = list(trace)


def load(name, folder):
    """The function named by "module.function" or "package/module.function"."""
    module_name, dot, function_name = name.rpartition(".")
    if not dot or not module_name or not function_name:
        raise InitError("Runtime.MalformedHandlerName",
                        "Bad handler '%s': it must look like module.function" % name)
    module_name = module_name.replace("/", ".")
    if folder not in sys.path:
        sys.path.insert(0, folder)
    module = _import(module_name, folder)
    try:
        function = getattr(module, function_name, None)
    except Exception as error:  # of its __getattr__: that of an app imports the app
        raise _init_error(error, module_name, folder) from None
    if not callable(function):
        names = [n for n in dir(module) if not n.startswith("_") and callable(getattr(module, n))]
        raise InitError("Runtime.HandlerNotFound", "Handler '%s' missing on module '%s'%s" %
                        (function_name, module_name, _suggestion(function_name, names)))
    return function


def _import(module_name, folder):
    try:
        # Not importlib: it need not be loaded for this.
        __import__(module_name)
        return sys.modules[module_name]
    except Exception as error:
        raise _init_error(error, module_name, folder) from None


def _init_error(error, module_name, folder):
    if isinstance(error, SyntaxError):
        return InitError("Runtime.UserCodeSyntaxError", "Syntax error in module '%s': %s" %
                         (module_name, words_of(error)), trace_of(error))
    if not isinstance(error, ImportError):
        return InitError(type(error).__name__, words_of(error), trace_of(error))
    hint = ""
    if isinstance(error, ModuleNotFoundError):
        hint = _suggestion(module_name, _modules_in(folder)) if error.name == module_name else \
            "; name it in [python] requirements, or put it into the package"
    return InitError("Runtime.ImportModuleError", "Unable to import module '%s': %s%s" %
                     (module_name, words_of(error), hint), trace_of(error))


def ends_process(error):
    """Whether what a handler raised is meant for the process. All else is of its invocation, asyncio.CancelledError too, which is no Exception."""
    return isinstance(error, (SystemExit, KeyboardInterrupt))


def words_of(error):
    """Its message. Code of the function makes it, which may fail too."""
    try:
        return str(error)
    except Exception as failure:
        return "(the __str__ of %s raised %s)" % (type(error).__name__, type(failure).__name__)


def trace_of(error):
    """The lines of an exception's traceback below our own files."""
    import traceback

    frames = [frame for frame in traceback.extract_tb(error.__traceback__)
              if not any(ours in frame.filename for ours in ("lambent_runtime", "importlib", "/lambent/app", "/asyncio/base_events"))]
    return [line.rstrip("\n") for line in traceback.format_list(frames)]


def _suggestion(name, names):
    import difflib

    close = difflib.get_close_matches(name, names, 1)
    return "; did you mean '%s'?" % close[0] if close else ""


def _modules_in(folder):
    import os

    try:
        return [entry[:-3] for entry in os.listdir(folder) if entry.endswith(".py")]
    except OSError:
        return []
