#!/usr/bin/env python3
"""Draws what `./dev bench cluster-sim` found, as docs/internals/routing.md shows it: over the number of nodes, for each routing policy;
and what paper-streambox-cluster found, for docs/internals/workflows-evaluation.md.
Usage: cluster_sim_plots.py RESULT.json FOLDER
"""
import json
import math
import pathlib
import sys
from html import escape

WIDTH, HEIGHT = 620, 340
LEFT, RIGHT, TOP, BOTTOM = 62, 128, 34, 44
COLOURS = {"bounded-hash": "#0b62c4", "two-choices": "#0d8a5f", "random": "#9b3fb5", "least-loaded": "#d9480f"}
SYSTEMS = {"streambox": "#0b62c4", "stream-only": "#0d8a5f", "infless-scaler": "#9b3fb5", "astraea": "#d9480f", "infless": "#8a6d1a"}
CHARTS = (  # file, title, unit of the vertical axis, value of a row of `simulated`, logarithmic
    ("cluster-latency", "Mean latency, 4,000 functions at 0.3 of all slots (simulated)", "s", lambda row: row["mean_s"], True),
    ("cluster-p99", "99th percentile of latency (simulated)", "s", lambda row: row["p99_s"], True),
    ("cluster-cold", "Cold starts (simulated)", "% of invocations", lambda row: 100 * row["cold"], False),
    ("cluster-forwarded", "Forwarded bytes for each invocation with 64 KiB in and out (simulated)", "KiB",
     lambda row: 128 * row["forwarded"], False))


def ticks(low, high, logarithmic):
    if not logarithmic:
        step = 10 ** math.floor(math.log10(high or 1))
        step = next(each for each in (step / 5, step / 2, step, 2 * step) if high / each <= 6)
        return [each * step for each in range(int(high / step) + 1)]
    made = [factor * 10 ** power for power in range(-9, 10) for factor in (1, 2, 5)]
    return [each for each in made if low <= each <= high]


def chart(title, unit, lines, logarithmic, colours=COLOURS, below_axis="nodes of 8 GPUs"):
    """One picture; `lines`: points (nodes, value) by the name of a policy, or of what else has colours."""
    nodes = sorted({x for points in lines.values() for x, _ in points})
    values = [y for points in lines.values() for _, y in points]
    low, high = (min(values) / 1.2, max(values) * 1.2) if logarithmic else (0.0, max(values) * 1.05)

    def across(x):
        return LEFT + (WIDTH - LEFT - RIGHT) * math.log(x / nodes[0]) / math.log(nodes[-1] / nodes[0])

    def up(y):
        share = math.log(y / low) / math.log(high / low) if logarithmic else y / high
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">',
             "<style>text{font:12px system-ui,sans-serif;fill:#1f2937}.title{font-size:13px;font-weight:600}line{stroke:#e5e7eb}"
             "polyline{fill:none;stroke-width:2}</style>", f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
             f'<text class="title" x="8" y="20">{escape(title)}</text>']
    for each in ticks(low, high, logarithmic):
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{up(each):.1f}" y2="{up(each):.1f}"/>'
                     f'<text x="{LEFT - 6}" y="{up(each) + 4:.1f}" text-anchor="end">{each:,.6g}</text>')
    for each in nodes:
        parts.append(f'<text x="{across(each):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{each:,}</text>')
    parts.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}" text-anchor="middle">{escape(below_axis)}</text>')
    parts.append(f'<text x="{LEFT}" y="{TOP - 4 + 8}" dy="-6" text-anchor="end">{escape(unit)}</text>')
    ends = []
    for name, points in lines.items():
        told = " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in points)
        parts.append(f'<polyline points="{told}" stroke="{colours[name]}"/>')
        ends.append((up(points[-1][1]), name))
    below = TOP - 14.0
    for y, name in sorted(ends):
        below = max(below + 14, y)
        parts.append(f'<text x="{WIDTH - RIGHT + 8}" y="{below + 4:.1f}" style="fill:{colours[name]}">{name}</text>')
    return "\n".join(parts) + "\n</svg>\n"


def draw_streambox(result):
    """Figure 20 of the StreamBox paper: answers in time by the number of nodes."""
    def line(goodputs):
        return [(int(nodes), value) for nodes, value in goodputs.items()]
    systems = {name: line(result["systems"][name]["mean_goodput_per_s"]) for name in SYSTEMS}
    policies = {name: line(result["ours_by_policy"][name]) for name in COLOURS}
    axis = "nodes of 4 GPUs"
    return {"streambox-cluster": chart("Answers in time, mean over workflows and loads (simulated)", "1/s", systems, True, SYSTEMS, axis),
            "streambox-cluster-policies": chart("The same of ours, by routing policy (simulated)", "1/s", policies, True, COLOURS, axis)}


def draw(result):
    """The pictures by their names."""
    if "ours_by_policy" in result:
        return draw_streambox(result)
    rows = [row for row in result["simulated"] if row["case"] == "size"]
    pictures = {}
    for name, title, unit, value, logarithmic in CHARTS:
        lines = {policy: [(row["nodes"], value(row)) for row in rows if row["policy"] == policy] for policy in COLOURS}
        pictures[name] = chart(title, unit, lines, logarithmic)
    many = [row for row in result["simulated"] if row["case"] == "100,000 functions"]
    if len({row["nodes"] for row in many}) > 1:
        lines = {policy: [(row["nodes"], row["mean_s"]) for row in many if row["policy"] == policy] for policy in COLOURS}
        pictures["cluster-many-functions"] = chart("Mean latency, 100,000 functions at 0.3 of all slots (simulated)", "s", lines, True)
    costs = {policy: [(row["nodes"], row["ns"]) for row in result["decisions"] if row["policy"] == policy] for policy in COLOURS}
    pictures["cluster-decision"] = chart("Cost of a decision (measured)", "ns", costs, True)
    return pictures


def main():
    source, folder = sys.argv[1:]
    for name, picture in draw(json.loads(pathlib.Path(source).read_text())["result"]).items():
        (pathlib.Path(folder) / f"{name}.svg").write_text(picture)


if __name__ == "__main__":
    main()
