"""Stage: one stage process of a pipeline instance: its components, and the channels to and from other stage processes
(docs/decisions/0016-slices-and-pipelines.md). lambent_runtime serves it where LAMBENT_STAGE is set; stage_processes.py does without a worker.

A stage process never leaves another one waiting: whatever fails, every job takes each value that the process receives from one
channel, and puts each that it sends into one channel for each stage process. Where one has replicas, there is a channel for each of
them: a job's turn says which."""
import json
import os
import re
import sys
import time
from typing import Any, Callable, Dict, List, Optional, Set, Tuple, Type, Union

from .channel import DEVICE, ENDED, MALFORMED, PEER_GONE, SYSTEM, ChannelError, ReceivingEnd, SendingEnd
from .dag import PipelineError
from .module import complete_own_work
from .runner import Runner
from .values import Failed, failed_by


# After these nothing goes through a channel any more.
BREAKING = (PEER_GONE, ENDED, MALFORMED, DEVICE, SYSTEM)


class StageError(PipelineError):
    """The description of a stage process, or a job for it, that makes no sense."""


class Stage:
    """`description`: what LAMBENT_STAGE's file holds; `app`: the Pipeline."""

    def __init__(self, description: Dict[str, Any], app: Any) -> None:
        self.app, self.dag = app, app.dag
        self.components = [self._known(name) for name in _texts(description, "components")]
        self.outputs = [self._known(name) for name in _texts(description, "outputs", [])]
        self._runner = Runner([node for name, node in self.dag.nodes.items() if name in self.components])
        # In the order of the DAG, so that two stage processes never wait for each other.
        self.components = list(self._runner.nodes)
        # Of a value, the channels from each replica of the stage process that makes it; to each of every stage process that needs it.
        self._receives: Dict[str, List[str]] = {}
        self._sends: Dict[str, Dict[Any, List[str]]] = {}
        for entry in _entries(description, "receives"):
            self._receives.setdefault(self._value_name(entry), []).append(entry["channel"])
        for entry in _entries(description, "sends"):
            stage_processes = self._sends.setdefault(self._value_name(entry), {})
            stage_processes.setdefault(entry.get("to", entry["channel"]), []).append(entry["channel"])
        self._receivers: Dict[str, List[ReceivingEnd]] = {}
        self._senders: Dict[str, List[List[SendingEnd]]] = {}
        self._noted: Set[str] = set()
        # Of what comes first the input may be fetched while a job before is still at work; of others, what is needed for it may
        # have to be made of this very job's values.
        self._first = list(self._runner.nodes[self.components[0]].inputs) if self.components else []
        self._check_sources()
        self._needed_after = self._needs()
        self.in_flight = min(_in_flight(description), 2 if getattr(app, "overlap", True) else 1)

    def _needs(self) -> Dict[str, Set[str]]:
        """After each component the values that a job still needs. Others are dropped: no memory is planned for them."""
        needed = set(self.components[-1:]) | set(self.outputs) | (set(self._sends) - set(self.components))
        after = []
        for name in reversed(self.components):
            after.append(needed)
            needed = needed | set(self.dag.nodes[name].inputs)
        return dict(zip(reversed(self.components), after))

    def open(self) -> "Stage":
        """Opens the channels, then loads the components: if that ends the process, other stage processes find out."""
        for value, paths in self._receives.items():
            self._receivers[value] = [ReceivingEnd(path) for path in paths]
        for value, stage_processes in self._sends.items():
            self._senders[value] = [[SendingEnd(path) for path in paths] for paths in stage_processes.values()]
        self._runner.setup()
        return self

    def close(self) -> None:
        for end in self._ends():
            end.close()

    def _ends(self) -> List[Any]:
        return [end for ends in self._receivers.values() for end in ends] + [
            end for stage_processes in self._senders.values() for ends in stage_processes for end in ends]

    def serve(self, job: Any, remaining_ms: Optional[float] = None) -> Dict[str, Any]:
        """The answer to a job, as 0016 has it. `remaining_ms`: how long the stage process may wait for others; None: as long as they live."""
        begun = self.begin(job, remaining_ms)
        return self.finish(self.work(begun))

    # The three parts of a job. Each may be a thread's of its own, if each has the jobs in their order: a channel is only ever used in
    # one of them, so that it has them in order, too.

    def begin(self, job: Any, remaining_ms: Optional[float] = None) -> "_Job":
        """A job whose input is there: decoded, or received."""
        return _Job(self, job, remaining_ms).begin()

    def work(self, begun: "_Job") -> "_Job":
        """Runs its components, and sends what others need of them but the last."""
        return begun.work()

    def finish(self, begun: "_Job") -> Dict[str, Any]:
        """Sends what is left, and makes the answer."""
        return begun.finish()

    def say_note(self, end: Union[SendingEnd, ReceivingEnd]) -> None:
        """Writes to the log, once, why copies through a channel are slower than they could be."""
        if end.note and end.path not in self._noted:
            self._noted.add(end.path)
            sys.stderr.write("[WARN] memory of channel %s is not page-locked, copies take longer: %s\n" % (end.path, end.note))

    def _known(self, name: str) -> str:
        if name not in self.dag.nodes:
            raise StageError("LAMBENT_STAGE: the pipeline has no component '%s': pipeline.json does not match the code: run "
                             "python3 -m lambent.pipeline build again" % name)
        return name

    def _value_name(self, entry: Dict[str, Any]) -> str:
        name: str = entry["value"]
        if name.startswith("$") and name[1:] in self.dag.inputs:
            return name
        return self._known(name)

    def _check_sources(self) -> None:
        """Every value that the stage process needs or sends is made, decoded or received here."""
        made = set(self.components) | set(self._receives) | {"$" + name for name in self.dag.inputs}
        needed = [source for name in self.components for source in self.dag.nodes[name].inputs]
        for name in needed + list(self._sends) + self.outputs:
            if name not in made:
                raise StageError("LAMBENT_STAGE: the stage process needs '%s', which it neither makes nor receives" % name)


class _Job:
    """One job on its way through the stage process."""

    def __init__(self, stage: Stage, job: Any, remaining_ms: Optional[float]) -> None:
        self.stage = stage
        self.number, self.requests, self.turn, self.events, self.fault = _checked_job(job)
        self.deadline = None if remaining_ms is None else time.monotonic() + remaining_ms / 1e3
        self.values: Dict[str, List[Any]] = {}
        self.received: Set[str] = set()
        self.queue_ms = self.wait_ms = self.receive_ms = self.send_ms = 0.0
        self.measured: Dict[str, Dict[str, Any]] = {}
        self.broken: Optional[str] = None

    def begin(self) -> "_Job":
        stage = self.stage
        for name in stage._first:
            self._value(name)
        if self._decodes():
            self._decode()
        self._wait_since = time.perf_counter()
        return self

    def work(self) -> "_Job":
        stage = self.stage
        self._waited()
        for name in stage.components:
            sources = [self._value(source) for source in stage.dag.nodes[name].inputs]
            try:
                self.values[name] = stage._runner.run(name, list(zip(*sources)))
            except Exception as error:  # not the component's own, such as of a device that is lost
                self.values[name] = self._all_failed(type(error).__name__, "component '%s': %s" % (name, error))
            if name != stage.components[-1]:
                self._send(name)
            del sources
            self.values = {each: value for each, value in self.values.items() if each in stage._needed_after[name]}
        # Another job may be measured before this one is answered.
        self.measured = {name: stage._runner.measured[name].to_json() for name in stage.components}
        self._wait_since = time.perf_counter()
        return self

    def finish(self) -> Dict[str, Any]:
        stage = self.stage
        self._waited()
        for name in stage.components[-1:]:
            self._send(name)
        for name in stage._receivers:
            if name not in self.received:
                self._value(name)
        for name in stage._senders:
            if name not in stage.components:
                self._send(name)
        answer: Dict[str, Any] = {"components": self.measured, "queue_ms": round(self.queue_ms, 3), "wait_ms": round(self.wait_ms, 3),
                  "receive_ms": round(self.receive_ms, 3), "send_ms": round(self.send_ms, 3)}
        if stage.outputs:
            outputs = {name: self._value(name) for name in stage.outputs}
            answer["results"] = [self._result(outputs, request) for request in range(self.requests)]
        if self.broken is not None:
            answer["broken"] = self.broken
        return answer

    def _waited(self) -> None:
        """For a job before it, which was at this part."""
        self.queue_ms += (time.perf_counter() - self._wait_since) * 1e3

    def _decodes(self) -> bool:
        """Whether some component here needs an input that no stage process sends."""
        return any(source.startswith("$") and source not in self.stage._receivers and source not in self.values
                   for name in self.stage.components for source in self.stage.dag.nodes[name].inputs)

    def _value(self, name: str) -> List[Any]:
        """The values of all requests; waits for another stage process's."""
        if name not in self.values:
            if name in self.stage._receivers:
                self.received.add(name)
                self.values[name] = self._receive(self._of_turn(self.stage._receivers[name]))
            else:
                self._decode()
        return self.values[name]

    def _decode(self) -> None:
        names = self.stage.dag.inputs
        decoded = []
        for request in range(self.requests):
            try:
                if self.fault is not None:
                    raise StageError(self.fault)
                if self.events is None:
                    raise StageError("job %d has no events, and this stage process needs them" % self.number)
                inputs = self.stage.app.decode(self.events[request])
                missing = [name for name in names if name not in inputs]
                if missing:
                    raise ValueError("decode() returned nothing for input '%s'" % missing[0])
                decoded.append([inputs[name] for name in names])
            except Exception as error:
                decoded.append([failed_by(error)] * len(names))
        try:
            complete_own_work()
        except Exception as error:  # of what was begun on the device, for whichever request
            decoded = [inputs if any(isinstance(each, Failed) for each in inputs) else [failed_by(error)] * len(names) for inputs in decoded]
        for position, name in enumerate(names):
            # An input that is received as well is not overwritten.
            self.values.setdefault("$" + name, [inputs[position] for inputs in decoded])

    def _of_turn(self, ends: List[Any]) -> Any:
        return ends[self.turn % len(ends)]

    def _receive(self, end: ReceivingEnd) -> List[Any]:
        try:
            begin = time.perf_counter()
            job, requests = end.wait(self._remaining_ms())
            # Of jobs that this stage process gave up on.
            while job < self.number:
                end.drop()
                job, requests = end.wait(self._remaining_ms())
            arrived = time.perf_counter()
            self.wait_ms += (arrived - begin) * 1e3
            if job > self.number:
                return self._all_failed("Channel.Skipped", "the stage process before sent nothing for job %d" % self.number)
            if requests != self.requests:
                end.drop()
                return self._all_failed("Channel.Malformed", "job %d has %d requests here and %d in the stage process before" %
                                        (self.number, self.requests, requests))
            values = end.take(requests, self._remaining_ms())
            self.receive_ms += (time.perf_counter() - arrived) * 1e3
            self.stage.say_note(end)
            return values
        except ChannelError as error:
            self._note(error)
            return self._all_failed(error.error_type, str(error))
        except Exception as error:  # such as no memory for what has come
            return self._all_failed(type(error).__name__, str(error))

    def _send(self, name: str) -> None:
        begin = time.perf_counter()
        values = self._value(name)
        for ends in self.stage._senders.get(name, []):
            end = self._of_turn(ends)
            try:
                # A value that this channel cannot carry has failed only for its receiver.
                end.send(self.number, values, self._remaining_ms(), complete=True)
                self.stage.say_note(end)
            except ChannelError as error:
                self._note(error)
        self.send_ms += (time.perf_counter() - begin) * 1e3

    def _result(self, outputs: Dict[str, List[Any]], request: int) -> Dict[str, Any]:
        of_request = {name: values[request] for name, values in outputs.items()}
        failed = next((value for value in of_request.values() if isinstance(value, Failed)), None)
        if failed is None and self.fault is not None:
            failed = Failed("StageError", self.fault)
        if failed is None:
            try:
                event = self.events[request] if self.events is not None else None
                result = self.stage.app.encode_result(of_request, event)
                json.dumps(result, ensure_ascii=False, allow_nan=False).encode()  # as lambent_runtime sends it
                return {"value": result}
            except Exception as error:
                failed = failed_by(error)
        return {"error": failed.to_json()}

    def _note(self, error: ChannelError) -> None:
        """Other errors are only of this job: the stage processes find each other again at the next one."""
        if error.status in BREAKING:
            self.broken = str(error)

    def _all_failed(self, error_type: str, message: str) -> List[Any]:
        return [Failed(error_type, message)] * self.requests

    def _remaining_ms(self) -> Optional[float]:
        return None if self.deadline is None else max(0, (self.deadline - time.monotonic()) * 1e3)


def job_of_unparsed(body: bytes, error: BaseException) -> Dict[str, Any]:
    """The job whose text is no JSON for this process, such as for a number of too many digits: all its requests fail, and what
    other stage processes wait for is sent to them. Raises `error` if not even its number is to be seen."""
    found = re.match(rb'\s*\{\s*"job"\s*:\s*(\d{1,19})\s*,\s*"requests"\s*:\s*(\d{1,9})\s*(?:,\s*"turn"\s*:\s*(\d{1,19})\s*)?[,}]', body)
    if found is None:
        raise error
    return {"job": int(found[1]), "requests": int(found[2]), "turn": int(found[3] or 0), "fault": "the events cannot be read: %s" % error}


def load(path: str) -> Tuple[Dict[str, Any], str]:
    """(description, handler) of the file that LAMBENT_STAGE names."""
    with open(path, encoding="utf-8") as file:
        try:
            description = json.load(file)
        except ValueError as error:
            raise StageError("LAMBENT_STAGE: %s is no JSON: %s" % (path, error)) from None
    if not isinstance(description, dict) or not isinstance(description.get("handler"), str):
        raise StageError("LAMBENT_STAGE: %s names no handler" % path)
    return description, description["handler"]


def handler_of(app_class: Type[Any]) -> Callable[[Any, Any], Any]:
    """A handler(event, context) for lambent_runtime: a stage process's where LAMBENT_STAGE is set, else the whole pipeline's."""
    app = app_class()
    path = os.environ.get("LAMBENT_STAGE")
    if not path:
        app.prepare()
        return lambda event, context: app.run(event)
    return StageProcessHandler(Stage(load(path)[0], app).open())


class StageProcessHandler:
    """What lambent_runtime calls for each job; where `in_flight` is more than 1, in its parts, by Overlap."""

    def __init__(self, stage: Stage) -> None:
        self.stage, self.in_flight = stage, stage.in_flight
        self.in_hand = self.in_flight  # its name for a lambent_runtime of the version before

    def __call__(self, event: Any, context: Any) -> Dict[str, Any]:
        return self.stage.finish(self.stage.work(self.begin(event, context)))

    def unparsed(self, body: bytes, error: BaseException, context: Any) -> Dict[str, Any]:
        return self(job_of_unparsed(body, error), context)

    def begin(self, event: Any, context: Any) -> "_Job":
        # Nothing left, or no deadline at all: either way the worker decides when it is over.
        return self.stage.begin(event, context.get_remaining_time_in_millis() or None)

    def begin_unparsed(self, body: bytes, error: BaseException, context: Any) -> _Job:
        return self.begin(job_of_unparsed(body, error), context)


def _checked_job(job: Any) -> Tuple[int, int, int, Optional[List[Any]], Optional[str]]:
    if not isinstance(job, dict):
        raise StageError("the job is no object")
    number: Any = job.get("job")
    requests: Any = job.get("requests")
    turn, events = job.get("turn", 0), job.get("events")
    for name, value in (("job", number), ("requests", requests), ("turn", turn)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise StageError("the job's '%s' is %r: a number is expected" % (name, value))
    fault = job.get("fault")
    if events is not None and (not isinstance(events, list) or len(events) != requests):
        # Others have the job as well, and wait for what this stage process makes of it.
        events, fault = None, "job %d has %d requests and other than as many events" % (number, requests)
    return number, requests, turn, events, fault


def _in_flight(description: Dict[str, Any]) -> int:
    number = description.get("in_flight", description.get("in_hand", 1))  # in_hand: of a worker of the version before
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise StageError("LAMBENT_STAGE: 'in_flight' is %r: a number of jobs is expected" % (number,))
    return number


def _texts(description: Dict[str, Any], key: str, default: Optional[List[str]] = None) -> List[str]:
    texts = description.get(key, default)
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise StageError("LAMBENT_STAGE: '%s' is no list of names" % key)
    return texts


def _entries(description: Dict[str, Any], key: str) -> List[Dict[str, Any]]:
    entries = description.get(key, [])
    if not isinstance(entries, list) or not all(
            isinstance(entry, dict) and isinstance(entry.get("channel"), str) and isinstance(entry.get("value"), str)
            for entry in entries):
        raise StageError("LAMBENT_STAGE: '%s' is no list of channels and values" % key)
    return entries
