#!/usr/bin/env python3
"""Draws inputs for the four paper benches from a folder of public traces, in the file formats that they read.

Used by `./dev bench paper-... --traces DIR --fresh SEED`, so that an evaluation can be repeated on functions, hours and arrivals on which
nothing was chosen. The same folder and seed give the same files. What each file is made of is said in the function that writes it.

Usage: draw_inputs.py --traces DIR --seed N --out FOLDER
"""
import argparse
import bisect
import csv
import datetime
import gzip
import pathlib
import random
import statistics
import sys

FUNCTIONS = 24
LENGTH_S = 600
LEAST_ARRIVALS, MOST_ARRIVALS = 300, 20_000
LARGEST_SHARE = 0.45  # of the invocations, of one function: bench/paper_mqfq/families.cc has the same
MINUTES_OF_DAY = 1440
# Offered loads of the nine traces after the paper's, in GPU seconds a second.
NINE_LOADS = (0.35, 0.45, 0.48, 0.53, 0.54, 0.65, 0.72, 0.86, 0.93)
FAMILY_LOADS = (0.5, 0.8)
DRAWS = 3  # of each family that is drawn


def rows_of(path):
    opened = gzip.open(path, "rt") if path.suffix == ".gz" else open(path)
    with opened as file:
        return list(csv.DictReader(file))


def minutes_of(path, name, only=None, label=None):
    """Rows with a column for each minute: (name, label, counts). `only`: chooses among the lines before they are read as numbers."""
    with gzip.open(path, "rt") as file:
        header = file.readline().rstrip().split(",")
        lines = only(file.readlines()) if only else file.readlines()
    named, first = header.index(name), next(i for i, column in enumerate(header) if column.isdigit())
    labelled = header.index(label) if label else named
    fields = (line.rstrip().split(",") for line in lines)
    return [(row[named], row[labelled], [int(value) for value in row[first:]]) for row in fields]


class Catalogue:
    """Table 1 of the MQFQ-Sticky paper: which of its functions stands for a recorded one."""

    def __init__(self):
        path = pathlib.Path(__file__).resolve().parent.parent / "share/catalogue/mqfq_table1.csv"
        with open(path) as file:
            rows = csv.DictReader(line for line in file if not line.startswith("#"))
            self.warm_s = {row["name"]: float(row["gpu_warm_s"]) for row in rows}
        self.by_time = sorted(self.warm_s, key=self.warm_s.get)

    def entry_of(self, recorded_s):
        """The longest that takes no longer, or else the shortest."""
        fitting = [name for name in self.by_time if self.warm_s[name] <= recorded_s]
        return fitting[-1] if fitting else self.by_time[0]

    def entries_by_rank(self, values):
        ranks = sorted(range(len(values)), key=lambda i: values[i])
        return {index: self.by_time[rank * len(self.by_time) // len(values)] for rank, index in enumerate(ranks)}


def compressed(counts, chance):
    """Instants in seconds: a minute becomes a second, its calls anywhere in it."""
    return sorted(minute + chance.random() for minute, count in enumerate(counts) for _ in range(count))


def by_quarter(functions, chance):
    """As many from each quarter of the functions by how often they are called. A function: (name, counts, entry)."""
    called = sorted((one for one in functions if sum(one[1]) > 1), key=lambda one: (sum(one[1]), one[0]))
    drawn = []
    for quarter in range(4):
        members = called[len(called) * quarter // 4:len(called) * (quarter + 1) // 4]
        drawn += chance.sample(members, min(len(members), FUNCTIONS // 4))
    return drawn


def load_of(arrivals, entries, catalogue, length_s):
    return sum(catalogue.warm_s[entries[index]] for _, index in arrivals) / length_s


def fits(arrivals):
    counts = {}
    for _, index in arrivals:
        counts[index] = counts.get(index, 0) + 1
    return LEAST_ARRIVALS <= len(arrivals) <= MOST_ARRIVALS and max(counts.values()) <= LARGEST_SHARE * len(arrivals)


def renewed(functions, load, catalogue, chance):
    """600 s in which each function's gaps are drawn from those that it had, all scaled by one factor to the load. None if that fails."""
    entries = [entry for _, _, entry in functions]
    gaps = []
    for _, counts, _ in functions:
        instants = compressed(counts, chance)
        gaps.append([later - earlier for earlier, later in zip(instants, instants[1:])] or [LENGTH_S])
    rate = sum(catalogue.warm_s[entry] / max(1e-6, statistics.fmean(some)) for entry, some in zip(entries, gaps))
    scale = rate / load
    for _ in range(12):
        draw = random.Random(chance.random())
        arrivals = []
        for index, some in enumerate(gaps):
            at_s = draw.random() * draw.choice(some) * scale
            while at_s < LENGTH_S and len(arrivals) <= MOST_ARRIVALS:
                arrivals.append((at_s, index))
                at_s += max(1e-4, draw.choice(some) * scale)
        is_load = load_of(arrivals, entries, catalogue, LENGTH_S)
        if abs(is_load / load - 1) < 0.03:
            return sorted(arrivals) if fits(arrivals) else None
        scale *= (max(is_load, 1e-3) / load) ** 0.5
    return None


def stretched(instants_by_function, entries, load, catalogue, accept):
    """Time runs at another speed so that the load is asked for: the gaps keep their proportions. None if that fails."""
    everything = sorted((at_s, index) for index, instants in enumerate(instants_by_function) for at_s in instants)
    if not everything:
        return None
    stretch = 1.0
    for _ in range(40):
        length_s = min(LENGTH_S, everything[-1][0] * stretch)
        cut = bisect.bisect_left(everything, (length_s / stretch, 0))
        arrivals = [(at_s * stretch, index) for at_s, index in everything[:cut]]
        is_load = load_of(arrivals, entries, catalogue, length_s)
        if abs(is_load / load - 1) < 0.02:
            return arrivals if length_s >= LENGTH_S / 2 and accept(arrivals) else None
        stretch *= (max(is_load, 1e-3) / load) ** 0.5
    return None


def write_trace(folder, name, arrivals, names, entries):
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / f"{name}.csv", "w") as file:
        file.write("t_ms,func\n")
        file.writelines(f"{at_s * 1e3:.3f},{names[index]}\n" for at_s, index in arrivals)
    with open(folder / f"{name}_functions.csv", "w") as file:
        file.write("func,gpu_function\n")
        file.writelines(f"{one},{entry}\n" for one, entry in zip(names, entries))


def draw_until(make, what):
    for _ in range(2000):
        made = make()
        if made is not None:
            return made
    sys.exit(f"draw_inputs.py: {what}: no draw has the load and enough functions that matter")


def azure_of_8h(traces, catalogue):
    """Functions of azure2019_8h that none of mqfq24's nine names, with the durations that they had."""
    named = {row["func"] for path in traces.glob("mqfq24/t*_functions.csv") for row in rows_of(path)}
    warm_s = {row["HashFunction"]: float(row["percentile_Average_25"]) / 1e3 for row in rows_of(traces / "azure2019_8h/durations.csv.gz")}
    return [(name, counts, catalogue.entry_of(warm_s.get(name, 0)))
            for name, _, counts in minutes_of(traces / "azure2019_8h/invocations.csv.gz", "HashFunction") if name not in named]


def azure_days(traces):
    return minutes_of(traces / "azure2019_day/invocations.csv.gz", "fid", label="label")


def ordinary_day(counts, chance):
    """Fourteen days on top of each other become one: each call stays with a chance of a fourteenth."""
    return [sum(chance.random() * 14 < 1 for _ in range(count)) if count < 140 else round(count / 14) for count in counts]


def mqfq(traces, out, seed):
    """mqfq24/t1 to t9: other functions of the trace that the nine came from, their gaps drawn anew, at the nine's loads. own/: families."""
    catalogue = Catalogue()
    hours = azure_of_8h(traces, catalogue)
    for row, load in enumerate(NINE_LOADS):
        chance = random.Random(f"{seed} nine {row}")

        def nine():
            functions = by_quarter(hours, chance)
            if max(sum(counts) for _, counts, _ in functions) > 200_000:
                return None  # hundreds a second: nothing else would be left of the load
            arrivals = renewed(functions, load, catalogue, chance)
            return arrivals and (functions, arrivals)

        functions, arrivals = draw_until(nine, f"t{row + 1}")
        write_trace(out / "mqfq24", f"t{row + 1}", arrivals, [one[0] for one in functions], [one[2] for one in functions])

    day = azure_days(traces)
    some = random.Random(f"{seed} sum14")
    stress = minutes_of(traces / "azure2019_sum14/invocations.csv.gz", "fid", only=lambda lines: some.sample(lines, 400))
    # Neither has durations of its own: each row draws one of azure2019_day's.
    warm_s = [float(row["percentile_Average_25"]) / 1e3 for row in rows_of(traces / "azure2019_day/marginal_durations_ms.csv.gz")]
    # The evening: the published family has the first ten hours.
    for family, begin in (("azure2019_evening", MINUTES_OF_DAY - LENGTH_S), ("azure2019_sum14", None)):
        for draw in range(1, DRAWS + 1):
            for load in FAMILY_LOADS:
                chance = random.Random(f"{seed} {family} {draw} {load}")

                def drawn():
                    first = chance.randrange(MINUTES_OF_DAY - LENGTH_S) if begin is None else begin
                    windows = [(name, counts[first:first + LENGTH_S], None) for name, _, counts in (stress if begin is None else day)]
                    functions = [(name, ordinary_day(counts, chance) if begin is None else counts, catalogue.entry_of(chance.choice(warm_s)))
                                 for name, counts, _ in by_quarter(windows, chance)]
                    most = max(sum(counts) for _, counts, _ in functions)
                    calls = sum(sum(counts) for _, counts, _ in functions)
                    if len(functions) < FUNCTIONS or most > LARGEST_SHARE * calls or calls > 500_000:
                        return None
                    instants = [compressed(counts, chance) for _, counts, _ in functions]
                    arrivals = stretched(instants, [one[2] for one in functions], load, catalogue, fits)
                    return arrivals and (functions, arrivals)

                functions, arrivals = draw_until(drawn, family)
                write_trace(out / "own", f"{family}-{draw}-{load}", arrivals, [one[0] for one in functions], [one[2] for one in functions])

    recorded = llm_requests(traces)
    names = sorted(recorded)
    ranked = catalogue.entries_by_rank([statistics.median(tokens for _, tokens in recorded[name]) for name in names])
    entries = [ranked[index] for index in range(len(names))]
    for load in FAMILY_LOADS:
        arrivals = stretched([[at_s for at_s, _ in recorded[name]] for name in names], entries, load, catalogue, bool)
        if arrivals is None:
            sys.exit(f"draw_inputs.py: azure_llm cannot be brought to a load of {load}")
        write_trace(out / "own", f"azure_llm-{load}", arrivals, names, entries)


def llm_requests(traces):
    """Requests to language models at their exact times; those with about as many tokens of context are a function, twelve of each service."""
    functions = {}
    for service in ("code", "conv"):
        rows = rows_of(traces / f"azure_llm_2023/{service}.csv.gz")
        bounds = statistics.quantiles([int(row["ContextTokens"]) for row in rows], n=FUNCTIONS // 2)
        first_s = None
        for row in rows:
            at_s = datetime.datetime.fromisoformat(row["TIMESTAMP"][:26]).timestamp()
            first_s = at_s if first_s is None else first_s
            name = f"{service}{bisect.bisect_left(bounds, int(row['ContextTokens'])):02}"
            functions.setdefault(name, []).append((at_s - first_s, int(row["GeneratedTokens"])))
    return functions


def segments(rows, label, minutes, least_calls, least_active, count, chance):
    """Windows of so many minutes, each of another function with that label."""
    found = []
    members = [counts for _, its_label, counts in rows if its_label == label]
    chance.shuffle(members)
    for counts in members:
        first = chance.randrange(MINUTES_OF_DAY - minutes + 1)
        window = counts[first:first + minutes]
        if sum(window) >= least_calls and sum(value > 0 for value in window) >= least_active:
            found.append(window)
            if len(found) == count:
                return found
    sys.exit(f"draw_inputs.py: not enough functions are {label}")


def streambox(traces, out, seed):
    """Counts a minute: stretches of functions of azure2019_day, as many calls in the mean as in the published loads; a stretch for each seed."""
    rows = azure_days(traces)
    (out / "streambox").mkdir(parents=True, exist_ok=True)
    # Label, minutes of a stretch (as in the bench's plan), and what it must have at least: calls, minutes with calls.
    for name, label, minutes, calls, active in (("bursty", "bursty", 4, 8, 2), ("periodic", "periodic", 30, 5, 3), ("sporadic", "sporadic", 150, 4, 3)):
        published = [float(line) for line in (traces / f"streambox/{name}-load.txt").read_text().split()]
        wanted = statistics.fmean(published)
        chance = random.Random(f"{seed} streambox {name}")
        with open(out / f"streambox/{name}-load.txt", "w") as file:
            for window in segments(rows, label, minutes, calls, active, DRAWS, chance):
                file.writelines(f"{value * wanted / statistics.fmean(window):.4f}\n" for value in window)


def fluidfaas(traces, out, seed):
    """Arrivals of four applications: two bursty functions and two steady ones of azure2019_day for each part of 90 s, a minute to a second."""
    rows = azure_days(traces)
    folder = out / "fluidfaas_arrivals"
    folder.mkdir(parents=True, exist_ok=True)
    for name, gap_ms in (("light", 53.6), ("medium", 26.8), ("heavy", 13.4)):
        chance = random.Random(f"{seed} fluidfaas {name}")
        bursty = segments(rows, "bursty", 90, 90, 30, 2 * DRAWS, chance)
        steady = segments(rows, "steady", 90, 90, 30, 2 * DRAWS, chance)
        arrivals = []
        for part in range(DRAWS):
            for application in range(4):
                window = (steady if application % 2 else bursty)[2 * part + application // 2]
                wanted = 90 / (4 * gap_ms / 1e3)
                for second, count in enumerate(window):
                    expected = count * wanted / sum(window)
                    for _ in range(int(expected) + (chance.random() < expected % 1)):
                        arrivals.append((90 * part + second + chance.random(), application))
        with gzip.GzipFile(folder / f"{name}.csv.gz", "wb", mtime=0) as file:
            file.write(b"t_ms,app\n")
            file.writelines(f"{at_s * 1e3:.1f},app{application}\n".encode() for at_s, application in sorted(arrivals))


def kaas(traces, out, seed):
    """Gaps between requests to a language model for code, which come in bursts, from a place of their own on: in place of a Poisson stream."""
    rows = rows_of(traces / "azure_llm_2023/code.csv.gz")
    at_s = sorted(datetime.datetime.fromisoformat(row["TIMESTAMP"][:26]).timestamp() for row in rows)
    gaps = [later - earlier for earlier, later in zip(at_s, at_s[1:])]
    first = random.Random(f"{seed} kaas").randrange(len(gaps))
    (out / "kaas").mkdir(parents=True, exist_ok=True)
    with open(out / "kaas/gaps.txt", "w") as file:
        file.writelines(f"{gap:.6f}\n" for gap in gaps[first:] + gaps[:first])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--traces", type=pathlib.Path, required=True, help="folder of public traces")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder to write to")
    parser.add_argument("--only", choices=("mqfq", "streambox", "fluidfaas", "kaas"))
    options = parser.parse_args()
    for make in (mqfq, streambox, fluidfaas, kaas):
        if options.only in (None, make.__name__):
            try:
                make(options.traces, options.out, options.seed)
            except (OSError, KeyError, ValueError) as error:
                sys.exit(f"draw_inputs.py: {options.traces} does not have what {make.__name__} is drawn from: {error!r}")


if __name__ == "__main__":
    main()
