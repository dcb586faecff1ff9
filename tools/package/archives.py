"""Archives that are the same, byte for byte, whenever and wherever they are made of the same files."""
import gzip
import io
import os
import tarfile


def entries(folder):
    """All paths below `folder`, parents first, in an order that no locale changes."""
    return sorted(folder.rglob("*"), key=lambda path: path.relative_to(folder).parts)


def tar(folder, top, time):
    """A tar of what is below `folder`, under the name `top`, by nobody in particular, at one time."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path in [folder, *entries(folder)]:
            entry = archive.gettarinfo(path, os.path.normpath(f"{top}/{path.relative_to(folder)}"))
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = "root"
            entry.mtime = time
            # Two names of one file are two files.
            if entry.islnk():
                entry.type, entry.linkname, entry.size = tarfile.REGTYPE, "", path.stat().st_size
            if entry.isreg():
                with open(path, "rb") as content:
                    archive.addfile(entry, content)
            else:
                archive.addfile(entry)
    return out.getvalue()


def write_tar_gz(folder, top, time, target, level=9):
    with open(target, "wb") as file, gzip.GzipFile("", "wb", level, file, mtime=0) as packed:
        packed.write(tar(folder, top, time))
