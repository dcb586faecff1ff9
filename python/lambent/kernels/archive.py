"""The package of a graph as one zip, as a request brings it: the same bytes for the same content, wherever it is made."""
import io
import json
import os
import shutil
import subprocess
import tempfile
import zipfile
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Set, Tuple, Union

from .errors import GraphError
from .package import SOURCE_ENDINGS, graph_text

if TYPE_CHECKING:
    from .graph import Graph

_HERE = os.path.dirname(os.path.abspath(__file__))
# Of sources that were compiled: what they were, and the files of their bundle.
_compiled: Dict[str, Tuple[Tuple[int, int], Dict[str, bytes]]] = {}


def pack(graph: "Union[Graph, str, os.PathLike[str]]") -> bytes:
    """The zip of a Graph, or of a folder that Graph.save() wrote. Sources are compiled here, by lambent-bundle.
    GraphError names what is missing."""
    return _zip(_files_of_folder(os.fspath(graph)) if isinstance(graph, (str, os.PathLike)) else _files_of(graph))


def _files_of(graph: "Graph") -> Dict[str, bytes]:
    files = {"graph.json": graph_text(graph).encode()}
    for buffer in graph.buffers.values():
        if buffer.role == "constant" and buffer.fill is None:
            files[buffer.package_file] = _read(buffer.file) if buffer.file is not None else buffer.data or b""
    for bundle in graph.bundles.values():
        if bundle.path is not None:
            _add_bundle(files, bundle.name, bundle.path)
    return files


def _files_of_folder(folder: str) -> Dict[str, bytes]:
    text = _read(os.path.join(folder, "graph.json"))
    try:
        graph = json.loads(text)
        constants = [buffer["file"] for buffer in graph["buffers"] if "file" in buffer]
        names = sorted(_bundles(graph["steps"]))
    except (ValueError, KeyError, TypeError) as error:
        raise GraphError("%s/graph.json is no graph: %s" % (folder, error)) from None
    files = {"graph.json": text}
    for name in constants:
        files[name] = _read(os.path.join(folder, name))
    for name in names:
        if name.startswith("lambent:"):
            continue
        path = os.path.join(folder, name)
        sources = [os.path.join(folder, os.path.basename(name) + ending) for ending in SOURCE_ENDINGS]
        compiled = [] if os.path.isdir(path) else [source for source in sources if os.path.isfile(source)]
        _add_bundle(files, name, (compiled + [path])[0])
    return files


def _bundles(steps: List[Dict[str, Any]]) -> Set[str]:
    names: Set[str] = set()
    for step in steps:
        names |= _bundles(step["steps"]) if "steps" in step else {step["bundle"]}
    return names


def _add_bundle(files: Dict[str, bytes], name: str, path: str) -> None:
    for part, content in (_compile(path) if path.endswith(SOURCE_ENDINGS) else _read_folder(path)).items():
        files[name + "/" + part] = content


def _compile(source: str) -> Dict[str, bytes]:
    source = os.path.abspath(source)
    status = os.stat(source)
    stamp = (status.st_mtime_ns, status.st_size)
    known = _compiled.get(source)
    if known is not None and known[0] == stamp:
        return known[1]
    program = _bundle_program()
    if program is None:
        raise GraphError("%s has to be compiled, and there is no lambent-bundle here: set LAMBENT_BUNDLE to its path, or give a bundle that "
                         "is built" % source)
    with tempfile.TemporaryDirectory() as folder:
        bundle = os.path.join(folder, os.path.splitext(os.path.basename(source))[0])
        built = subprocess.run([program, "build", source, "-o", bundle], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        if built.returncode:
            raise GraphError("%s: %s" % (source, built.stderr.decode("utf-8", "replace").strip()[-4000:]))
        files = _read_folder(bundle)
    _compiled[source] = (stamp, files)
    return files


def _bundle_program() -> Optional[str]:
    """LAMBENT_BUNDLE, that of this installation or wheel, or that of the search path."""
    places = [os.environ.get("LAMBENT_BUNDLE", ""), os.path.join(_HERE, "../../../../../bin/lambent-bundle"),
              os.path.join(_HERE, "../_server/bin/lambent-bundle")]
    for place in places:
        if place and os.path.isfile(place):
            return place
    return shutil.which("lambent-bundle")


def _read_folder(folder: str) -> Dict[str, bytes]:
    if not os.path.isfile(os.path.join(folder, "manifest.json")):
        raise GraphError("%s is no kernel bundle" % folder)
    files = {}
    for root, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(root, name)
            files[os.path.relpath(path, folder).replace(os.sep, "/")] = _read(path)
    return files


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise GraphError(str(error)) from None


def _zip(files: Dict[str, bytes]) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name)  # of 1980, whenever it was made
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, files[name], compresslevel=1)
    return target.getvalue()
