#!/usr/bin/env python3
"""Makes docs/images/report.svg: a part of the page that `lambent report` writes for the comparison of `./dev demo`, as one picture.

    python3 tools/report_picture.py build/release/bin/lambent docs/images/report.svg
    python3 tools/report_picture.py build/release/bin/lambent OUT docs/images/report.svg    makes OUT, and fails where the other is not the same

The runs are those of a worker, kept by `./dev demo --results docs/results/DATE-demo`: the same files make the same picture.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

POLICIES = ("density", "mqfq-sticky", "batch", "fcfs")
RUNS = pathlib.Path(__file__).resolve().parents[1] / "docs/results/2026-11-30-demo"
WIDTH, MARGIN, TITLE = 800, 20, 46


def sections(page):
    """The drawings of a report by their headings: heading -> (width, height, what is inside the svg element, its keys)."""
    found = {}
    for heading, body in re.findall(r"<section><h2>(.*?)</h2>(.*?)</section>", page, re.S):
        drawing = re.search(r'<svg viewBox="0 0 (\d+) (\d+)"[^>]*>(.*?)</svg>', body, re.S)
        if drawing:
            keys = re.findall(r'<span class="key"><i class="([\w ]+)"></i>(.*?)</span>', body)
            found[heading] = (int(drawing[1]), int(drawing[2]), drawing[3], keys)
    return found


def style(page):
    """The page's own rules for drawings, in its light colours."""
    sheet = re.search(r"<style>(.*?)</style>", page, re.S)[1]
    sheet = re.sub(r"@media\(prefers-color-scheme:dark\)\{.*?\}\}", "", sheet, flags=re.S)
    colours = dict(re.findall(r"--(\w+):([^;}]+)", sheet))
    rules = [rule for rule in re.findall(r"[^{}]+\{[^{}]*\}", sheet)
             if re.match(r"\s*(svg text|\.(grid|axis|mark|curve|bar|frame|queue|cold|memory|run|rest))", rule)]
    return re.sub(r"var\(--(\w+)\)", lambda name: colours[name[1]], "".join(rules)), colours


def picture(page, headings):
    found, (rules, colours) = sections(page), style(page)
    parts, top = [], MARGIN + 30
    for heading, words in headings:
        width, height, inside, keys = found[heading]
        parts.append(f'<text x="{MARGIN}" y="{top + 16}" class="heading">{heading}</text>'
                     f'<text x="{MARGIN}" y="{top + 34}">{words}</text>')
        x = WIDTH - MARGIN
        for colour, name in reversed(keys):
            x -= 24 + 7 * len(name)
            fill = colours.get(colour, colours["soft"])
            parts.append(f'<rect x="{x}" y="{top + 6}" width="12" height="12" rx="3" fill="{fill}"/>'
                         f'<text x="{x + 17}" y="{top + 16}">{name}</text>')
        parts.append(f'<svg x="{MARGIN}" y="{top + TITLE}" width="{width}" height="{height}" '
                     f'viewBox="0 0 {width} {height}">{inside}</svg>')
        top += TITLE + height + 14
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" role="img" '
            f'aria-label="Part of a report: one workload under four policies, in a worker on an emulated GPU">\n'
            f"<style>{rules}svg .heading{{font-size:16px;font-weight:600;fill:{colours['ink']}}}</style>\n"
            f'<rect width="{WIDTH}" height="{top}" rx="12" fill="{colours["card"]}" stroke="{colours["rule"]}"/>\n'
            f'<text x="{MARGIN}" y="{MARGIN + 14}">./dev demo: a worker on an emulated GPU</text>\n'
            + "\n".join(parts) + "\n</svg>\n")


def main(lambent, out, shown=None):
    with tempfile.TemporaryDirectory() as folder:
        runs = [str(RUNS / f"{policy}.jsonl") for policy in POLICIES]
        subprocess.run([lambent, "report", *runs, "-o", f"{folder}/report.html"], check=True, capture_output=True)
        page = pathlib.Path(folder, "report.html").read_text()
    drawn = picture(page, (("Where the time went", "The mean latency, cut into its parts. Emulated."),))
    path = pathlib.Path(out)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(drawn)
    if shown and pathlib.Path(shown).read_text() != drawn:
        sys.exit(f"{shown} is not the picture that {lambent} makes: {out} is; look at it, and at what README.md says of it, and put it there")


if __name__ == "__main__":
    main(*sys.argv[1:4])
