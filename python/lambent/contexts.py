"""Contexts: the workers that `lambent config` has named, for Client. The file, its names and the order in which a worker is chosen are
those of the lambent command (docs/reference/cli.md, "contexts")."""
from __future__ import annotations

import os
import re
import stat
import warnings
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, NamedTuple

from .errors import error_of

_MOST_FILE = 1 << 20
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


class Credentials(NamedTuple):
    """Of https: paths of the authorities that sign the worker's certificate (None: those of this machine), of this
    client's certificate, and of its key."""
    ca: str | None = None
    certificate: str | None = None
    key: str | None = None


class Context(NamedTuple):
    """Where a worker is, and as whom to ask it; None where nothing is said."""
    endpoint: str | None = None
    token: str | None = None
    tenant: str | None = None
    credentials: Credentials = Credentials()


def path_of_contexts(environment: Mapping[str, str] = os.environ) -> str:
    if environment.get("LAMBENT_CONFIG"):
        return environment["LAMBENT_CONFIG"]
    folder = environment.get("XDG_CONFIG_HOME") or os.path.join(environment.get("HOME") or ".", ".config")
    return os.path.join(folder, "lambent", "config.toml")


def resolve(endpoint: str | None = None, context: str | None = None, environment: Mapping[str, str] = os.environ) -> Context:
    """The context to ask, with what the environment adds: by `endpoint` or `context`, else LAMBENT_CONTEXT, LAMBENT_ENDPOINT, the current
    context, the worker's usual port here. A context is taken as a whole or not at all; LAMBENT_TOKEN goes before its token.
    NotFound of a name that is not there; InvalidArgument or FailedPrecondition of a file that cannot be taken."""
    if endpoint and context:
        raise error_of("INVALID_ARGUMENT", "context and endpoint both say which worker is asked: give one of them")
    named = context or ("" if endpoint else environment.get("LAMBENT_CONTEXT", ""))
    is_told = bool(endpoint) or (not named and bool(environment.get("LAMBENT_ENDPOINT")))
    chosen = Context(endpoint) if is_told else _chosen(path_of_contexts(environment), named)
    own = chosen.credentials
    return Context(chosen.endpoint or environment.get("LAMBENT_ENDPOINT") or "http://127.0.0.1:8980",
                   environment.get("LAMBENT_TOKEN") or chosen.token, chosen.tenant,
                   Credentials(own.ca or environment.get("LAMBENT_CA") or None,
                               own.certificate or environment.get("LAMBENT_CLIENT_CERTIFICATE") or None,
                               own.key or environment.get("LAMBENT_CLIENT_KEY") or None))


def _chosen(path: str, named: str) -> Context:
    """The one that is named, or the current one; an empty one if none is."""
    table = _read(path, bool(named))
    contexts = table.get("context", {})
    if not isinstance(contexts, dict):
        raise error_of("INVALID_ARGUMENT", "%s: [context] is no table" % path)
    name = named or table.get("current", "")
    if not name:
        return Context()
    fields = contexts.get(name)
    if fields is None:
        raise error_of("NOT_FOUND", "there is no context '%s'%s" % (name, _suggestion(str(name), list(contexts))))
    if not isinstance(fields, dict) or not _NAME.fullmatch(name):
        raise error_of("INVALID_ARGUMENT", "%s: [context.%s] is no context" % (path, name))
    parts = {key: value for key, value in fields.items() if isinstance(value, str) and value}
    return Context(parts.get("endpoint"), parts.get("token"), parts.get("tenant"),
                   Credentials(parts.get("ca"), parts.get("client_certificate"), parts.get("client_key")))


def _suggestion(name: str, known: list[str]) -> str:
    if not known:
        return "; 'lambent config set NAME --endpoint URL' makes one"
    close = get_close_matches(name, known, 1)
    return "; did you mean '%s'?" % close[0] if close else ""


def _read(path: str, is_needed: bool) -> dict[str, Any]:
    """The file as a table; empty if there is none. Messages do not quote it: it has tokens."""
    try:
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise error_of("FAILED_PRECONDITION", "%s may hold tokens and is open to other users: chmod 600 %s" % (path, path))
            text = file.read(_MOST_FILE + 1)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise error_of("UNAVAILABLE", "read %s: %s" % (path, error.strerror)) from None
    try:
        import tomllib
    except ImportError:  # Python 3.10
        return _without_toml(path, is_needed)
    try:
        if len(text) > _MOST_FILE:
            raise ValueError
        table: dict[str, Any] = tomllib.loads(text.decode("utf-8"))
    except ValueError:
        raise error_of("INVALID_ARGUMENT", "%s: this is no TOML; 'lambent config' writes this file" % path) from None
    return table


def _without_toml(path: str, is_needed: bool) -> dict[str, Any]:
    if is_needed:
        raise error_of("FAILED_PRECONDITION", "contexts need Python 3.11 or newer; give endpoint= or LAMBENT_ENDPOINT instead")
    warnings.warn("the contexts of %s are not read: that needs Python 3.11 or newer" % path, RuntimeWarning, stacklevel=5)
    return {}
