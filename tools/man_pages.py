"""The manual pages of `lambent`, made from what its own --help says: man_pages.py BIN FOLDER writes lambent.1 and a page for each verb.
Used by tools/package; tests/docs/test_man_pages.py holds them against groff and the verbs.
"""
import pathlib
import sys
import time as clock

import help_text

ENVIRONMENT = """\
.SH ENVIRONMENT
.TP
.B LAMBENT_ENDPOINT
Where the worker is, unless \\-\\-endpoint or \\-\\-context says so.
.TP
.B LAMBENT_TOKEN
The token to send, unless \\-\\-token\\-file has one.
.TP
.B LAMBENT_CONTEXT
Which worker of 'lambent config' is asked.
.TP
.B LAMBENT_CONFIG
The file of 'lambent config', instead of ~/.config/lambent/config.toml.
.TP
.BR LAMBENT_CA ", " LAMBENT_CLIENT_CERTIFICATE ", " LAMBENT_CLIENT_KEY
For https, as the options of these names.
"""

EXIT_STATUS = """\
.SH EXIT STATUS
0: success. 1: the function itself failed. 2: bad usage. 11 and up: the code of an error, such as
15 (not found), 18 (too much at once) and 24 (no worker answers).
"""


def escaped(text):
    """As roff takes it: no line begins a request, and a minus is one that can be copied."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\n".join("\\&" + line if line[:1] in (".", "'") else line for line in text.split("\n"))


def one_line(lines):
    return " ".join(line.strip() for line in lines if line.strip())


def entries(lines):
    """[(left, meaning)] of the columns of a help's list."""
    found = []
    for line in lines:
        if line.startswith("  ") and line[2:3].strip():
            left, _, meaning = line.strip().partition("  ")
            found.append([left, meaning.strip()])
        elif line.strip() and found:
            found[-1][1] = f"{found[-1][1]} {line.strip()}".strip()
    return found


def listed(lines):
    return "".join(f".TP\n.B {escaped(left)}\n{escaped(meaning) or '.PP'}\n" for left, meaning in entries(lines))


def about(words):
    """What stands before the usage, and the usage itself."""
    lines = help_text.sections_of(*words)[""]
    usage = next((index for index, line in enumerate(lines) if line.lower().startswith("usage:")), len(lines))
    rest = lines[usage + 1:]
    usage_lines = lines[usage:usage + 1]
    while rest and rest[0].startswith(" "):  # argparse breaks its usage over lines
        usage_lines.append(rest.pop(0))
    what = one_line(lines[:usage]) or one_line(rest)
    return what, one_line(usage_lines)[len("usage:"):].strip()


def verb_text(words, heading):
    """The part of a page about one verb: its arguments, options and example."""
    sections = {name.lower(): lines for name, lines in help_text.sections_of(*words).items()}
    parts = []
    for name, title in (("positionals", "ARGUMENTS"), ("positional arguments", "ARGUMENTS"), ("options", "OPTIONS")):
        text = listed(sections.get(name, [])[1:])
        if text:
            parts.append(f"{heading} {title}\n{text}")
    example = [line.strip() for line in sections.get("example", [])[1:] if line.strip()]
    if example:
        parts.append(f"{heading} EXAMPLE\n.nf\n" + "\n".join(escaped(line) for line in example) + "\n.fi\n")
    return "".join(parts)


def head(name, what, version, time):
    date = clock.strftime("%Y-%m-%d", clock.gmtime(time))
    title = escaped(name.upper())
    return f'.TH {title} 1 {date} "Lambent {version}" "Lambent"\n.SH NAME\n{escaped(name)} \\- {escaped(what)}\n'


def page_of(verb, version, time):
    what, usage = about((verb,))
    text = head(f"lambent-{verb}", what, version, time) + f".SH SYNOPSIS\n{escaped(usage)}\n"
    if verb in help_text.PARENTS:
        for sub in help_text.subcommands_of(verb):
            what, usage = about((verb, sub))
            text += f".SH {verb.upper()} {sub.upper()}\n{escaped(what)}\n.PP\n{escaped(usage)}\n" + verb_text((verb, sub), ".SS")
    else:
        text += verb_text((verb,), ".SH")
    return text + EXIT_STATUS + ENVIRONMENT + ".SH SEE ALSO\n.BR lambent (1)\n"


def first_page(version, time):
    text = head("lambent", "functions on GPUs", version, time)
    text += ".SH SYNOPSIS\nlambent VERB [OPTIONS]\n.SH DESCRIPTION\nRuns functions on GPUs, and tells how they ran.\n"
    for name, lines in help_text.sections_of().items():
        if name and name.lower() not in ("options", "example"):
            text += f".SS {escaped(name)}\n" + "".join(
                f".TP\n.BR lambent\\-{escaped(verb)} (1)\n{escaped(meaning) or '.PP'}\n" for verb, meaning in entries(lines[1:]))
    return text + EXIT_STATUS + ENVIRONMENT


def pages(version, time):
    """{file name: text}."""
    made = {"lambent.1": first_page(version, time)}
    for verb in sorted(help_text.verbs()):
        made[f"lambent-{verb}.1"] = page_of(verb, version, time)
    return made


def write(programs, folder, version, time):
    """From the programs in `programs` into the folder; `time`: of the sources, in seconds since 1970."""
    help_text.BIN = pathlib.Path(programs)
    help_text.help_of.cache_clear()
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages(version, time).items():
        (folder / name).write_text(text)


if __name__ == "__main__":
    write(sys.argv[1], pathlib.Path(sys.argv[2]), "here", clock.time())
