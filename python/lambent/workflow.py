"""Builds workflows: functions that are called in an order which their values give (docs/guides/workflows.md).

    from lambent.workflow import Workflow, item

    flow = Workflow("traffic")
    detect = flow.call("detector", {"image": flow.input.image})
    faces = flow.call("face_reader", {"image": flow.input.image, "box": item}, for_each=detect.boxes)
    plates = flow.call("plate_reader", {"image": flow.input.image}, when=detect.cars > 0)
    flow.output({"faces": faces, "plates": plates})
    flow.save("package")                 # for `lambent deploy package`

What call() gives stands for the result, which is not there yet: keys and entries of it are written as attributes and indices, and
comparisons of it are conditions. Standard library only."""
import json
import math
import os
import re
from typing import Any, Dict, Iterable, List, Optional, Sequence, Set, Union

# What Lambent takes (src/decide/workflow/limits.h).
COMPONENTS = 256
NAME_LENGTH = 64
GRAPH_BYTES = 1 << 20

_NAME = re.compile("[A-Za-z0-9_-]+")
_RESERVED = ("input", "item", "index")
_SETTINGS = ("description", "timeout_s", "weight", "tags")


class WorkflowError(ValueError):
    """The workflow would not make sense; says what, at the line that asked for it."""


class Condition:
    """Whether a component is called; made by comparing a reference, or by not_()."""

    def __init__(self, refs: "List[Ref]", form: Any) -> None:
        self.refs, self.form = refs, form

    def __bool__(self) -> bool:
        raise WorkflowError("a condition is decided when the workflow runs; give it as when=")


class Ref:
    """A value that is not there yet: `ref.key`, `ref["any key"]`, `ref[3]`."""

    __slots__ = ("_flow", "_component", "_text")

    def __init__(self, flow: "Optional[Workflow]", component: Optional[str], text: str) -> None:
        self._flow, self._component, self._text = flow, component, text

    def __getattr__(self, key: str) -> "Ref":
        if key.startswith("__"):  # what Python itself asks for
            raise AttributeError(key)
        return self[key]

    def __getitem__(self, key: Union[str, int]) -> "Ref":
        if isinstance(key, bool) or not isinstance(key, (str, int)):
            raise WorkflowError("%s[%r]: a key or a whole number is expected" % (self._text, key))
        if isinstance(key, int):
            if not 0 <= key < 2**32:
                raise WorkflowError("%s[%d]: entries are counted from 0 up" % (self._text, key))
            step = "[%d]" % key
        else:
            step = "." + key if _NAME.fullmatch(key) else "[%s]" % json.dumps(key)
        return Ref(self._flow, self._component, self._text + step)

    def __repr__(self) -> str:
        return self._text

    def __str__(self) -> str:
        raise WorkflowError("%s has no text before the workflow runs; a function that takes it makes one" % self._text)

    def __format__(self, form: str) -> str:
        return str(self)

    def __eq__(self, other: Any) -> Condition:  # type: ignore[override]
        return self._compared("==", other)

    def __ne__(self, other: Any) -> Condition:  # type: ignore[override]
        return self._compared("!=", other)

    def __lt__(self, other: Any) -> Condition:
        return self._compared("<", other)

    def __le__(self, other: Any) -> Condition:
        return self._compared("<=", other)

    def __gt__(self, other: Any) -> Condition:
        return self._compared(">", other)

    def __ge__(self, other: Any) -> Condition:
        return self._compared(">=", other)

    __hash__ = None  # type: ignore[assignment]
    __iter__ = None  # how many there are is known only when it runs: see for_each

    def __bool__(self) -> bool:
        raise WorkflowError("%s has no value before the workflow runs; give it as when=" % self._text)

    def _compared(self, operator: str, other: Any) -> Condition:
        refs: List[Ref] = [self]
        return Condition(refs, {"ref": self._text, "op": operator, "value": _form(other, refs)})


item = Ref(None, None, "$item")    # of a for_each: the element that this call is for
index = Ref(None, None, "$index")  # and its number


def not_(ref: Ref) -> Condition:
    """True if the reference is not: null, false, 0, or empty."""
    if not isinstance(ref, Ref):
        raise WorkflowError("not_() takes a reference, not %r" % (ref,))
    return Condition([ref], {"not": ref._text})


def _form(value: Any, refs: List[Ref]) -> Any:
    """The value as JSON, with its references as text; they are added to `refs`."""
    if isinstance(value, Ref):
        refs.append(value)
        return value._text
    if isinstance(value, str):
        return "$" + value if value.startswith("$") else value
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise WorkflowError("%r has no form in JSON" % value)
        return value
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise WorkflowError("%r: keys are texts" % (key,))
        return {key: _form(each, refs) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_form(each, refs) for each in value]
    raise WorkflowError("%r is neither a reference nor JSON" % (value,))


class Workflow:
    """A workflow called `name`, built call by call."""

    def __init__(self, name: str) -> None:
        self.name = _checked_name(name, "a workflow")
        self.input = Ref(self, None, "$input")
        self._components: List[Dict[str, Any]] = []
        self._names: Set[str] = set()
        self._output: Any = None
        self._has_output = False

    def call(self, function: str, input: Any = None, *, name: Optional[str] = None, for_each: Any = None,
             when: Union[Ref, Condition, None] = None, after: Iterable[Ref] = (), idempotent: bool = False,
             inline: bool = False) -> Ref:
        """Calls a function, once all that is referred to is there; gives what stands for its result.

        `name`: of this component, the function's unless said. `input`: JSON with references in it; unless said, the workflow's
        input, or `item`. `for_each`: a reference to a list (or a list with references in it): one call for each element, in which
        `item` and `index` have a meaning; the result is the list of their results. `when`: a reference that has to be true, or a
        condition. `after`: results to wait for that are not referred to. `idempotent`: it may be called again if its sandbox died.
        `inline`: a kernel function's outputs come as JSON, not as objects."""
        name = _checked_name(name if name is not None else function, "a component")
        if name in _RESERVED:
            raise WorkflowError("'%s' has a meaning of its own in references; give another name" % name)
        if name in self._names:
            raise WorkflowError("there is a component '%s' already; give this one a name" % name)
        if len(self._components) == COMPONENTS:
            raise WorkflowError("a workflow has at most %d components" % COMPONENTS)
        component: Dict[str, Any] = {"name": name, "function": _checked_name(function, "a function")}
        inner: List[Ref] = []
        if input is not None:
            component["input"] = _form(input, inner)
        if for_each is not None:
            lists: List[Ref] = []
            component["for_each"] = _form(for_each, lists)
            self._check(lists, False, "for_each")
        if when is not None:
            if not isinstance(when, (Ref, Condition)):
                raise WorkflowError("when is a reference or a condition, not %r" % (when,))
            component["when"] = when._text if isinstance(when, Ref) else when.form
            inner += [when] if isinstance(when, Ref) else when.refs
        self._check(inner, for_each is not None, "'%s'" % name)
        names = [self._component_of(each) for each in after]
        if names:
            component["after"] = names
        if idempotent:
            component["idempotent"] = True
        if inline:
            component["inline"] = True
        self._names.add(name)
        self._components.append(component)
        return Ref(self, name, "$" + name)

    def output(self, value: Any) -> None:
        """What the workflow answers; unless said, the result of the last call."""
        if self._has_output:
            raise WorkflowError("there is an output already")
        refs: List[Ref] = []
        form = _form(value, refs)
        self._check(refs, False, "the output")
        self._output, self._has_output = form, True

    def json(self) -> Dict[str, Any]:
        """workflow.json as a dictionary."""
        if not self._components:
            raise WorkflowError("'%s' calls nothing yet" % self.name)
        graph: Dict[str, Any] = {"components": self._components}
        if self._has_output:
            graph["output"] = self._output
        return graph

    def save(self, folder: str, **settings: Any) -> None:
        """Writes a package for `lambent deploy`: workflow.json and lambent.toml.

        `settings` go into lambent.toml: description, timeout_s, weight, tags (a dictionary)."""
        for key in settings:
            if key not in _SETTINGS:
                import difflib  # no sandbox needs it

                close: Sequence[str] = difflib.get_close_matches(key, _SETTINGS, 1)
                raise WorkflowError("there is no setting '%s'%s"
                                    % (key, "; did you mean '%s'?" % close[0] if close else ""))
        text = json.dumps(self.json(), indent=1) + "\n"
        if len(text) > GRAPH_BYTES:
            raise WorkflowError("workflow.json has %d bytes; at most %d are taken" % (len(text), GRAPH_BYTES))
        lines = ["name = " + _toml(self.name), 'kind = "workflow"', 'graph = "workflow.json"']
        lines += ["%s = %s" % (key, _toml(settings[key]))
                  for key in ("description", "timeout_s", "weight") if key in settings]
        if settings.get("tags"):
            lines += ["", "[tags]"]
            lines += ["%s = %s" % (_toml(key), _toml(value)) for key, value in settings["tags"].items()]
        os.makedirs(folder, exist_ok=True)
        for name, content in (("workflow.json", text), ("lambent.toml", "\n".join(lines) + "\n")):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(content)

    # --- Within ---

    def _check(self, refs: List[Ref], has_element: bool, where: str) -> None:
        for ref in refs:
            if ref._flow is None and not has_element:
                raise WorkflowError("%s: %r means nothing without a for_each" % (where, ref))
            if ref._flow is not None and ref._flow is not self:
                raise WorkflowError("%s: %r is of workflow '%s'" % (where, ref, ref._flow.name))

    def _component_of(self, ref: Any) -> str:
        if not isinstance(ref, Ref) or ref._flow is not self or ref._component is None:
            raise WorkflowError("after takes results of calls of this workflow, not %r" % (ref,))
        return ref._component


def _toml(value: Any) -> str:
    """As JSON writes texts and numbers, but TOML has neither halves of characters nor a bare DEL."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")


def _checked_name(name: str, what: str) -> str:
    if not isinstance(name, str) or len(name) > NAME_LENGTH or not _NAME.fullmatch(name):
        raise WorkflowError("%r is no name for %s: 1 to %d letters, digits, '-' and '_'" % (name, what, NAME_LENGTH))
    return name
