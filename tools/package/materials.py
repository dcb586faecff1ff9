"""What a package is made of beside our own sources: which files of Debian packages the linker and the compiler read for it.

The linker's own account is in build/KIND/parts (cmake/portable.cmake), the compiler's in ninja's log of dependencies.
"""
import dataclasses
import pathlib
import re
import subprocess
import tomllib

import contents
import symbols

LICENCES = pathlib.Path(__file__).resolve().parent / "licences.toml"


@dataclasses.dataclass
class Material:
    source: str  # Debian's source package
    version: str
    licence: str
    binaries: set  # its packages that are installed here: "libsqlite3-dev 3.40.1-2"
    linked: set = dataclasses.field(default_factory=set)  # archives and start files that are parts of the programs
    loaded: set = dataclasses.field(default_factory=set)  # shared libraries that the machine has to have
    headers: int = 0  # how many of its headers were compiled in


def rule_words(text):
    """The files that a rule in make's language depends on."""
    rule = text.split("\n\n")[0].replace("\\\n", " ")
    return rule.partition(": ")[2].split()


def linked_files(build, targets):
    """What the linker read for the targets; ours are relative to the build folder."""
    files = set()
    for target in sorted(targets):
        parts = build / "parts" / f"{target}.d"
        if not parts.exists():
            raise contents.Missing(f"{parts} is not there: ./dev build release product")
        files.update(rule_words(parts.read_text()))
    return files


def own_objects(linked):
    """Prefixes in ninja's log of the objects that these files of ours are or were made of."""
    prefixes = set()
    for name in linked:
        if name.startswith("/"):
            continue
        folder, _, file = name.rpartition("/")
        archive = re.fullmatch(r"lib(lambent_\w+)\.a", file)
        prefixes.add(f"{folder + '/' if folder else ''}CMakeFiles/{archive[1]}.dir/" if archive else name)
    return tuple(sorted(prefixes))


def compiled_headers(build, prefixes):
    log = subprocess.run(["ninja", "-C", build, "-t", "deps"], check=True, capture_output=True, text=True).stdout
    headers, ours = set(), False
    for line in log.splitlines():
        if line.startswith("    "):
            if ours and line.strip().startswith("/"):
                headers.add(line.strip())
        elif line:
            ours = line.startswith(prefixes)
    return headers


def package_files():
    """{path: Debian package} of everything that is installed; without the aliases of merged /usr."""
    owners = {}
    for listing in pathlib.Path("/var/lib/dpkg/info").glob("*.list"):
        package = listing.stem
        for line in listing.read_text().splitlines():
            owners[line.removeprefix("/usr") if line.startswith("/usr/lib") else line] = package
    return owners


def owner_of(path, owners):
    real = str(pathlib.Path(path).resolve())
    return owners.get(real.removeprefix("/usr") if real.startswith("/usr/lib") else real)


def describe(packages):
    """{package: (source, version of the source, version)} as dpkg knows them."""
    shown = subprocess.run(["dpkg-query", "-W", "-f", "${Package}\t${source:Package}\t${source:Version}\t${Version}\n", *sorted(packages)],
                           check=True, capture_output=True, text=True).stdout
    return {fields[0]: tuple(fields[1:]) for fields in (line.split("\t") for line in shown.splitlines())}


def find_materials(build, targets=frozenset(contents.TARGETS)):
    """The materials of the targets, by the name of their source. Missing if one has no licence in licences.toml."""
    linked = linked_files(build, targets)
    foreign = {path for path in linked if path.startswith("/") and not path.startswith(str(build.resolve()))
               and not path.startswith(str(contents.ROOT))}
    headers = {path for path in compiled_headers(build, own_objects(linked)) if path.startswith("/usr/")}
    owners = package_files()
    of = {path: owner_of(path, owners) for path in foreign | headers}
    strangers = sorted(path for path, package in of.items() if package is None)
    if strangers:
        raise contents.Missing(f"of no Debian package, so nothing says what they are: {' '.join(strangers)}")
    described = describe({package for package in of.values()})
    licences = tomllib.loads(LICENCES.read_text())
    materials = {}
    for path, package in sorted(of.items()):
        source, source_version, version = described[package.partition(":")[0]]
        if source not in licences:
            raise contents.Missing(f"{LICENCES.name} says nothing about {source}, of which {path} is used")
        material = materials.setdefault(source, Material(source, source_version, licences[source], set()))
        material.binaries.add(f"{package.partition(':')[0]} {version}")
        if path in headers:
            material.headers += 1
        elif ".so" not in pathlib.Path(path).name:
            material.linked.add(pathlib.Path(path).name)
        elif symbols.ALLOWED.match(pathlib.Path(path).name) and not path.endswith(".so"):
            # What else the linker looked into is not needed: symbols.check sees to that.
            material.loaded.add(pathlib.Path(path).name)
    return materials
