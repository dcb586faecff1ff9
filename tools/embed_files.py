"""embed_files.py OUT FILES...: writes OUT, the C++ source of src/edge/dashboard/files.h with these files."""
import pathlib
import sys

TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8",
         ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
LINE = 80  # bytes of a file in a line of source


def literal(content):
    """Bytes as a C++ string literal. Escapes are octal and of three digits, so that what follows is never part of them."""
    def escaped(byte):
        character = chr(byte)
        if character in '"\\?':
            return "\\" + character
        return character if " " <= character <= "~" else f"\\{byte:03o}"
    lines = ["".join(map(escaped, content[at:at + LINE])) for at in range(0, len(content), LINE)]
    return "\n     ".join(f'"{line}"' for line in lines or [""])


def source(files):
    """files: {name: bytes}."""
    rows = [f'    {{"{name}", "{TYPES[pathlib.PurePath(name).suffix]}",\n     std::string_view(\n     {literal(content)}, {len(content)})}},\n'
            for name, content in sorted(files.items())]
    return ('// Made by tools/embed_files.py.\n#include "edge/dashboard/files.h"\n\nnamespace lambent::dashboard {\nnamespace {\n\n'
            "constexpr File kFiles[] = {\n" + "".join(rows) + "};\n\n}  // namespace\n\n"
            "std::span<const File> files() { return kFiles; }\n\n}  // namespace lambent::dashboard\n")


if __name__ == "__main__":
    paths = [pathlib.Path(path) for path in sys.argv[2:]]
    pathlib.Path(sys.argv[1]).write_text(source({path.name: path.read_bytes() for path in paths}))
