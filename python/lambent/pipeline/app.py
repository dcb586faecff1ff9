"""Pipeline: the class that a pipeline function's author writes. It is made in every process of the function; define_dag is
called in each, setup() of a component only where that runs."""
import inspect
from typing import Any, Callable, Dict, List, Optional

from .dag import Dag, PipelineError, Reference, check_class
from .runner import Runner
from .values import as_json


class Pipeline:
    """Subclass it and write define_dag; decode and encode where the defaults do not do."""

    # From submission to result: in milliseconds, or as a multiple of the time of the function without other load. At most one of them.
    slo_ms: Optional[float] = None
    slo_scale: Optional[float] = None
    # How many requests that wait together may run as one job.
    batch = 1
    # How partitions are ranked: "balance", "throughput"; None: as the worker does it.
    rank: Optional[str] = None
    # Where it may run: on "slices" of its own, in one process on a "shared" device, or on either as it suits ("auto").
    isolation = "slices"
    # Whether decode() of the next request and encode() of the last may run, in threads of their own, while a component is at work.
    overlap = True

    def define_dag(self, *inputs: Any) -> Any:
        """Calls self.register for each component, in an order in which each stands after what it needs. The names of the
        parameters are those of the function's inputs. Returns the output or outputs: what register returned; without a return
        these are the components that no other needs."""
        raise NotImplementedError("%s has no define_dag" % type(self).__name__)

    def decode(self, event: Any) -> Dict[str, Any]:
        """The inputs of a request, by name, from its event: tensors, or what JSON can say. In every process that needs one."""
        names = self.dag.inputs
        if not isinstance(event, dict):
            raise TypeError("the event is no object with %s" % ", ".join(names))
        missing = [name for name in names if name not in event]
        if missing:
            raise ValueError("the event has no '%s'" % missing[0])
        return {name: event[name] for name in names}

    def encode(self, outputs: Dict[str, Any]) -> Any:
        """What the request is answered with: JSON. `outputs` are values by the names of their components; write it as
        encode(self, outputs, event) to have the event as well."""
        return {name: as_json(value) for name, value in outputs.items()}

    def register(self, name: str, module: Any, *inputs: Any, when: Optional[Callable[..., Any]] = None, **arguments: Any) -> Reference:
        """Adds a component to the DAG. `module`: a class (made with `arguments` where it runs), a function that makes one, or a
        module. `when`: a function of the inputs' values; where it says no, the component does not run, and its first input
        passes through as its output."""
        dag: Optional[Dag] = self.__dict__.get("_recording")
        if dag is None:
            raise PipelineError("register(%r) belongs into define_dag" % (name,))
        if arguments:
            if not callable(module):
                raise PipelineError("component %r: arguments are for a class, not for a module" % (name,))
            check_class("component %r" % (name,), module)
            made = module
            return dag.add(name, lambda: made(**arguments), inputs, when)
        return dag.add(name, module, inputs, when)

    @property
    def dag(self) -> Dag:
        """The DAG that define_dag defines; PipelineError if there is a mistake in it."""
        if "_dag" not in self.__dict__:
            dag = self.__dict__["_recording"] = Dag(self._input_names())
            try:
                returned = self.define_dag(*[Reference(dag, "$" + name) for name in dag.inputs])
                self.__dict__["_dag"] = dag.finish(returned)
            finally:
                del self.__dict__["_recording"]
        defined: Dag = self.__dict__["_dag"]
        return defined

    def _input_names(self) -> List[str]:
        names: List[str] = []
        for parameter in inspect.signature(self.define_dag).parameters.values():
            if parameter.kind not in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
                raise PipelineError("define_dag(%s): name each input of the function" % parameter)
            names.append(parameter.name)
        return names

    def to_json(self, handler: str) -> Dict[str, Any]:
        """What pipeline.json holds, as a dict."""
        document: Dict[str, Any] = {"pipeline": 1, "handler": handler}
        document.update(self.dag.to_json())
        if self.slo_ms is not None and self.slo_scale is not None:
            raise PipelineError("slo_ms and slo_scale: give one of them")
        if self.slo_ms is not None:
            document["slo"] = {"ms": _number(self.slo_ms, "slo_ms", 0, 24 * 3600 * 1000)}
        if self.slo_scale is not None:
            document["slo"] = {"scale": _number(self.slo_scale, "slo_scale", 0, 1000)}
        if self.batch != 1:
            if not isinstance(self.batch, int) or not 1 <= self.batch <= 1024:
                raise PipelineError("batch is %r: it is 1 to 1024 requests" % (self.batch,))
            document["batch"] = self.batch
        if self.rank is not None:
            if self.rank not in ("balance", "throughput"):
                raise PipelineError("rank is %r: it is 'balance' or 'throughput'" % (self.rank,))
            document["rank"] = self.rank
        if self.isolation not in ("slices", "shared", "auto"):
            raise PipelineError("isolation is %r: it is 'slices', 'shared' or 'auto'" % (self.isolation,))
        if self.isolation != "slices":
            document["isolation"] = self.isolation
        return document

    def encode_result(self, outputs: Dict[str, Any], event: Any) -> Any:
        """encode, with the event where it wants one."""
        if "_wants_event" not in self.__dict__:
            self._wants_event = len(inspect.signature(self.encode).parameters) > 1
        encode: Any = self.encode
        return encode(outputs, event) if self._wants_event else encode(outputs)

    def run(self, event: Any) -> Any:
        """The answer to an event, all components in this process, one after the other."""
        self.prepare()
        return self._runner.run_alone(self, event)

    def prepare(self) -> None:
        """Loads all components, as run() does the first time."""
        if "_runner" not in self.__dict__:
            runner = Runner(self.dag.nodes.values())
            runner.setup()
            self._runner = runner


def _number(value: Any, name: str, least: float, most: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not least < value <= most:
        raise PipelineError("%s is %r: it is more than %s, at most %s" % (name, value, least, most))
    return value
