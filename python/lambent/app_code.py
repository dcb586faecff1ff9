"""What an app's functions are deployed as: settings, a package that is the same for the same files, and the request. Standard
library only."""
from __future__ import annotations

import base64
import dataclasses
import fnmatch
import hashlib
import io
import json
import math
import os
import re
import stat
import struct
import time
import uuid
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote

from . import app_workflow
from .errors import LambentError, error_of
from .http_objects import error_from

_FUNCTIONS = "/2015-03-31/functions"
_MOST_PACKAGE = 50 << 20
_ASKS_FIRST = 64 << 10  # bytes of a package: larger ones are sent only to a worker that lacks them
_ASK_AGAIN = 0.3  # seconds between looks at a deployment
_LAUNCHER = "_lambent_app.py"
_GRAPH = "workflow.json"
_EPOCH = (1980, 1, 1, 0, 0, 0)

SETTINGS = {
    "memory": "host memory of a sandbox, such as '512M'",
    "cpus": "processors that a sandbox may keep at work, such as 0.5; 0: no quota",
    "gpu": "GPU memory, such as '2G', of each GPU; without it the function has no GPU",
    "gpu_count": "GPUs that each sandbox takes, all together",
    "timeout": "seconds of one call",
    "weight": "its share beside other functions",
    "max_concurrency": "sandboxes at work at once",
    "concurrency": "calls in one sandbox at once: of a function in threads, of coroutines in one loop",
    "min_instances": "sandboxes that are ready before any call",
    "keep_alive": "seconds that others rest before they end",
    "slo": "seconds within which a call is to be answered, which is counted",
    "async_retries": "how often an asynchronous call that failed is tried again: 0, 1 or 2",
    "async_max_age": "seconds after which an asynchronous call is not tried any more: 60 to 21600",
    "on_success": "the function that is told when an asynchronous call succeeded",
    "on_failure": "the function that is told when one failed and is not tried again",
    "schedule": "when it is called by itself: a cron such as '30 2 * * *', a rate such as '5 minutes', or a table as in [[schedules]]",
    "schedules": "several of them, each a table with a name",
    "network": "where it may connect to: 'outbound', or a list such as ['api.example.org:443']",
    "requirements": "packages of its Python, as pip has them",
    "python": "the version of its Python, such as '3.11'",
    "preload": "modules that are imported before its sandboxes are forked",
    "environment": "variables",
    "volumes": "volumes of the tenant, or allowed folders of the host, by their place in the sandbox: {'/weights': 'weights'}",
    "secrets": "variables whose values are secrets: {variable: name of the secret}",
}
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def bytes_of(amount: str | int, what: str) -> int:
    """Of "512M", "2GiB" or a number of bytes."""
    if isinstance(amount, int) and not isinstance(amount, bool):
        return amount
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", amount.strip()) if isinstance(amount, str) else None
    if found is None:
        raise ValueError("%s is %r, not an amount such as '512M'" % (what, amount))
    return int(float(found[1]) * _UNITS[found[2]])


def _name(function: Any) -> str:
    """Of a function of an app, or a name."""
    return str(getattr(function, "name", function))


def _schedules(given: Any) -> str:
    """As a list in JSON. ValueError or TypeError names what is wrong with the form; the rest is for the worker to say."""
    if not isinstance(given, (list, tuple)):
        raise TypeError("schedules is a list of tables")
    tables = []
    for each in given:
        if isinstance(each, str):
            each = {"cron" if len(each.split()) == 5 or each.startswith("@") else "rate": each}
        if not isinstance(each, dict):
            raise TypeError("a schedule is a cron, a rate or a table, not %r" % (each,))
        table = dict(each)
        if "payload" in table and not isinstance(table["payload"], str):
            table["payload"] = json.dumps(table["payload"])
        if "name" not in table and len(given) == 1:
            table["name"] = "schedule"
        tables.append(table)
    return json.dumps(tables, sort_keys=True) if tables else ""


@dataclasses.dataclass(frozen=True)
class Settings:
    memory: int = 512 << 20
    cpus: float = 0.0  # no quota
    gpu: int = 0
    gpu_count: int = 1
    timeout: int = 30
    weight: float = 1.0
    max_concurrency: int = 1000
    concurrency: int = 1
    min_instances: int = 0
    keep_alive: float = -1.0  # as the worker says
    slo: float = 0.0  # none
    async_retries: int = -1  # as the worker says
    async_max_age: float = 0.0  # not stated
    on_success: str = ""
    on_failure: str = ""
    schedules: str = ""  # as the worker has them
    network: str = ""
    requirements: tuple[str, ...] = ()
    python: str = ""
    preload: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()  # of pairs
    volumes: tuple[tuple[str, str], ...] = ()  # of pairs

    @staticmethod
    def of_workflow(given: Mapping[str, Any]) -> Settings:
        """As of(), for a function that holds no sandbox."""
        foreign = sorted(set(given) & set(SETTINGS) - set(app_workflow.SETTINGS))
        if foreign:
            raise TypeError("a workflow has no %s: its functions have; it has %s" % (", ".join(foreign), ", ".join(app_workflow.SETTINGS)))
        return Settings.of(given)

    @staticmethod
    def of(given: Mapping[str, Any]) -> Settings:
        """ValueError or TypeError names what is wrong."""
        unknown = sorted(set(given) - set(SETTINGS))
        if unknown:
            raise TypeError("there is no setting %s; there are %s" % (", ".join(unknown), ", ".join(SETTINGS)))
        environment = {str(k): str(v) for k, v in given.get("environment", {}).items()}
        for variable, secret in given.get("secrets", {}).items():
            environment[variable] = "${secret:%s}" % secret
        network = given.get("network", "")
        if "schedule" in given and "schedules" in given:
            raise TypeError("a function has either schedule or schedules")
        schedules = given.get("schedules", [given["schedule"]] if "schedule" in given else [])
        for name in ("requirements", "preload"):
            if isinstance(given.get(name, ()), str):
                raise TypeError("%s is a list of texts" % name)
        if given.get("preload") and not given.get("requirements") and not given.get("python"):
            raise ValueError("preload goes with requirements or python")
        return Settings(memory=bytes_of(given.get("memory", 512 << 20), "memory"), cpus=float(given.get("cpus", 0)), gpu=bytes_of(given.get("gpu", 0), "gpu"),
                        gpu_count=int(given.get("gpu_count", 1)), timeout=int(given.get("timeout", 30)), weight=float(given.get("weight", 1)),
                        max_concurrency=int(given.get("max_concurrency", 1000)), concurrency=int(given.get("concurrency", 1)),
                        min_instances=int(given.get("min_instances", 0)), keep_alive=float(given.get("keep_alive", -1)),
                        slo=float(given.get("slo", 0)), async_retries=int(given.get("async_retries", -1)), async_max_age=float(given.get("async_max_age", 0)),
                        on_success=_name(given.get("on_success", "")), on_failure=_name(given.get("on_failure", "")),
                        schedules=_schedules(schedules), network=network if isinstance(network, str) else ",".join(network),
                        requirements=tuple(given.get("requirements", ())), python=str(given.get("python", "")),
                        preload=tuple(given.get("preload", ())), environment=tuple(sorted(environment.items())),
                        volumes=tuple(sorted(given.get("volumes", {}).items())))


@dataclasses.dataclass(frozen=True)
class Deployment:
    """A function as the worker gets it."""
    name: str  # there
    entry: str  # in the module
    kind: str  # "handler", "http" or "workflow"
    settings: Settings


def _zip_of(files: Mapping[str, str], texts: Mapping[str, str | bytes]) -> bytes:
    """Of {name in the package: file} and {name: content}."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted({**files, **texts}):
            entry = zipfile.ZipInfo(name, _EPOCH)
            runs = name not in texts and os.stat(files[name]).st_mode & stat.S_IXUSR
            entry.external_attr, entry.compress_type = (0o755 if runs else 0o644) << 16, zipfile.ZIP_DEFLATED
            if name in texts:
                archive.writestr(entry, texts[name])
            else:
                with open(files[name], "rb") as file:
                    archive.writestr(entry, file.read())
    return made.getvalue()


def package_of(deployment: Deployment, path: str, include: Iterable[str]) -> bytes:
    """The zip: the app's file, what is included, and the module that finds the function. The same files give the same bytes, whatever
    their times and rights are but for whether their owner may run them."""
    folder = os.path.dirname(os.path.abspath(path))
    module = os.path.splitext(os.path.basename(path))[0]
    if not module.isidentifier():
        raise LambentError("%s cannot be imported: its name is no word of Python" % path, "INVALID_ARGUMENT")
    files = {module + ".py": path}
    for pattern in include:
        matched = _matching(folder, pattern)
        if not matched:
            raise error_of("NOT_FOUND", "include: there is nothing that matches %r in %s" % (pattern, folder))
        files.update(matched)
    launcher = ("from lambent import app_calls\n\n\ndef __getattr__(name):\n"
                "    if name.startswith('_'):\n        raise AttributeError(name)\n"
                "    return app_calls.handler_of(%r, name)\n" % module)
    texts = {_LAUNCHER: launcher}
    if deployment.settings.requirements or deployment.settings.python:
        texts[".lambent/python.json"] = json.dumps(
            {"version": deployment.settings.python, "requirements": list(deployment.settings.requirements),
             **({"preload": list(deployment.settings.preload)} if deployment.settings.preload else {})})
    made = _zip_of(files, texts)
    if len(made) > _MOST_PACKAGE:
        raise error_of("OUT_OF_RANGE", "the app's package has %d bytes; at most %d are taken" % (len(made), _MOST_PACKAGE))
    return made


def _matching(folder: str, pattern: str) -> dict[str, str]:
    """{name in the package: file} of a file, a folder or a pattern of names in the app's folder. As in a shell, a pattern takes what begins
    with a dot only if it does so itself, in the folders that it matches too: .env and .venv are seldom meant. What is named is taken whole."""
    whole, takes_hidden = os.path.join(folder, pattern), True
    if os.path.isabs(pattern) or os.path.relpath(whole, folder).startswith(".."):
        raise error_of("INVALID_ARGUMENT", "include: %r does not lie beside the app's file" % pattern)
    if os.path.exists(whole):
        found = [whole]
    else:
        inside, last = os.path.split(whole)
        takes_hidden = last.startswith(".")
        found = [os.path.join(inside, name) for name in (os.listdir(inside) if os.path.isdir(inside) else [])
                 if fnmatch.fnmatch(name, last) and (takes_hidden or not name.startswith("."))]
    for each in found:
        _refuse_broken(each, folder)
    files = (file for each in found for file in (_files_below(each, folder, takes_hidden) if os.path.isdir(each) else [each]))
    return {os.path.relpath(file, folder): file for file in files
            if os.path.isfile(file) and (file == whole or ("__pycache__" not in os.path.dirname(file) and not file.endswith(".pyc")))}


def _refuse_broken(each: str, folder: str, above: tuple[str, ...] = ()) -> None:
    leads = "nothing is there" if not os.path.exists(each) else "it lies in that" if os.path.realpath(each) in above else ""
    if os.path.islink(each) and leads:
        raise error_of("INVALID_ARGUMENT", "include: the link %s leads to %s: %s" % (
            os.path.relpath(each, folder), os.readlink(each), leads))


def _files_below(top: str, folder: str, takes_hidden: bool, above: tuple[str, ...] = ()) -> Iterator[str]:
    """Links are followed, as those to files are; one that leads nowhere, or to a folder that it lies in, is refused."""
    above += (os.path.realpath(top),)
    for each in (os.path.join(top, name) for name in os.listdir(top) if takes_hidden or not name.startswith(".")):
        _refuse_broken(each, folder, above)
        if os.path.isdir(each):
            yield from _files_below(each, folder, takes_hidden, above)
        else:
            yield each


def _configuration(deployment: Deployment) -> dict[str, Any]:
    settings = deployment.settings
    if deployment.kind == "workflow":
        return {"Runtime": "provided.al2023", "Handler": _GRAPH, "Timeout": settings.timeout}
    handler = ("python3 -m lambent.app_server %s" % deployment.entry if deployment.kind == "http"
               else "_lambent_app." + deployment.entry)
    return {"Runtime": "python" + (settings.python or "3"), "Handler": handler, "Timeout": settings.timeout,
            "MemorySize": -(-settings.memory >> 20) if settings.memory % (1 << 20) == 0 else (settings.memory >> 20) + 1,
            "Environment": {"Variables": dict(settings.environment)}}


def _tags(deployment: Deployment) -> dict[str, str]:
    settings = deployment.settings
    return {"lambent:kind": deployment.kind, "lambent:mounts": ",".join("%s:%s" % (source, at) for at, source in settings.volumes),
            "lambent:gpu-memory": "%dMiB" % (-(-settings.gpu // (1 << 20))), "lambent:gpu-count": str(settings.gpu_count),
            "lambent:weight": "%g" % settings.weight, "lambent:max-concurrency": str(settings.max_concurrency),
            "lambent:min-instances": str(settings.min_instances), "lambent:keep-alive": "%g" % settings.keep_alive,
            "lambent:network": settings.network, "lambent:schedules": settings.schedules,
            "lambent:async-retries": str(settings.async_retries), "lambent:async-max-age": "%g" % settings.async_max_age,
            "lambent:async-on-success": settings.on_success, "lambent:async-on-failure": settings.on_failure,
            "lambent:http-concurrency": str(settings.concurrency),
            # A worker of before does not know these.
            **({"lambent:cpus": "%g" % settings.cpus} if settings.cpus else {}),
            **({"lambent:slo-ms": "%d" % math.ceil(round(settings.slo * 1000, 6))} if settings.slo else {})}


def _send(client: Any, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None) -> Any:
    status, headers, answer = client._http.request(method, path, body, headers or {})
    if status >= 300:
        error = error_from(status, headers, answer)
        try:
            error.message = json.loads(answer)["Message"]
        except (ValueError, KeyError, TypeError):
            pass
        raise error
    return json.loads(answer) if answer else {}


def deploy(client: Any, deployment: Deployment, path: str, include: Iterable[str], tell: Callable[[str], None] | None = None,
           graph: bytes | None = None) -> bool:
    """Creates or changes the function in one revision, or not at all; false if it is as it should be. `graph`: of a workflow."""
    package = package_of(deployment, path, include) if graph is None else _zip_of({}, {_GRAPH: graph})
    settings = json.dumps({**_configuration(deployment), "Role": "arn:aws:iam::000000000000:role/lambent", "Tags": _tags(deployment)}).encode()
    target = "/v1/functions/" + quote(deployment.name, safe="")
    answer = _put_less(client, target, settings, package) if len(package) > _ASKS_FIRST else None
    if answer is None:
        answer = _put(client, target, settings, {"code": package})
    change = answer.get("kind_change")
    if change and tell:
        tell("%s: warning: it was of kind %s and is now of kind %s; 'lambent rollback %s' brings the former one back"
             % (deployment.name, change["from"], change["to"], deployment.name))
    if answer["action"] != "unchanged":
        _wait(client, "%s/%s" % (_FUNCTIONS, quote(deployment.name, safe="")), tell, deployment.name)
    return bool(answer["action"] != "unchanged")


def _put_less(client: Any, target: str, settings: bytes, package: bytes) -> Any:
    """Without the code that the worker has: all of it, or what it has of the function. None: it has to be sent."""
    wanted = target + "?code_sha256=" + quote(_digest(package), safe="")
    try:
        return _put(client, wanted, settings, {})
    except LambentError as error:
        if error.code != "FAILED_PRECONDITION":
            raise
    try:
        base, steps = _delta(client, target, package)
        return _put(client, wanted + "&base_sha256=" + quote(base, safe=""), settings, {"delta": steps})
    except LambentError as error:
        if error.code not in ("FAILED_PRECONDITION", "NOT_FOUND"):
            raise
    return None


def _digest(content: bytes) -> str:
    return base64.b64encode(hashlib.sha256(content).digest()).decode()


def _parts(package: bytes) -> list[bytes]:
    """Each entry of the zip with its header, and the directory behind them."""
    with zipfile.ZipFile(io.BytesIO(package)) as archive:
        borders = [0, *sorted(entry.header_offset for entry in archive.infolist())[1:], archive.start_dir, len(package)]
    return [package[begin:end] for begin, end in zip(borders, borders[1:])]


def _delta(client: Any, target: str, package: bytes) -> tuple[str, bytes]:
    """The digest of the code that the function has, and the steps that make the package out of it."""
    code = _send(client, "GET", target + "/code/parts")
    if "parts" not in code:
        raise error_of("NOT_FOUND", "the worker tells no parts of the code of %s" % target)
    places: dict[str, int] = {}
    end = 0
    for part in code["parts"]:
        places.setdefault(part["sha256"], end)
        end += part["bytes"]
    steps = [b"lambentD"]
    for part in _parts(package):
        place = places.get(_digest(part))
        steps.append(struct.pack("<BQ", 2, len(part)) + part if place is None else struct.pack("<BQQ", 1, place, len(part)))
    return code["code_sha256"], b"".join(steps)


def _put(client: Any, target: str, settings: bytes, code: Mapping[str, bytes]) -> Any:
    boundary = "lambent-" + uuid.uuid4().hex
    parts = {"settings": settings, **code}
    body = b"".join(b'--%s\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n' % (boundary.encode(), name.encode(), content)
                    for name, content in parts.items()) + b"--%s--\r\n" % boundary.encode()
    return _send(client, "PUT", target, body, {"Content-Type": "multipart/form-data; boundary=" + boundary, "Prefer": "respond-async"})


def _wait(client: Any, target: str, tell: Callable[[str], None] | None, name: str) -> None:
    """Until the worker has installed its packages. Raises what that failed with."""
    told = None
    while True:
        state = _send(client, "GET", target + "/configuration")
        for key in ("State", "LastUpdateStatus"):
            if state.get(key) == "Failed":
                raise error_of("FAILED_PRECONDITION", "%s: %s" % (name, state.get(key + "Reason", "it failed")))
        waits = [key for key in ("State", "LastUpdateStatus") if state.get(key) in ("Pending", "InProgress")]
        if not waits:
            if tell is not None and state.get("StateReason"):
                tell("%s: warning: %s" % (name, state["StateReason"]))
            return
        reason = state.get(waits[0] + "Reason", "")
        if tell is not None and reason != told:
            tell("%s: %s" % (name, reason))
        told = reason
        time.sleep(_ASK_AGAIN)
