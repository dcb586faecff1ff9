"""Volumes: files that functions see by [[mounts]], of `lambent.client`. Uploads and downloads that are cut off go on where they were,
and each content is checked by its SHA-256. Standard library only; one thread at a time."""
from __future__ import annotations

import hashlib
import http.client
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import quote

from .contexts import Credentials
from .errors import LambentError, error_of
from .http_objects import HttpObjects, connect, error_from

_Reached = list[int]  # where an attempt came to, in its one element
_PIECE = 1 << 20
_TRIES = 8  # without any progress
_DEEPEST = 32  # parts of a path in a volume, as the worker has it
_LONGEST_PAUSE = 5.0  # seconds
_PASSING = ("UNAVAILABLE", "ABORTED", "DEADLINE_EXCEEDED")


def _digest(path: str | os.PathLike[str]) -> tuple[int, str]:
    """(bytes, hexadecimal digits) of a file."""
    digest, size = hashlib.sha256(), 0
    with open(path, "rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
            size += len(piece)
    return size, digest.hexdigest()


def _check(path: str) -> str:
    """A path of the worker becomes one of this machine: it may not lead elsewhere."""
    if not path or any(part in ("", ".", "..") for part in path.split("/")) or "\0" in path or os.path.isabs(path):
        raise error_of("DATA_LOSS", "the worker names a file %r, which no volume has" % path)
    return path


class Volumes:
    """Of a Client: `client.volumes`."""

    def __init__(self, endpoint: str, http_calls: HttpObjects, headers: Mapping[str, str],
                 credentials: Credentials | None = None) -> None:
        self._endpoint, self._http, self._headers, self._credentials = endpoint, http_calls, dict(headers), credentials

    def create(self, name: str) -> None:
        self._http.good("PUT", self._path(name))

    def list(self) -> Any:
        """[{"name", "files", "size_bytes", "unfinished_bytes"}], in order of name."""
        return json.loads(self._http.good("GET", "/v1/volumes")[2])["volumes"]

    def files(self, name: str, prefix: str = "") -> Any:
        """[{"path", "size_bytes", "sha256"}], in order of path."""
        files, after = [], ""
        while True:
            target = "%s/files?prefix=%s&after=%s" % (self._path(name), quote(prefix, ""), quote(after, ""))
            page = json.loads(self._http.good("GET", target)[2])
            files += page["files"]
            if not page.get("next"):
                return files
            after = page["next"]

    def remove(self, name: str, path: str | None = None) -> None:
        """A file, all below a folder, or the volume."""
        self._http.good("DELETE", self._path(name) if path is None else self._path(name, "files", path))

    def put(self, name: str, local: str | os.PathLike[str], path: str | None = None, follow_links: bool = False) -> int:
        """Puts a file under `path` (its own name without one), or the regular files of a folder below it (the top without one).
        Links in a folder that lead elsewhere, or to a folder, are refused before anything is sent; with `follow_links` what they
        lead to is put. What the volume has is not sent. Returns how many files were."""
        local = os.fspath(local)
        if not os.path.isdir(local):
            return self._put_file(name, local, path or os.path.basename(local))
        files = list(self._files_below(local, follow_links))
        return sum(self._put_file(name, source, inside if path is None else "%s/%s" % (path, inside)) for inside, source in files)

    def get(self, name: str, path: str, local: str | os.PathLike[str]) -> None:
        """Gets a file to the path `local`, or the files below a folder into the folder `local` ("." for all)."""
        found = False
        for file in self.files(name, "" if path == "." else path):
            inside = _check(file["path"])
            if inside == path:
                self._get_file(name, file, os.fspath(local))
            elif path == "." or inside.startswith(path + "/"):
                below = inside if path == "." else inside[len(path) + 1:]
                self._get_file(name, file, os.path.join(local, below))
            else:
                continue
            found = True
        if not found and path != ".":
            raise error_of("NOT_FOUND", "volume %r has no file and no folder %r" % (name, path))

    @classmethod
    def _files_below(cls, top: str, follow_links: bool) -> Iterator[tuple[str, str]]:
        """(path below it, path here) of each regular file."""
        def fail(error: OSError) -> None:
            raise error  # os.walk would leave the folder out

        for folder, folders, names in os.walk(top, onerror=fail, followlinks=follow_links):
            folders.sort()
            below = os.path.relpath(folder, top).replace(os.sep, "/")
            if below.count("/") + 1 > _DEEPEST:
                raise error_of("INVALID_ARGUMENT", "%s is too deep for a volume" % folder)
            for each in sorted(folders + names):
                source = os.path.join(folder, each)
                if os.path.islink(source) and not follow_links:
                    cls._check_link(source, top)
                if os.path.isfile(source):
                    yield each if below == "." else "%s/%s" % (below, each), source

    @staticmethod
    def _check_link(link: str, folder: str) -> None:
        """That it may be put without follow_links."""
        real, top = os.path.realpath(link), os.path.realpath(folder)
        if not os.path.exists(real) or os.path.commonpath([real, top]) != top:
            raise error_of("INVALID_ARGUMENT", "%s is a link that %s; remove it, or give follow_links to put what links lead to" % (
                link, "leads out of the folder, to %s" % real if os.path.exists(real) else "leads nowhere"))
        if os.path.isdir(real):
            raise error_of("INVALID_ARGUMENT", "%s is a link to a folder; give follow_links" % link)

    @staticmethod
    def _path(name: str, *rest: str) -> str:
        return "/".join(["/v1/volumes", quote(name, "")] + [quote(each, "/") for each in rest])

    @staticmethod
    def _until_done(attempt: Callable[[_Reached], Any]) -> Any:
        """Calls attempt(), which returns whether it is done and where it is, until it is done."""
        failures, furthest, pause = 0, -1, 0.2
        reached = [0]
        while True:
            try:
                return attempt(reached)
            except LambentError as error:
                if error.code not in _PASSING:
                    raise
                if reached[0] > furthest:
                    failures, furthest, pause = 0, reached[0], 0.2
                failures += 1
                if failures >= _TRIES:
                    raise
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _put_file(self, name: str, local: str, path: str) -> int:
        size, sha256 = _digest(local)
        query = "?size=%d&sha256=%s" % (size, sha256)

        def attempt(reached: _Reached) -> Any:
            status = json.loads(self._http.good("GET", self._path(name, "uploads", path) + query)[2])
            reached[0] = max(reached[0], status["offset"])
            if status["complete"]:
                return 0
            target = "%s%s&offset=%d" % (self._path(name, "files", path), query, status["offset"])
            if not self._send(target, local, status["offset"], size).get("complete"):
                raise error_of("ABORTED", "the worker does not have all of %s" % path)
            return 1

        sent: int = self._until_done(attempt)
        return sent

    def _send(self, target: str, local: str | os.PathLike[str], offset: int, size: int) -> Any:
        connection = connect(self._endpoint, self._credentials)
        headers = {**self._headers, "Content-Type": "application/octet-stream", "Content-Length": str(size - offset)}
        try:
            with open(local, "rb") as file:
                file.seek(offset)
                try:
                    connection.request("PUT", target, iter(lambda: file.read(_PIECE), b""), headers)
                except (BrokenPipeError, ConnectionResetError):
                    pass  # it may have answered before it had all
                response = connection.getresponse()
                body = response.read()
            if response.status >= 300:
                raise error_from(response.status, {k.lower(): v for k, v in response.getheaders()}, body)
            return json.loads(body)
        except (OSError, http.client.HTTPException) as error:
            raise error_of("UNAVAILABLE", "%s: %s" % (self._endpoint, error)) from error
        finally:
            connection.close()

    def _get_file(self, name: str, file: dict[str, Any], local: str) -> None:
        if os.path.isfile(local) and _digest(local) == (file["size_bytes"], file["sha256"]):
            return
        os.makedirs(os.path.dirname(os.path.abspath(local)), exist_ok=True)
        part = local + ".part"
        target = "%s?sha256=%s" % (self._path(name, "files", file["path"]), file["sha256"])

        def attempt(reached: _Reached) -> Any:
            offset = os.path.getsize(part) if os.path.exists(part) else 0
            if offset > file["size_bytes"]:
                os.unlink(part)
                offset = 0
            reached[0] = offset
            self._receive(target, part, offset, file["size_bytes"])

        self._until_done(attempt)
        if _digest(part)[1] != file["sha256"]:
            os.unlink(part)
            raise error_of("DATA_LOSS", "what came of %s has another sha256; get it again" % file["path"])
        os.replace(part, local)

    def _receive(self, target: str, part: str, offset: int, size: int) -> None:
        with open(part, "ab") as to:
            if offset == size:
                return
            connection = connect(self._endpoint, self._credentials)
            try:
                connection.request("GET", target, headers={**self._headers, "Range": "bytes=%d-" % offset})
                response = connection.getresponse()
                if response.status != 206:
                    raise error_from(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
                while piece := response.read(_PIECE):
                    to.write(piece)
                    offset += len(piece)
            except (OSError, http.client.HTTPException) as error:
                raise error_of("UNAVAILABLE", "%s: %s" % (self._endpoint, error)) from error
            finally:
                connection.close()
        if offset != size:
            raise error_of("UNAVAILABLE", "the answer ended before the file did")
