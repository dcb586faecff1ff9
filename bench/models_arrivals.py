"""Which models of bench models are called when: functions and calls of the Azure Functions traces of 2019, which are counted by the minute.
Pure, but for reading a file. Used by models.py and models_worker.py."""
import csv
import gzip

# Of a device that many models share: runs take milliseconds, and no model has more than one a second.
MOST_A_MINUTE = 60
TRACES = ("azure2019_day", "azure2019_8h")
FIRST_MINUTE = 540  # nine in the morning, of either trace


def read_trace(path):
    """The minute of the day of the first column, and each function's calls by the minute."""
    with (gzip.open(path, "rt") if path.suffix == ".gz" else open(path)) as file:
        rows = csv.reader(file)
        head = next(rows)
        first = next(index for index, word in enumerate(head) if word.isdigit())
        return int(head[first]), [[int(word) for word in row[first:]] for row in rows]


def servable(rows):
    """Those that are called at all, and that one device can serve."""
    return [row for row in rows if 0 < sum(row) <= MOST_A_MINUTE * len(row)]


def busiest(rows):
    return sorted(servable(rows), key=sum, reverse=True)


def drawn_minutes(models, minutes, draw):
    """Without a trace: as popular as 1 / (4 + rank) a second, and called at random."""
    return [[sum(draw.random() < 60 / (4 + rank) / 60 for _ in range(60)) for _ in range(minutes)] for rank in range(models)]


def drawn_functions(trace, models, draw):
    """Some of the trace's functions, each as likely as any other: their calls by the minute, from FIRST_MINUTE on."""
    first, rows = trace
    rows = servable(rows)
    return [row[FIRST_MINUTE - first:] for row in draw.sample(rows, min(models, len(rows)))]


def calls_of(rows, first, seconds, draw):
    """[(second, number of the function)] of so many seconds from minute `first` on, at the trace's own pace; a call is anywhere in its minute."""
    calls = []
    for number, row in enumerate(rows):
        for minute, count in enumerate(row[first:first + -(-seconds // 60)]):
            calls += [(60 * minute + draw.uniform(0, 60), number) for _ in range(count)]
    return sorted(call for call in calls if call[0] < seconds)
