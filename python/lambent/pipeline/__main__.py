"""python3 -m lambent.pipeline build|profile|run: what the author of a pipeline function does before it is deployed."""
import argparse
import json
import os
import sys
import time
from typing import Any, Callable, List, Optional

from .channel import ChannelError
from .dag import PipelineError
from .stage_processes import LocalStageProcesses, load_app, parse_stage_processes
from .profile import measure, merge
from .runner import own_frames


class Processes(argparse.Action):
    """--processes; by --lanes, its name in the version before, with a warning."""

    def __call__(self, parser: Any, namespace: Any, value: Any, option: Any = None) -> None:
        if option == "--lanes":
            sys.stderr.write("lambent.pipeline: --lanes is called --processes now; the next version does not know the old name\n")
        setattr(namespace, self.dest, value)


def build(options: argparse.Namespace) -> None:
    """Records the DAG and writes pipeline.json."""
    document = load_app(options.app, options.code)().to_json(options.app)
    text = json.dumps(document, indent=1, ensure_ascii=False) + "\n"
    if options.output is None:
        sys.stdout.write(text)
        return
    with open(options.output, "w", encoding="utf-8") as file:
        file.write(text)
    print("%s: %d components, inputs %s, outputs %s" % (options.output, len(document["components"]),
                                                        ", ".join(document["inputs"]), ", ".join(document["outputs"])))


def profile(options: argparse.Namespace) -> None:
    """Measures the components on this slice and merges that into the profile."""
    app = load_app(options.app, options.code)()
    os.environ.setdefault("LAMBDA_TASK_ROOT", os.path.abspath(options.code))
    new = measure(app, events_of(options), options.repeat)
    old = None
    if os.path.exists(options.output):
        with open(options.output, encoding="utf-8") as file:
            try:
                old = json.load(file)
            except ValueError as error:
                raise PipelineError("%s is no JSON: %s" % (options.output, error)) from None
    merged = merge(old, new)
    with open(options.output, "w", encoding="utf-8") as file:
        json.dump(merged, file, indent=1)
        file.write("\n")
    shape = next(iter(new["shapes"]))
    print("%-24s %12s %12s %12s %14s %6s" % (shape, "ms", "weights MB", "memory MB", "output bytes", "runs"))
    for name, component in new["components"].items():
        print("%-24s %12s %12.1f %12.1f %14d %6.2f" % (
            name, component["ms"].get(shape, "-"), component["weights_mb"], component["memory_mb"],
            component["output_bytes"], component["probability"]))


def run(options: argparse.Namespace) -> int:
    """Runs events, in this process or in stage processes, and prints the answers."""
    events = events_of(options)
    failed = False
    if options.processes is None:
        os.environ.setdefault("LAMBDA_TASK_ROOT", os.path.abspath(options.code))
        app = load_app(options.app, options.code)()
        for event in events:
            value = app.run(event)
            try:
                text = json.dumps({"value": value}, allow_nan=False)
            except (TypeError, ValueError) as error:
                raise PipelineError("what encode() returned is no JSON: %s" % error) from None
            print(text)
        return 0
    devices = options.devices.split(";") if options.devices else None
    stage_processes = parse_stage_processes(options.processes)
    if devices is not None and len(devices) != len(stage_processes):
        raise PipelineError("--devices names %d devices for %d stage processes" % (len(devices), len(stage_processes)))
    with LocalStageProcesses(options.app, stage_processes, options.code, devices) as local:
        jobs = [events] if options.batch else [[event] for event in events]
        for job in jobs:
            begin = time.perf_counter()
            for result in local.run(job):
                failed |= "error" in result
                print(json.dumps(result))
            print("%.1f ms" % ((time.perf_counter() - begin) * 1e3), file=sys.stderr)
    return 1 if failed else 0


def events_of(options: argparse.Namespace) -> List[Any]:
    events = []
    for path in options.event:
        with (sys.stdin if path == "-" else open(path, encoding="utf-8")) as file:
            try:
                events.append(json.load(file))
            except ValueError as error:
                raise PipelineError("%s is no JSON: %s" % (path, error)) from None
    return events


def main() -> int:
    parser = argparse.ArgumentParser(prog="python3 -m lambent.pipeline", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)

    def verb(function: Callable[[argparse.Namespace], Optional[int]], **arguments: Any) -> argparse.ArgumentParser:
        added = verbs.add_parser(function.__name__, help=function.__doc__, description=function.__doc__, **arguments)
        added.add_argument("app", help="module and class, such as app.App")
        added.add_argument("--code", default=".", metavar="FOLDER", help="where the module lies (default: here)")
        added.set_defaults(function=function)
        return added

    verb(build).add_argument("-o", "--output", metavar="FILE", help="default: the standard output")
    for function in (profile, run):
        added = verb(function)
        added.add_argument("--event", action="append", required=True, metavar="FILE",
                           help="a request's event, as JSON; several times for several, '-' for the standard input")
        if function is profile:
            added.add_argument("--repeat", type=int, default=10, metavar="N", help="runs of each event (default: 10)")
            added.add_argument("-o", "--output", metavar="FILE", default="profile.json",
                               help="made, or merged into (default: profile.json)")
        else:
            added.add_argument("--processes", "--lanes", dest="processes", action=Processes, metavar="NAMES",
                               help="components of each process: \"a;b,c\"; default: all in this one")
            added.add_argument("--devices", metavar="DEVICES", help="CUDA_VISIBLE_DEVICES of each stage process, separated by ';'")
            added.add_argument("--batch", action="store_true", help="all events as requests of one job")
    options = parser.parse_args()
    if getattr(options, "repeat", 1) < 1:
        parser.error("--repeat: at least 1")
    try:
        return options.function(options) or 0
    except (PipelineError, ChannelError, OSError) as error:
        sys.stderr.write("lambent.pipeline: %s\n" % error)
        return 1
    except Exception as error:  # of the user's own code
        component = getattr(error, "lambent_component", None)
        sys.stderr.write("lambent.pipeline: %s%s: %s\n%s" % ("component '%s': " % component if component else "",
                                                              type(error).__name__, error, own_frames(error)))
        return 1


if __name__ == "__main__":
    sys.exit(main())
