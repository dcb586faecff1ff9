"""Container images for tests, written as OCI layouts with Python's own library: no engine and no registry are needed."""

import gzip
import hashlib
import io
import json
import os
import platform
import subprocess
import tarfile

ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())


class Layer:
    """One tar of an image. Entries keep the order in which they were added, and may be as wrong as a test wants them."""

    def __init__(self):
        self._bytes = io.BytesIO()
        self._tar = tarfile.open(fileobj=self._bytes, mode="w", format=tarfile.PAX_FORMAT)

    def add(self, name, kind=tarfile.REGTYPE, data=b"", mode=0o644, target="", owner=0, **more):
        entry = tarfile.TarInfo(name)
        entry.type, entry.mode, entry.linkname, entry.uid, entry.gid = kind, mode, target, owner, owner
        entry.size = len(data)
        for key, value in more.items():
            setattr(entry, key, value)
        self._tar.addfile(entry, io.BytesIO(data))
        return self

    def folder(self, name, mode=0o755):
        return self.add(name, tarfile.DIRTYPE, mode=mode)

    def link(self, name, target):
        return self.add(name, tarfile.SYMTYPE, target=target, mode=0o777)

    def file(self, name, data, mode=0o644, **more):
        return self.add(name, data=data.encode() if isinstance(data, str) else data, mode=mode, **more)

    def copy(self, path, name=None, mode=None):
        with open(path, "rb") as source:
            data = source.read()
        return self.file((name or path).lstrip("/"), data, mode or (os.stat(path).st_mode & 0o777))

    def tree(self, folder, name="", exclude=()):
        """All of a folder, in one go."""

        def keep(entry):
            return None if any(("/" + entry.name).startswith("/" + one) for one in exclude) else entry

        self._tar.add(folder, name or ".", filter=keep)
        return self

    def bytes(self):
        self._tar.close()
        return self._bytes.getvalue()


class Layout:
    """A folder in the form of the OCI image layout, with any number of images."""

    def __init__(self, folder):
        self.folder = str(folder)
        os.makedirs(self.folder + "/blobs/sha256", exist_ok=True)
        self._manifests = []
        self._write("oci-layout", json.dumps({"imageLayoutVersion": "1.0.0"}).encode())

    def _write(self, name, data):
        with open(f"{self.folder}/{name}", "wb") as file:
            file.write(data)

    def blob(self, data):
        digest = hashlib.sha256(data).hexdigest()
        self._write("blobs/sha256/" + digest, data)
        return {"digest": "sha256:" + digest, "size": len(data)}

    def _json_blob(self, value):
        return self.blob(json.dumps(value).encode())

    def add(self, tag, layers, architecture=ARCHITECTURE, broken=None, **config):
        """One image. `broken` replaces the bytes of the first layer after its digest was noted. Its digest."""
        tars = [one.bytes() if isinstance(one, Layer) else one for one in layers]
        zipped = [gzip.compress(one, 1, mtime=0) for one in tars]
        described = [dict(self.blob(one), mediaType="application/vnd.oci.image.layer.v1.tar+gzip") for one in zipped]
        image = {
            "architecture": architecture,
            "os": "linux",
            "config": config,
            "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(one).hexdigest() for one in tars]},
        }
        manifest = self._json_blob(
            {
                "schemaVersion": 2,
                "mediaType": "application/vnd.oci.image.manifest.v1+json",
                "config": dict(self._json_blob(image), mediaType="application/vnd.oci.image.config.v1+json"),
                "layers": described,
            }
        )
        if broken is not None:
            self._write("blobs/sha256/" + described[0]["digest"].split(":")[1], broken)
        self._name(tag, dict(manifest, mediaType="application/vnd.oci.image.manifest.v1+json"))
        return manifest["digest"]

    def _name(self, tag, manifest):
        self._manifests = [one for one in self._manifests if one["annotations"]["org.opencontainers.image.ref.name"] != tag]
        self._manifests.append(dict(manifest, annotations={"org.opencontainers.image.ref.name": tag}))
        self._write("index.json", json.dumps({"schemaVersion": 2, "manifests": self._manifests}).encode())


# Answers every request with the words that it was started with, its variables and its user; writes where it is told to.
SERVER = r"""
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

extern char **environ;

int main(int argc, char **argv) {
  int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  struct sockaddr_in here = {.sin_family = AF_INET, .sin_port = htons(atoi(getenv("PORT")))};
  if (bind(listener, (void *)&here, sizeof here) || listen(listener, 16)) return perror("listen"), 1;
  for (;;) {
    static char request[65536], body[65536], where[4096], answer[70000];
    int client = accept(listener, 0, 0);
    if (client < 0) continue;
    int have = read(client, request, sizeof request - 1);
    if (have <= 0) { close(client); continue; }
    request[have] = 0;
    int used = snprintf(body, sizeof body, "uid=%d\ncwd=%s\n", getuid(), getcwd(where, sizeof where));
    for (int i = 0; i < argc; ++i) used += snprintf(body + used, sizeof body - used, "arg=%s\n", argv[i]);
    for (char **one = environ; *one; ++one) used += snprintf(body + used, sizeof body - used, "%s\n", *one);
    const char *places[] = {"/etc/written", "/tmp/written", "/written", "/dev/written"};
    for (int i = 0; i < 4; ++i) {
      FILE *file = fopen(places[i], "w");
      used += snprintf(body + used, sizeof body - used, "write %s=%s\n", places[i], file ? "yes" : "no");
      if (file) fclose(file);
    }
    used += snprintf(body + used, sizeof body - used, "host=%s\n", access("/usr/bin/apt", F_OK) ? "no" : "yes");
    int size = snprintf(answer, sizeof answer,
                        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s", used, body);
    if (write(client, answer, size) != size) perror("write");
    shutdown(client, SHUT_WR);
    while (read(client, request, sizeof request) > 0) {}
    close(client);
  }
}
"""


def compile_server(folder):
    """A server that needs no library: the path of its program."""
    source, program = f"{folder}/server.c", f"{folder}/server"
    with open(source, "w", encoding="utf-8") as file:
        file.write(SERVER)
    subprocess.run(["cc", "-O1", "-static", "-o", program, source], check=True)
    return program


def server_layer(program):
    passwd = "root:x:0:0:root:/root:/bin/sh\napp:x:1000:1000:app:/home/app:/bin/sh\n"
    layer = Layer().folder("etc").file("etc/passwd", passwd).folder("srv").folder("home").folder("home/app")
    return layer.folder("bin").copy(program, "bin/server", 0o755)


def libraries_of(path):
    """The libraries that a program of this machine loads, with the loader."""
    listed = subprocess.run(["ldd", path], capture_output=True, text=True, check=False).stdout
    words = [word for line in listed.splitlines() for word in line.split() if word.startswith("/")]
    return sorted(set(words))


def python_layer():
    """This machine's Python with its library, and no shell: an image of some 40 MiB."""
    program = os.path.realpath("/usr/bin/python3")
    version = os.path.basename(program)
    library = f"/usr/lib/{version}"
    modules = [f"{library}/lib-dynload/{name}" for name in sorted(os.listdir(f"{library}/lib-dynload"))]
    needed = {one for path in (program, *modules) for one in libraries_of(path)}
    layer = Layer()
    for folder in ("etc", "tmp", "usr", "usr/bin", "usr/lib", "lib", "lib64", "var", "var/task"):
        layer.folder(folder)
    layer.file("etc/passwd", "root:x:0:0:root:/root:/bin/sh\n")
    for path in sorted(needed):
        layer.copy(path)
    layer.copy(program, "usr/bin/python3", 0o755)
    unneeded = [f"{library}/{name}" for name in ("test", "idlelib", "ensurepip", "turtledemo", "config-")]
    return layer.tree(library, library.lstrip("/"), exclude=unneeded + [f"{library}/__pycache__"])


def lambda_layer(site_packages, handler):
    """AWS's own runtime client for Python and a handler, as images for AWS Lambda have them."""
    layer = Layer()
    for name in sorted(os.listdir(site_packages)):
        if name.startswith(("awslambdaric", "runtime_client", "simplejson", "snapshot_restore", "snapshot-restore")):
            layer.tree(f"{site_packages}/{name}", f"opt/packages/{name}")
        if name.startswith("runtime_client") and name.endswith(".so"):
            for path in libraries_of(f"{site_packages}/{name}"):
                layer.copy(path)
    return layer.file("var/task/app.py", handler)
