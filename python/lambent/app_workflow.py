"""Workflows of an app: functions of the app composed by a function that is written as if it called them. Run here it calls them; to
deploy it, it is run once with values that stand for those to come, and what it would call becomes the graph (lambent.workflow). Standard
library only."""
from __future__ import annotations

import contextlib
import inspect
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

from .workflow import Condition, Ref, Workflow, WorkflowError, item

_building = threading.local()  # the graph that this thread makes
# What a workflow has no use for: it holds neither a sandbox nor a GPU.
SETTINGS = ("timeout", "weight", "max_concurrency", "async_retries", "async_max_age", "on_success", "on_failure", "schedule", "schedules", "slo")


def being_built() -> Workflow | None:
    return getattr(_building, "flow", None)


@contextlib.contextmanager
def _builds(flow: Workflow) -> Iterator[None]:
    if being_built() is not None:
        raise WorkflowError("a workflow is being built already")
    _building.flow = flow
    try:
        yield
    finally:
        _building.flow = None


def arguments_of(function: Callable[..., Any], args: Any, kwargs: Any, defaults: bool = False) -> dict[str, Any]:
    """By their keywords, as JSON has them. TypeError, as a call of the function would raise it."""
    bound = inspect.signature(function).bind(*args, **kwargs)
    if defaults:
        bound.apply_defaults()
    named: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        kind = bound.signature.parameters[name].kind
        if kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL):
            raise WorkflowError("%s takes %r by its place: in workflows arguments travel by their keywords" % (function.__name__, name))
        named.update(value if kind == inspect.Parameter.VAR_KEYWORD else {name: value})
    return named


def _free_name(flow: Workflow, wanted: str) -> str:
    number, name = 1, wanted
    while name in flow._names or name in ("input", "item", "index"):
        number += 1
        name = "%s-%d" % (wanted, number)
    return name


def called(target: str, function: Callable[..., Any], method: str, args: Any, kwargs: Any, *, for_each: Any = None, when: Any = None) -> Any:
    """A component of the workflow that is built: what stands for its answer. `target`: the function as the worker knows it."""
    flow = being_built()
    assert flow is not None
    code = inspect.unwrap(function)  # of a method: what the class has
    if inspect.isgeneratorfunction(code) or inspect.isasyncgenfunction(code):
        raise WorkflowError("%s is a generator, whose items come one by one: a workflow calls functions that answer at once" % target)
    if for_each is not None:
        args = (item, *args)
    event = arguments_of(function, args, kwargs)
    if method:
        event["method"] = method
    return flow.call(target, event, name=_free_name(flow, method or function.__name__), for_each=for_each, when=when)


def checked_condition(condition: Any) -> Any:
    if not isinstance(condition, (Ref, Condition)):
        raise WorkflowError("when() takes a value of the workflow or a comparison of one, not %r" % (condition,))
    return condition


def graph_of(name: str, function: Callable[..., Any]) -> bytes:
    """workflow.json. WorkflowError and TypeError come from the line that is wrong."""
    flow = Workflow(name)
    stands_for = {}
    for each in inspect.signature(function).parameters.values():
        if each.kind not in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY):
            raise WorkflowError("workflow %s: its parameters are keys of its input, so %r cannot be one" % (name, str(each)))
        stands_for[each.name] = flow.input[each.name]
    with _builds(flow):
        answer = function(**stands_for)
    flow.output(answer)
    return (json.dumps(flow.json(), indent=1) + "\n").encode()
