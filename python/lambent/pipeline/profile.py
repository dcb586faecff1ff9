"""Measures a pipeline's components on the slice that this process sees, and merges that into profile.json
(docs/decisions/0016-slices-and-pipelines.md; the worker reads it with src/decide/pipeline/profile_json.cc)."""
import os
import statistics
import time
from typing import Any, Callable, Dict, List, Optional

from .dag import PipelineError
from .module import shared_device
from .meter import DeviceMeter
from .runner import Runner
from .values import Failed

_MIB = 1 << 20


def measure(app: Any, events: List[Any], repeat: int, progress: Callable[[str], None] = lambda text: None) -> Dict[str, Any]:
    """A profile of only this slice, as a dict. Each event is decoded and run `repeat` times after a first time that does not count;
    times are medians over all runs. An optional component ran with the probability with which its condition held. Components that take
    batches are timed with 2, 4, 8 and so on up to `app.batch` requests as well."""
    runner = Runner(app.dag.nodes.values())
    started_ms = _age_ms()
    idle = runner.meter.used_bytes()
    started_ms = _age_ms() if idle is not None else started_ms
    runner.setup()
    shape = runner.meter.shape()
    if shape is None:  # plain components use none, but are on a slice all the same
        idle = _used_by_a_context(runner.meter)
        shape = runner.meter.shape()
    if shape is None:
        raise PipelineError("this process sees no device, and a profile is of a slice: run it where there is one, or let "
                            "`lambent profile` measure the function on a worker's slices")
    times: Dict[str, List[float]] = {}
    ran: Dict[str, int] = {}
    asked: Dict[str, int] = {}
    for position, event in enumerate(events):
        for turn in range(repeat + 1):
            progress("event %d of %d, run %d of %d" % (position + 1, len(events), turn, repeat))
            _run_once(app, runner, event, None if turn == 0 else times, ran, asked)
    batches = _batch_times(app, runner, events, repeat, progress)
    components = {}
    for name, node in app.dag.nodes.items():
        measured = runner.measured[name]
        component: Dict[str, Any] = {"weights_mb": round(measured.weights / _MIB, 3), "memory_mb": round(measured.memory / _MIB, 3),
                     "output_bytes": measured.output, "probability": 1.0, "ms": {}}
        if node.optional:
            component["probability"] = round(ran.get(name, 0) / asked[name], 4)
        if times.get(name):
            component["ms"][shape["name"]] = round(statistics.median(times[name]), 4)
            if name in batches:
                component["batch_ms"] = {shape["name"]: {str(size): round(statistics.median(its), 4)
                                                         for size, its in sorted(batches[name].items())}}
        components[name] = component
    return {"profile": 1, "context_mb": round((idle or 0) / _MIB, 1), "start_ms": round(started_ms, 1),
            "shapes": {shape["name"]: {"multiprocessors": shape["multiprocessors"],
                                       "memory_mb": round(shape["memory_mb"], 1)}},
            "components": components}


def _used_by_a_context(meter: DeviceMeter) -> Optional[int]:
    try:
        shared_device()
    except Exception:  # there is no device, or no driver
        return None
    return meter.used_bytes()


def _batch_times(app: Any, runner: Runner, events: List[Any], repeat: int, progress: Callable[[str], None]) -> Dict[str, Dict[
        int, List[float]]]:
    """By component and number of requests, where these ran as one."""
    times: Dict[str, Dict[int, List[float]]] = {}
    takes_batches = any(runner.takes_batches(name) for name in runner.nodes)
    most = app.batch if takes_batches else 1
    size = min(2, most)
    while size > 1:
        requests = [app.decode(events[i % len(events)]) for i in range(size)]
        values = {"$" + name: [request[name] for request in requests] for name in requests[0]}
        for turn in range(repeat + 1):
            progress("a batch of %d, run %d of %d" % (size, turn, repeat))
            for name, node in runner.nodes.items():
                if name in values and not runner.takes_batches(name):
                    continue  # it runs one request after the other, which was measured
                values[name] = runner.run(name, list(zip(*[values[source] for source in node.inputs])))
                measured = runner.measured[name]
                if turn > 0 and measured.together and measured.ran == size:
                    times.setdefault(name, {}).setdefault(size, []).append(measured.ms)
        size = min(2 * size, most) if size < most else 0
    return times


def _run_once(app: Any, runner: Runner, event: Any, times: Optional[Dict[str, List[float]]], ran: Dict[str, int], asked: Dict[str,
              int]) -> None:
    values = {"$" + name: [value] for name, value in app.decode(event).items()}
    for name, node in runner.nodes.items():
        values[name] = runner.run(name, list(zip(*[values[source] for source in node.inputs])))
        if isinstance(values[name][0], Failed):
            raise PipelineError("component '%s' fails on the event: %s" % (name, values[name][0].message))
        if times is not None:
            asked[name] = asked.get(name, 0) + 1
            if runner.measured[name].ran:
                ran[name] = ran.get(name, 0) + 1
                times.setdefault(name, []).append(runner.measured[name].ms)


def merge(old: Any, new: Dict[str, Any]) -> Dict[str, Any]:
    """`new` with what only `old` knows: other slices' shapes and times; the larger of their memories."""
    if old is None:
        return new
    if not isinstance(old, dict) or old.get("profile") != 1:
        raise PipelineError("the profile to merge into is none of version 1")
    merged = dict(new, shapes=dict(old.get("shapes", {}), **new["shapes"]), components={})
    for key in ("context_mb", "start_ms"):
        merged[key] = max(old.get(key, 0), new[key])
    for name, component in new["components"].items():
        known = old.get("components", {}).get(name, {})
        both = dict(component, ms=dict(known.get("ms", {}), **component["ms"]))
        # A shape that was measured again without batches has none any more.
        others = {shape: times for shape, times in known.get("batch_ms", {}).items() if shape not in component["ms"]}
        batches = dict(others, **component.get("batch_ms", {}))
        if batches:
            both["batch_ms"] = batches
        for key in ("weights_mb", "memory_mb", "output_bytes"):
            both[key] = max(known.get(key, 0), component[key])
        merged["components"][name] = both
    return merged


def _age_ms() -> float:
    """Since this process was started."""
    with open("/proc/self/stat", encoding="ascii", errors="replace") as file:
        started = int(file.read().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
    return (time.clock_gettime(time.CLOCK_BOOTTIME) - started) * 1e3
