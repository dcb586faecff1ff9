"""Writes a graph as a package that `lambent deploy` takes."""
import json
import os
import shutil
from typing import TYPE_CHECKING, Any, Dict, List

from .errors import GraphError, did_you_mean

if TYPE_CHECKING:
    from .graph import Graph

# What lambent-bundle makes a bundle of: sources, and libraries that are compiled already.
SOURCE_ENDINGS = (".cu", ".ptx")
_GPU_SETTINGS = ("launch_mode", "memory", "domain", "share")
_SETTINGS = ("description", "timeout_s", "weight", "max_concurrency", "tags") + _GPU_SETTINGS


def save(graph: "Graph", folder: str, **settings: Any) -> None:
    """See Graph.save(). Files of the same names are replaced, others stay."""
    for key in settings:
        if key not in _SETTINGS:
            raise GraphError("there is no setting '%s'%s" % (key, did_you_mean(key, _SETTINGS)))
    text = graph_text(graph)
    os.makedirs(folder, exist_ok=True)
    for buffer in graph.buffers.values():
        if buffer.role != "constant" or buffer.fill is not None:
            continue
        path = os.path.join(folder, buffer.package_file)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if buffer.file is not None:
            shutil.copyfile(buffer.file, path)
        else:
            with open(path, "wb") as file:
                file.write(buffer.data or b"")
    bundles, sources = [], []
    for bundle in graph.bundles.values():
        if bundle.path is None:
            continue
        if bundle.path.endswith(SOURCE_ENDINGS):
            name = os.path.basename(bundle.path)
            if os.path.abspath(bundle.path) != os.path.abspath(os.path.join(folder, name)):
                shutil.copyfile(bundle.path, os.path.join(folder, name))
            sources.append(name)
        else:
            bundles.append(os.path.relpath(bundle.path, folder))
    _write(os.path.join(folder, "graph.json"), text)
    _write(os.path.join(folder, "lambent.toml"), _manifest(graph.name, bundles, sources, settings))


def graph_text(graph: "Graph") -> str:
    """graph.json: a line for each buffer, argument and repetition."""
    root = graph.json()
    lines = ["{", ' "buffers": [']
    lines += _joined([["  " + json.dumps(buffer)] for buffer in root["buffers"]])
    lines += [" ],", ' "steps": [']
    lines += _steps(root["steps"], "  ")
    lines.append(' ],\n "batches": %s' % json.dumps(root["batches"]) if "batches" in root else " ]")
    return "\n".join(lines + ["}"]) + "\n"


def _joined(entries: List[List[str]]) -> List[str]:
    """Lists of lines with a comma after each but the last."""
    for lines in entries[:-1]:
        lines[-1] += ","
    return [line for lines in entries for line in lines]


def _steps(steps: List[Dict[str, Any]], indent: str) -> List[str]:
    entries = []
    for step in steps:
        inner = "steps" if "steps" in step else "arguments"
        head = json.dumps({key: value for key, value in step.items() if key != inner})
        lines = [indent + head[:-1] + ', "%s": [' % inner]
        if inner == "steps":
            lines += _steps(step["steps"], indent + "  ")
        else:
            lines += _joined([[indent + "  " + json.dumps(argument)] for argument in step["arguments"]])
        entries.append(lines + [indent + "]}"])
    return _joined(entries)


def _manifest(name: str, bundles: List[str], sources: List[str], settings: Dict[str, Any]) -> str:
    # What JSON writes of texts, numbers and lists of them, TOML reads.
    lines = ["name = " + json.dumps(name), 'kind = "kernel"', 'graph = "graph.json"']
    for key in ("description", "timeout_s", "weight", "max_concurrency"):
        if key in settings:
            lines.append("%s = %s" % (key, json.dumps(settings[key])))
    if bundles:
        lines.append("bundles = " + json.dumps(bundles))
    if sources:
        lines.append("sources = " + json.dumps(sources))
    gpu = ["%s = %s" % (key, json.dumps(settings[key])) for key in _GPU_SETTINGS if key in settings]
    if gpu:
        lines += ["", "[gpu]"] + gpu
    if settings.get("tags"):
        lines += ["", "[tags]"]
        lines += ["%s = %s" % (json.dumps(key), json.dumps(value))
                  for key, value in settings["tags"].items()]
    return "\n".join(lines) + "\n"


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
