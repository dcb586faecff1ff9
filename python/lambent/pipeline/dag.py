"""The DAG of a pipeline function: what define_dag records, checked, and as pipeline.json has it
(docs/decisions/0016-slices-and-pipelines.md; the worker reads it with src/decide/pipeline/pipeline_json.cc)."""
import re
from typing import Any, Callable, Dict, List, Optional, Sequence

from .module import Component

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
MOST_COMPONENTS = 64
MOST_INPUTS = 64


class PipelineError(Exception):
    """A pipeline that cannot be: what is wrong with which part of it."""


class Reference:
    """What define_dag is given and gets back: a value that there will be. `name` is "$image" of an
    input of the function, "deblur" of a component."""

    def __init__(self, owner: "Dag", name: str) -> None:
        self.owner, self.name = owner, name

    def __repr__(self) -> str:
        return "<the value of %s>" % self.name

    def __bool__(self) -> bool:
        raise PipelineError("define_dag cannot look at values, such as that of %s: "
                            "there are none yet; give register() a condition, when=" % self.name)

    __iter__: Any = __bool__
    __len__: Any = __bool__
    __getitem__: Any = __bool__


class Node:
    """One component: `make` makes its module, `when` is its condition or None."""

    def __init__(self, name: str, make: Any, inputs: Sequence[str], when: Optional[Callable[..., Any]]) -> None:
        self.name, self.make, self.inputs, self.when = name, make, inputs, when

    @property
    def optional(self) -> bool:
        return self.when is not None


def check_name(name: Any, what: str) -> str:
    if not isinstance(name, str) or not _NAME.match(name):
        raise PipelineError("%s: %r is no name: 1 to 64 letters, digits, '-' and '_'" % (what, name))
    return name


def check_class(place: str, module: Any) -> None:
    """That a class of components has a forward of its own."""
    if not isinstance(module, type):
        return
    forward = getattr(module, "forward", None)
    if not callable(forward) or forward is Component.forward or getattr(forward, "__name__", "") == "_forward_unimplemented":
        raise PipelineError("%s: %s is no class of a component: it has no forward()" % (place, module.__name__))


class Dag:
    """`nodes`: name -> Node, each after all that it needs. `outputs`: names of nodes."""

    def __init__(self, inputs: Sequence[str]) -> None:
        self.inputs = [check_name(name, "inputs") for name in inputs]
        if not self.inputs:
            raise PipelineError("define_dag takes no input: a pipeline has at least one")
        if len(set(self.inputs)) != len(self.inputs):
            raise PipelineError("inputs: a name stands there twice: %s" % ", ".join(self.inputs))
        if len(self.inputs) > MOST_INPUTS:
            raise PipelineError("%d inputs: at most %d are taken" % (len(self.inputs), MOST_INPUTS))
        self.nodes: Dict[str, Node] = {}
        self.outputs: List[str] = []

    def add(self, name: str, make: Any, inputs: Sequence[Any], when: Optional[Callable[..., Any]]) -> Reference:
        place = "component %r" % (name,)
        check_name(name, place)
        if name in self.nodes:
            raise PipelineError("%s: there are two of that name" % place)
        if len(self.nodes) == MOST_COMPONENTS:
            raise PipelineError("%s: there are %d components already, no more are taken" %
                                (place, MOST_COMPONENTS))
        if not inputs:
            raise PipelineError("%s: it has no input" % place)
        if len(inputs) > MOST_INPUTS:
            raise PipelineError("%s: it has more than %d inputs" % (place, MOST_INPUTS))
        for position, source in enumerate(inputs):
            if not isinstance(source, Reference) or source.owner is not self:
                raise PipelineError("%s: input %d is %r: give it what define_dag was given, or what "
                                    "register() returned" % (place, position, source))
        if when is not None and not callable(when):
            raise PipelineError("%s: when= is %r: give it a function of the inputs" % (place, when))
        if not callable(make) and not hasattr(make, "forward"):
            raise PipelineError("%s: %r is no module: it has no forward()" % (place, make))
        check_class(place, make)
        self.nodes[name] = Node(name, make, [source.name for source in inputs], when)
        return Reference(self, name)

    def finish(self, returned: Any) -> "Dag":
        """`returned` by define_dag: the outputs; None: what no other component needs."""
        used = {source for node in self.nodes.values() for source in node.inputs}
        if not self.nodes:
            raise PipelineError("define_dag registered no component")
        if returned is None:
            self.outputs = [name for name in self.nodes if name not in used]
        else:
            several = returned if isinstance(returned, (tuple, list)) else (returned,)
            for output in several:
                if not isinstance(output, Reference) or output.owner is not self:
                    raise PipelineError("define_dag returned %r: it returns what register() "
                                        "returned" % (output,))
                if output.name.startswith("$"):
                    raise PipelineError("define_dag returned the input %s: an output is what a "
                                        "component makes" % output.name)
                if output.name in self.outputs:
                    raise PipelineError("define_dag returned %s twice" % output.name)
                self.outputs.append(output.name)
        for name in self.nodes:
            if name not in used and name not in self.outputs:
                raise PipelineError("component %r: nothing needs it, and it is no output of the "
                                    "function" % name)
        return self

    def to_json(self) -> Dict[str, Any]:
        components = []
        for node in self.nodes.values():
            component: Dict[str, Any] = {"name": node.name, "inputs": node.inputs}
            if node.optional:
                component["optional"] = True
            components.append(component)
        return {"inputs": self.inputs, "components": components, "outputs": self.outputs}
