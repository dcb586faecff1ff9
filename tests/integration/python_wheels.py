"""Wheels of pure Python that tests write themselves, good and hostile ones."""
import base64
import hashlib
import pathlib
import zipfile


def record_line(name, content):
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(content)}\n"


def write_wheel(folder, name, version="1.0", files=None, requires=(), lies=(), scripts="", extra_record=""):
    """`files`: {path: text}. `lies`: those whose RECORD has the digest of another content."""
    info = f"{name}-{version}.dist-info"
    contents = dict(files if files is not None else {f"{name}/__init__.py": f"VERSION = {version!r}\n"})
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    contents[f"{info}/METADATA"] = metadata + "".join(f"Requires-Dist: {one}\n" for one in requires)
    contents[f"{info}/WHEEL"] = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    if scripts:
        contents[f"{info}/entry_points.txt"] = f"[console_scripts]\n{scripts}\n"
    record = "".join(record_line(path, (b"another" if path in lies else b"") + text.encode()) for path, text in contents.items())
    contents[f"{info}/RECORD"] = record + extra_record + f"{info}/RECORD,,\n"
    path = pathlib.Path(folder) / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for entry, text in contents.items():
            wheel.writestr(entry, text)
    return path
