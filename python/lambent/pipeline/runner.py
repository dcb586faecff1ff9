"""Runner: runs components on the requests of a job, one after the other or as a batch, and measures them. For one thread; used by
Pipeline.run, by stages and by the profiler."""
import contextlib
import os
import sys
import time
import traceback
from typing import Any, Dict, Iterable, Iterator, List

from .dag import Node, PipelineError
from .meter import DeviceMeter
from .values import Failed, failed_by, joined, parted, rows_of, size_of


def _is_ours(path: str) -> bool:
    return os.path.dirname(path) == os.path.dirname(__file__)


@contextlib.contextmanager
def _known_as(component: str) -> Iterator[None]:
    """What is raised within tells of which component it is."""
    try:
        yield
    except Exception as error:
        with contextlib.suppress(Exception):  # one that takes no attributes
            error.lambent_component = component  # type: ignore[attr-defined]
        raise


def own_frames(error: BaseException) -> str:
    """The lines of an exception's traceback without our own frames."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__)
              if not _is_ours(frame.filename) and os.path.basename(frame.filename) != "contextlib.py"]
    return "".join(traceback.format_list(frames))


class Measured:
    """Of one component: `ms` of its last job, all requests together; requests that it `ran` for in it, and whether as one batch;
    bytes of device memory while it runs, of its weights, of its output (the largest so far, of one request)."""

    def __init__(self) -> None:
        self.ms, self.ran, self.together = 0.0, 0, False
        self.memory = self.weights = self.output = 0

    def to_json(self) -> Dict[str, Any]:
        return {"ms": round(self.ms, 3), "ran": self.ran, "memory": self.memory, "weights": self.weights,
                "output": self.output, **({"together": True} if self.together else {})}


class Runner:
    def __init__(self, nodes: Iterable[Node]) -> None:
        self.nodes = {node.name: node for node in nodes}
        self.measured = {name: Measured() for name in self.nodes}
        self._modules: Dict[str, Any] = {}
        self.meter = DeviceMeter()

    def setup(self) -> None:
        """Makes the modules and loads their weights. What goes wrong in a module's own code is raised as it is, and knows the name of
        its component."""
        for name in self.nodes:
            with _known_as(name):
                self._setup_one(name, self.nodes[name])

    def _setup_one(self, name: str, node: Node) -> None:
        before = self.meter.used_bytes()
        module = node.make
        if isinstance(module, type) or not hasattr(module, "forward"):
            module = node.make()
        if not hasattr(module, "forward"):
            raise PipelineError("component %r: %r is no module: it has no forward()" % (name, module))
        if before is None:
            before = self.meter.used_bytes()  # making it imported what it runs on
        if hasattr(module, "setup"):
            module.setup()
        if hasattr(module, "after_setup"):
            module.after_setup()
        after = self.meter.used_bytes()
        if after is not None:
            self.meter.synchronize()
            self.measured[name].weights = max(0, after - (before or 0)) if before is not None else 0
            self.measured[name].memory = self.measured[name].weights
        self._modules[name] = module

    def run(self, name: str, inputs: Any) -> List[Any]:
        """The component's values for each request, from a list of its inputs' values for each. A request with an input that Failed
        fails with the same error, and one whose own code raises fails with that; the others are not touched by it."""
        node, measured = self.nodes[name], self.measured[name]
        measured.ms, measured.ran, measured.together = 0.0, 0, False
        outputs = [next((value for value in values if isinstance(value, Failed)), None) for values in inputs]
        alive = []
        for request, values in enumerate(inputs):
            if outputs[request] is not None:
                continue
            try:
                if node.when is None or node.when(*values):
                    alive.append(request)
                else:
                    outputs[request] = values[0]
            except Exception as error:
                outputs[request] = self._failed(name, error)
        if not all(isinstance(output, Failed) for output in outputs):
            # What decode() has begun is complete then, of what passes through as well: no other step waits for that.
            self.meter.synchronize()
        if alive:
            begin = time.perf_counter()
            self._run_all(name, inputs, alive, outputs)
            measured.ms = (time.perf_counter() - begin) * 1e3
            measured.ran = len(alive)
        return outputs

    def run_alone(self, app: Any, event: Any) -> Any:
        """The answer to one event, if all components are here; what fails is raised as it was."""
        values = {"$" + name: value for name, value in app.decode(event).items()}
        for name, node in self.nodes.items():
            inputs = [values[source] for source in node.inputs]
            with _known_as(name):
                if node.when is not None and not node.when(*inputs):
                    values[name] = inputs[0]
                else:
                    values[name] = self._call(name, inputs)
        return app.encode_result({name: values[name] for name in app.dag.outputs}, event)

    def takes_batches(self, name: str) -> bool:
        return bool(getattr(self._modules[name], "batches", False))

    def _call(self, name: str, inputs: Any) -> Any:
        module = self._modules[name]
        return module.lambent_run(*inputs) if hasattr(module, "lambent_run") else module(*inputs)

    def _run_all(self, name: str, inputs: Any, alive: List[int], outputs: List[Any]) -> None:
        measured = self.measured[name]
        if len(alive) > 1 and self.takes_batches(name):
            measured.together = self._run_batch(name, inputs, alive, outputs)
            if measured.together:
                return
        for request in alive:
            self.meter.start()
            try:
                output = self._call(name, inputs[request])
                self.meter.synchronize()
                output_bytes, _ = size_of(output)
                input_bytes = sum(size_of(value)[1] for value in inputs[request])
            except Exception as error:
                outputs[request] = self._failed(name, error)
                continue
            outputs[request] = output
            measured.output = max(measured.output, output_bytes)
            measured.memory = max(measured.memory, measured.weights + input_bytes + self.meter.extra_bytes())

    def _run_batch(self, name: str, inputs: Any, alive: List[int], outputs: List[Any]) -> bool:
        """Whether all ran as one. If not, because they do not fit together or one of them makes the batch fail, each runs by itself:
        the one that fails is found, and the others do not fail with it."""
        measured = self.measured[name]
        columns = list(zip(*[inputs[request] for request in alive]))
        rows = [count for value in columns[0] if (count := rows_of(value)) is not None]
        if len(rows) != len(columns[0]) or any([rows_of(value) for value in column] != rows for column in columns):
            return False
        self.meter.start()
        try:
            parts = parted(self._call(name, [joined(list(column)) for column in columns]), rows)
            self.meter.synchronize()
            sizes = [size_of(part)[0] for part in parts]
        except Exception as error:
            sys.stderr.write("[WARN] component '%s' failed on a batch of %d, its requests run alone: %s: %s\n" %
                             (name, len(alive), type(error).__name__, error))
            return False
        for request, part in zip(alive, parts):
            outputs[request] = part
        measured.output = max(measured.output, *sizes)
        measured.memory = max(measured.memory, measured.weights + self.meter.extra_bytes() // len(alive))
        return True

    def _failed(self, name: str, error: BaseException) -> Failed:
        sys.stderr.write("[ERROR] component '%s': %s: %s\n%s" % (name, type(error).__name__, error, own_frames(error)))
        sys.stderr.flush()
        return failed_by(error, "component '%s': " % name)
