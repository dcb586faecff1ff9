"""Stage processes on this machine without a worker: the processes and channels of one instance, for trying a pipeline out and for tests.

    with LocalStageProcesses("app.App", [["deblur"], ["super_resolution", "depth"]]) as stage_processes:
        answers = stage_processes.run([event])
"""
import contextlib
import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
from typing import Any, Dict, List, Optional, Tuple, Type

from . import channel
from .dag import Dag, PipelineError

SLOTS = 4
SLOT_BYTES = 1 << 30
IN_FLIGHT = 2  # jobs of a stage process: one comes or goes while the other is computed


def load_app(handler: str, folder: str = ".") -> Type[Any]:
    """The Pipeline subclass that "module.Class" names, from a folder."""
    from lambent_runtime.handler import InitError, load

    try:
        found = load(handler, os.path.abspath(folder))  # type: ignore[no-untyped-call]
    except InitError as error:
        raise PipelineError("%s\n%s" % (error, "\n".join(error.trace)) if error.trace else str(error)) from None
    if not isinstance(found, type) or not hasattr(found, "define_dag"):
        raise PipelineError("%s is no class with define_dag" % handler)
    return found


def parse_stage_processes(text: str) -> List[List[str]]:
    """"deblur;super_resolution,depth" -> [["deblur"], ["super_resolution", "depth"]]."""
    return [[name.strip() for name in stage_process.split(",") if name.strip()] for stage_process in text.split(";")]


def stage_process_descriptions(dag: Dag, stage_processes: List[List[str]], handler: str, folder: str) -> Tuple[List[Dict[str, Any]],
                               List[str]]:
    """(what LAMBENT_STAGE's file holds of each stage process, paths of the channels). Each component is in one stage process. The one
    that makes all outputs answers, or the last that makes some, to which the others send theirs."""
    stage_process_of: Dict[str, int] = {}
    for number, names in enumerate(stage_processes):
        if not names:
            raise PipelineError("stage process %d has no component" % number)
        for name in names:
            if name not in dag.nodes:
                raise PipelineError("stage process %d: there is no component '%s'; there are: %s" %
                                    (number, name, ", ".join(dag.nodes)))
            if name in stage_process_of:
                raise PipelineError("component '%s' is in stage process %d and in stage process %d" % (name, stage_process_of[name], number))
            stage_process_of[name] = number
    missing = [name for name in dag.nodes if name not in stage_process_of]
    if missing:
        raise PipelineError("component '%s' is in no stage process" % missing[0])
    last = max(stage_process_of[name] for name in dag.outputs)
    described: List[Dict[str, Any]] = [{"handler": handler, "stage_process": number, "components": names, "receives": [], "sends": [],
                  "outputs": dag.outputs if number == last else [], "in_flight": IN_FLIGHT} for number, names in enumerate(stage_processes)]
    needed = {(source, stage_process_of[node.name]) for node in dag.nodes.values() for source in node.inputs}
    needed |= {(name, last) for name in dag.outputs}
    paths: List[str] = []
    for value, receiver in sorted(needed):
        if value.startswith("$") or stage_process_of[value] == receiver:
            continue
        path = os.path.join(folder, "channel-%d" % len(paths))
        paths.append(path)
        described[receiver]["receives"].append({"channel": path, "value": value})
        described[stage_process_of[value]]["sends"].append({"channel": path, "value": value, "to": receiver})
    return described, paths


def needs_events(dag: Dag, description: Dict[str, Any]) -> bool:
    """Whether jobs for this stage process have the events: it decodes inputs, or makes the answers."""
    return bool(description["outputs"]) or any(
        source.startswith("$") for name in description["components"] for source in dag.nodes[name].inputs)


class LocalStageProcesses:
    """`devices`: CUDA_VISIBLE_DEVICES of each stage process, or None. Not for several threads at once."""

    def __init__(self, handler: str, stage_processes: List[List[str]], folder: str = ".", devices: Optional[List[str]] = None,
                 slots: int = SLOTS, slot_bytes: int = SLOT_BYTES) -> None:
        self._dag = load_app(handler, folder)().dag
        # In memory, where the driver can page-lock it.
        self._files = tempfile.mkdtemp(prefix="lambent-processes-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
        self._processes: List[Any] = []
        self._answers: List["queue.SimpleQueue[Any]"] = []
        self._job = 0
        try:
            self._descriptions, self._channels = stage_process_descriptions(self._dag, stage_processes, handler, self._files)
            for path in self._channels:
                channel.create(path, slots, slot_bytes)
            for number, description in enumerate(self._descriptions):
                self._start(number, description, os.path.abspath(folder), devices[number] if devices else None)
            for number in range(len(stage_processes)):
                ready = self._next(number)
                if "ready" not in ready:
                    raise PipelineError("stage process %d could not start: %s" % (number, ready.get("error", ready)))
        except BaseException:
            self.close()
            raise

    def _start(self, number: int, description: Dict[str, Any], folder: str, device: Optional[str]) -> None:
        path = os.path.join(self._files, "lane-%d.json" % number)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(description, file)
        environment = dict(os.environ, LAMBENT_STAGE=path, LAMBDA_TASK_ROOT=folder)
        if device is not None:
            environment["CUDA_VISIBLE_DEVICES"] = device
        environment["PYTHONPATH"] = os.pathsep.join(
            [os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))] +
            [part for part in [os.environ.get("PYTHONPATH")] if part])
        process = subprocess.Popen([sys.executable, "-m", "lambent.pipeline.stage_process"], cwd=folder, env=environment,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._processes.append(process)
        self._answers.append(queue.SimpleQueue())
        threading.Thread(target=self._read, args=(number, process), daemon=True).start()

    def _read(self, number: int, process: Any) -> None:
        with process.stdout:
            for line in process.stdout:
                self._answers[number].put(line)
        self._answers[number].put(None)

    def _next(self, number: int) -> Dict[str, Any]:
        line = self._answers[number].get()
        if line is None:
            self._answers[number].put(None)
            return {"error": "it has ended with %s" % self._processes[number].wait()}
        answer: Dict[str, Any] = json.loads(line)
        return answer

    def submit(self, events: List[Any]) -> int:
        """Gives the stage processes a job of these requests; answers come in the order of jobs."""
        job, self._job = self._job, self._job + 1
        for number, description in enumerate(self._descriptions):
            whole: Dict[str, Any] = {"job": job, "requests": len(events)}
            if needs_events(self._dag, description):
                whole["events"] = events
            try:
                self._processes[number].stdin.write(json.dumps(whole) + "\n")
                self._processes[number].stdin.flush()
            except OSError:
                pass  # it has ended: its answer says so
        return job

    def collect(self) -> List[Dict[str, Any]]:
        """The answers of all stage processes to the oldest job that was not collected; {"error": text} of one that has
        ended, or could not serve the job."""
        return [self._next(number) for number in range(len(self._processes))]

    def run(self, events: List[Any]) -> List[Any]:
        """[{"value": ...} or {"error": ...}] of a job of these requests; PipelineError if stage processes broke down."""
        self.submit(events)
        answers = self.collect()
        for number, answer in enumerate(answers):
            if "error" in answer:
                raise PipelineError("stage process %d: %s" % (number, answer["error"]))
        return next(answer["results"] for answer in answers if "results" in answer)

    @property
    def processes(self) -> List[Any]:
        return self._processes

    def close(self) -> None:
        for path in self.__dict__.get("_channels", []):
            if os.path.exists(path):
                channel.end(path)
        for process in self._processes:
            process.kill()
            process.wait()
            with contextlib.suppress(OSError):  # what it did not read
                process.stdin.close()
        shutil.rmtree(self._files, ignore_errors=True)

    def __enter__(self) -> "LocalStageProcesses":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
