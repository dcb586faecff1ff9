"""The last line of a benchmark: its result as one JSON object."""
import json
import pathlib


def write_last_line(result, out=None):
    """Prints it, and keeps it in the file `out` where that is named."""
    line = json.dumps(result)
    if out:
        pathlib.Path(out).write_text(line + "\n")
    print(line)
