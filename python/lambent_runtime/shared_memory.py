"""What torch leaves in /dev/shm when a tensor does not fit there: a file that was made and not filled. No process has it open, and it would take
shared memory from later invocations for as long as the sandbox lives."""
import errno
import os
import re
import stat

_NO_SPACE = os.strerror(errno.ENOSPC)


def tidy_after(message, folder="/dev/shm", processes="/proc"):
    """If the error says that there is no space: removes torch's files that it names in `folder`, if no process has them mapped or open. Others
    may be on their way between two processes, neither of which has them open. The names of those that are removed."""
    if _NO_SPACE not in message:
        return []
    try:
        left = {name: os.stat(os.path.join(folder, name), follow_symlinks=False) for name in re.findall(r"</(torch_[^/>]+)>", message)}
    except OSError:  # it was not made, or is gone
        return []
    removed, used = [], _files_in_use(processes)
    for name, status in left.items():
        if not stat.S_ISREG(status.st_mode) or (status.st_dev, status.st_ino) in used:
            continue
        try:
            os.unlink(os.path.join(folder, name))
        except OSError:
            continue
        removed.append(name)
    return removed


def _files_in_use(processes):
    """{(device, inode)} of what processes have open or mapped."""
    used = set()
    for process in os.listdir(processes):
        if not process.isdigit():
            continue
        try:
            with open(os.path.join(processes, process, "maps")) as maps:
                for line in maps:
                    _, _, _, device, inode = line.split(maxsplit=5)[:5]
                    major, minor = device.split(":")
                    used.add((os.makedev(int(major, 16), int(minor, 16)), int(inode)))
            folder = os.path.join(processes, process, "fd")
            for descriptor in os.listdir(folder):
                try:
                    status = os.stat(os.path.join(folder, descriptor))
                except FileNotFoundError:  # closed meanwhile
                    continue
                used.add((status.st_dev, status.st_ino))
        # Ended meanwhile, or none that this one may look into: the sandbox's first process, which is not the function's.
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
    return used
