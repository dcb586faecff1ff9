"""App: functions of a Python file, deployed as they are and called from anywhere. Standard library only.

    import lambent

    app = lambent.App("shop")

    @app.function(memory="1G", requirements=["numpy"])
    def square(x):
        import numpy
        return numpy.square(x)

    square.local(3)                  # here
    with app.run():                  # deploys what has changed
        square.remote(3)             # there; waits for the answer
        call = square.spawn(3)       # there; call.get() waits
        list(square.map(range(10)))  # there, many at once

Arguments, answers and exceptions go as pickles, so both sides have the same classes. A caller unpickles what a function
answers: call functions whose code is yours. Threads, spawned calls and asyncio (`remote_async`) have clients of their own.
"""
from __future__ import annotations

import asyncio
import collections
import concurrent.futures.thread
import contextlib
import functools
import inspect
import itertools
import os
import re
import sys
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from . import app_calls, app_code, app_workflow
from .client import Client
from .errors import LambentError
from .thread_clients import ThreadClients

if TYPE_CHECKING:
    from typing import ParamSpec

    P = ParamSpec("P")
else:
    try:
        from typing import ParamSpec

        P = ParamSpec("P")
    except ImportError:  # Python 3.9: there, nothing checks the types
        P = TypeVar("P")

R = TypeVar("R")
# These modules have no annotations.
_calls: Any = app_calls
_code: Any = app_code
_make_client: Any = Client
_error: Any = LambentError
_MOST_AT_ONCE = 64  # calls of an app that are under way in the background, each on a connection of its own

_in_background: weakref.WeakSet[threading.Event] = weakref.WeakSet()  # by which calls are given up


def _give_up_all() -> None:
    for each in list(_in_background):
        each.set()


def _until_exit() -> threading.Event:
    """It is set when the process ends, or before by who gives the call up."""
    given_up = threading.Event()
    _in_background.add(given_up)
    return given_up


# Functions of the module atexit are called after the pools' threads have ended, and these before: the last one first.
getattr(threading, "_register_atexit", lambda function: None)(_give_up_all)


class Call(Generic[R]):
    """A call that was begun by spawn(). It goes on in the background of this process, and ends with it."""

    def __init__(self, future: concurrent.futures.Future[R], given_up: threading.Event) -> None:
        self._future, self._given_up = future, given_up

    def _give_up(self) -> None:
        """It is not begun any more, nor sent again. What runs already goes on."""
        self._given_up.set()
        self._future.cancel()

    def get(self, timeout: float | None = None) -> R:
        """Waits for the answer; raises what the function raised. TimeoutError after `timeout` seconds."""
        try:
            return self._future.result(timeout)
        except concurrent.futures.TimeoutError:
            if self._future.done():
                raise
            raise TimeoutError(f"no answer within {timeout} seconds") from None

    def done(self) -> bool:
        return self._future.done()

    async def get_async(self) -> R:
        return await asyncio.wrap_future(self._future)


class Function(Generic[P, R]):
    """A function of an app. `name` is what the worker calls it: APP-FUNCTION."""

    def __init__(self, app: App, function: Callable[P, R], name: str, method: str = "") -> None:
        functools.update_wrapper(self, function)
        self._app, self._function, self.name, self._method = app, function, name, method

    def local(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Runs it in this process."""
        return self._function(*args, **kwargs)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """As local(); in a workflow that is built, a call of the workflow."""
        if app_workflow.being_built() is None:
            return self.local(*args, **kwargs)
        return self._component(args, kwargs)  # type: ignore[no-any-return]

    def _component(self, args: Any, kwargs: Any, **more: Any) -> Any:
        return app_workflow.called(self.name, self._function, self._method, args, kwargs, **more)

    def each(self, items: Iterable[Any], **same: Any) -> list[R]:
        """Of workflows: a call for each item, which is its first argument, with `same` as further ones; the list of their answers.
        Anywhere else it calls the function here."""
        if app_workflow.being_built() is not None:
            return self._component((), same, for_each=items)  # type: ignore[no-any-return]
        here: Any = self.local
        return [here(each, **same) for each in items]

    def when(self, condition: Any) -> Callable[P, R | None]:
        """Of workflows: the function, which is called only if the condition holds; its answer is None otherwise."""
        if app_workflow.being_built() is None:
            return self.local if condition else lambda *args, **kwargs: None
        checked = app_workflow.checked_condition(condition)
        return lambda *args, **kwargs: self._component(args, kwargs, when=checked)

    def remote(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Runs it on the worker and waits for its answer. Raises what it raised, with the remote traceback as its cause."""
        return self._run(None, *args, **kwargs)

    def _run(self, given_up: threading.Event | None, /, *args: P.args, **kwargs: P.kwargs) -> R:
        app = self._app
        return _calls.call(app.client, self.name, self._method, args, kwargs, app.retry_for, given_up)  # type: ignore[no-any-return]

    def remote_gen(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Runs a generator on the worker: its items, each as soon as it is there. Raises what it raises, in the place where it does.
        Closing the generator ends the call."""
        return _calls.stream(self._app.client, self.name, self._method, args, kwargs, self._app.retry_for)  # type: ignore[no-any-return]

    async def remote_gen_async(self, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[Any]:
        """As remote_gen(), for `async for`."""
        left: Any = object()
        # Its thread waits; clients are one for each thread, and the stream has one of its own.
        given_up = _until_exit()
        items: Any = self._stream_of_own_client(given_up, args, kwargs)
        wait = asyncio.get_running_loop().run_in_executor
        try:
            while (item := await wait(self._app.pool, next, items, left)) is not left:
                yield item
        finally:
            given_up.set()
            with contextlib.suppress(ValueError):  # its thread waits for an item still; then it ends by itself
                await wait(self._app.pool, items.close)

    def _stream_of_own_client(self, given_up: threading.Event, args: Any, kwargs: Any) -> Iterator[Any]:
        with _make_client(**self._app.identity) as client:
            yield from _calls.stream(client, self.name, self._method, args, kwargs, self._app.retry_for, given_up)

    async def remote_async(self, *args: P.args, **kwargs: P.kwargs) -> R:
        call = self.spawn(*args, **kwargs)
        try:
            return await call.get_async()
        finally:
            call._give_up()

    def spawn(self, *args: P.args, **kwargs: P.kwargs) -> Call[R]:
        """Begins a call and does not wait. More than 64 of an app wait for each other."""
        given_up = _until_exit()
        return Call(self._app.pool.submit(functools.partial(self._run, given_up, *args, **kwargs)), given_up)

    @overload
    def map(self, *iterables: Iterable[Any], at_once: int = ..., return_exceptions: Literal[False] = False) -> Iterator[R]: ...
    @overload
    def map(self, *iterables: Iterable[Any], at_once: int = ..., return_exceptions: bool) -> Iterator[R | Exception]: ...
    def map(self, *iterables: Iterable[Any], at_once: int = _MOST_AT_ONCE, return_exceptions: bool = False) -> Iterator[Any]:
        """A call for each item, as the built-in map has them, `at_once` of them under way. Answers come in order. The first failure is
        raised in its place and gives up the calls that follow; with `return_exceptions` each failure is an answer, and all are called."""
        return self.starmap(zip(*iterables), at_once=at_once, return_exceptions=return_exceptions)

    @overload
    def starmap(self, arguments: Iterable[Sequence[Any]], at_once: int = ..., return_exceptions: Literal[False] = False) -> Iterator[R]: ...
    @overload
    def starmap(self, arguments: Iterable[Sequence[Any]], at_once: int = ..., *, return_exceptions: bool) -> Iterator[R | Exception]: ...
    def starmap(self, arguments: Iterable[Sequence[Any]], at_once: int = _MOST_AT_ONCE, return_exceptions: bool = False) -> Iterator[Any]:
        """As map(), for items that are lists of arguments."""
        with contextlib.closing(self._calls_of(arguments, at_once)) as calls:
            for call in calls:
                try:
                    answer: Any = call.get()
                except Exception as error:
                    if not return_exceptions:
                        raise
                    answer = error
                yield answer

    def _calls_of(self, arguments: Iterable[Sequence[Any]], at_once: int) -> Generator[Call[R], None, None]:
        """The calls in order, `at_once` of them begun and not yet taken. Closing this gives them up."""
        if at_once < 1:
            raise ValueError("at_once is at least 1")
        left = iter(arguments)
        calls: collections.deque[Call[R]] = collections.deque()
        spawn: Any = self.spawn
        try:
            for each in itertools.islice(left, at_once):
                calls.append(spawn(*each))
            while calls:
                yield calls[0]
                calls.popleft()
                for each in itertools.islice(left, 1):
                    calls.append(spawn(*each))
        finally:
            for call in calls:
                call._give_up()

    @overload
    def map_async(self, *iterables: Iterable[Any], at_once: int = ..., return_exceptions: Literal[False] = False) -> AsyncIterator[R]: ...
    @overload
    def map_async(self, *iterables: Iterable[Any], at_once: int = ..., return_exceptions: bool) -> AsyncIterator[R | Exception]: ...
    async def map_async(self, *iterables: Iterable[Any], at_once: int = _MOST_AT_ONCE,
                        return_exceptions: bool = False) -> AsyncIterator[Any]:
        """As map(), for `async for`."""
        async for answer in self.starmap_async(zip(*iterables), at_once=at_once, return_exceptions=return_exceptions):
            yield answer

    @overload
    def starmap_async(self, arguments: Iterable[Sequence[Any]], at_once: int = ...,
                      return_exceptions: Literal[False] = False) -> AsyncIterator[R]: ...
    @overload
    def starmap_async(self, arguments: Iterable[Sequence[Any]], at_once: int = ..., *,
                      return_exceptions: bool) -> AsyncIterator[R | Exception]: ...
    async def starmap_async(self, arguments: Iterable[Sequence[Any]], at_once: int = _MOST_AT_ONCE,
                            return_exceptions: bool = False) -> AsyncIterator[Any]:
        """As starmap(), for `async for`."""
        with contextlib.closing(self._calls_of(arguments, at_once)) as calls:
            for call in calls:
                try:
                    answer: Any = await call.get_async()
                except Exception as error:
                    if not return_exceptions:
                        raise
                    answer = error
                yield answer


class AppWorkflow(Function[P, R]):
    """A workflow of an app. It is called like a function; arguments and answers are JSON."""

    def _run(self, given_up: threading.Event | None, /, *args: P.args, **kwargs: P.kwargs) -> R:
        app = self._app
        event = app_workflow.arguments_of(self._function, args, kwargs, defaults=True)
        return _calls.call_json(app.client, self.name, event, app.retry_for, given_up)  # type: ignore[no-any-return]

    def remote_gen(self, *args: P.args, **kwargs: P.kwargs) -> R:
        raise TypeError(f"{self.name} is a workflow, and answers at once: call it by remote()")

    async def remote_gen_async(self, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[Any]:
        raise TypeError(f"{self.name} is a workflow, and answers at once: await remote_async()")
        yield

    def graph(self) -> bytes:
        """The workflow.json that is deployed."""
        return app_workflow.graph_of(self.name, self._function)


def enter(method: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a method of an @app.cls class that is run once in each sandbox, before its first call: weights are loaded here."""
    method.lambent_enter = True  # type: ignore[attr-defined]
    return method


class Instance:
    """What an @app.cls class makes here: its public methods are functions (`.remote`, `.map`, ...). The object itself is made in
    each sandbox, without arguments, and once here for `.local`."""

    def __init__(self, app: App, kind: type, name: str) -> None:
        self._app, self._kind, self._name = app, kind, name
        self._made: Any = None

    def _here(self) -> Any:
        if self._made is None:
            self._made = _calls.make_instance(self._kind)
        return self._made

    def __getattr__(self, method: str) -> Function[..., Any]:
        found = getattr(self._kind, method, None)
        if method.startswith("_") or not callable(found):
            raise AttributeError(f"{self._kind.__name__} has no public method {method!r}")

        @functools.wraps(found)
        def run_here(*args: Any, **kwargs: Any) -> Any:
            return getattr(self._here(), method)(*args, **kwargs)

        signature = inspect.signature(found)
        if not isinstance(inspect.getattr_static(self._kind, method), (staticmethod, classmethod)):
            signature = signature.replace(parameters=list(signature.parameters.values())[1:])
        run_here.__signature__ = signature  # type: ignore[attr-defined]
        function: Function[..., Any] = Function(self._app, run_here, self._name, method)
        return function


class App:
    """`name`: what the names of its functions begin with. `include`: files and folders, beside the file of the app, that go with
    its code; "*.py" for all modules there. `endpoint`, `token`, `tenant` and `context` are those of lambent.client.Client. `retry_for`:
    for how many seconds a call that the worker refuses, because too much waits, is sent again when the worker says so; 0: it is not."""

    def __init__(self, name: str, include: Sequence[str] = (), endpoint: str | None = None, token: str | None = None,
                 tenant: str | None = None, context: str | None = None, retry_for: float = 600) -> None:
        if not re.fullmatch("[A-Za-z0-9_-]{1,40}", name):
            raise ValueError(f"the app's name {name!r} is no 1 to 40 letters, digits, '-' and '_'")
        self.name, self.include = name, tuple(include)
        self.retry_for = retry_for
        self.identity = {"endpoint": endpoint, "token": token, "tenant": tenant, "context": context}
        self._clients = ThreadClients(lambda: _make_client(**self.identity))
        self._module = ""  # of its functions
        self.deployments: dict[str, app_code.Deployment] = {}
        self.functions: dict[str, Any] = {}

    @property
    def client(self) -> Client:
        """This thread's."""
        return self._clients.get()  # type: ignore[no-any-return]

    @functools.cached_property
    def pool(self) -> concurrent.futures.ThreadPoolExecutor:
        """For calls in the background."""
        return concurrent.futures.ThreadPoolExecutor(_MOST_AT_ONCE, thread_name_prefix=f"lambent-{self.name}")

    def _register(self, thing: Any, settings: app_code.Settings, kind: str = "handler") -> str:
        module = thing.__module__
        if self._module not in ("", module):
            raise ValueError(f"app {self.name!r} has functions in {self._module} and in {module}: an app is one module")
        if "<locals>" in thing.__qualname__ or "." in thing.__qualname__:
            raise ValueError(f"{thing.__qualname__} is no function or class of the module itself, which the sandbox imports")
        self._module = module
        name = f"{self.name}-{thing.__name__}"
        if thing.__name__ in self.functions:
            raise ValueError(f"app {self.name!r} has two functions {thing.__name__!r}")
        self.deployments[name] = app_code.Deployment(name, thing.__name__, kind, settings)
        return name

    def function(self, **settings: Any) -> Callable[[Callable[P, R]], Function[P, R]]:
        """Makes a function one of the app. Settings are those of lambent.toml: memory="1G", gpu="2G" (its memory), timeout=60 (s),
        slo=0.2 (s), weight=1, max_concurrency=100, schedule="30 2 * * *", requirements=["numpy"], python="3.11", preload=[...], environment={"A": "1"},
        secrets={"TOKEN": "name-of-a-secret"}."""
        checked = _code.Settings.of(settings)

        def decorate(function: Callable[P, R]) -> Function[P, R]:
            name = self._register(function, checked)
            made: Function[P, R] = Function(self, function, name)
            self.functions[function.__name__] = made
            return made

        return decorate

    def cls(self, **settings: Any) -> Callable[[type], Callable[[], Instance]]:
        """Makes a class one function of the app, whose public methods are called. One object lives in each sandbox; what it loads
        in methods marked with @lambent.enter is there for every call."""
        checked = _code.Settings.of(settings)

        def decorate(kind: type) -> Callable[[], Instance]:
            name = self._register(kind, checked)
            instance = Instance(self, kind, name)
            made: Callable[[], Instance] = lambda: instance  # noqa: E731
            made.lambent_class = kind  # type: ignore[attr-defined]
            self.functions[kind.__name__] = made
            return made

        return decorate

    def http(self, **settings: Any) -> Callable[[Callable[[], R]], Callable[[], R]]:
        """Makes what the function returns an HTTP function, at /f/APP-FUNCTION/ and at its host name: an ASGI application (FastAPI,
        Starlette), served by uvicorn, which has to be among its requirements; a WSGI application (Flask, Django); or a server with
        serve_forever() that listens at 127.0.0.1, port int(os.environ["PORT"]). A function that serves there itself need not return."""
        checked = _code.Settings.of(settings)

        def decorate(function: Callable[[], R]) -> Callable[[], R]:
            if inspect.signature(function).parameters:
                raise TypeError(f"{function.__name__} is called once, without arguments, to make the web application")
            self._register(function, checked, "http")
            self.functions[function.__name__] = function
            return function

        return decorate

    asgi = http  # its name before it served other applications

    def workflow(self, **settings: Any) -> Callable[[Callable[P, R]], AppWorkflow[P, R]]:
        """Makes a function that calls functions of the app a workflow: the worker makes these calls, side by side where they do not
        depend on each other. It is run once when it is deployed, with values that stand for its arguments and for answers."""
        checked = _code.Settings.of_workflow(settings)

        def decorate(function: Callable[P, R]) -> AppWorkflow[P, R]:
            name = self._register(function, checked, "workflow")
            made: AppWorkflow[P, R] = AppWorkflow(self, function, name)
            self.functions[function.__name__] = made
            return made

        return decorate

    def graphs(self) -> dict[str, bytes]:
        """Of its workflows, by name: the workflow.json that is deployed. Raises what is wrong in them."""
        return {each.name: each.graph() for each in self.functions.values() if isinstance(each, AppWorkflow)}

    def deploy(self, tell: Callable[[str], None] | None = None) -> list[str]:
        """Deploys what has changed since the last time; the names of these functions. `tell` gets lines of progress. Raises
        LambentError, and leaves the functions that came before deployed."""
        _calls.check_may_deploy()
        if not self._module:
            raise _error(f"app {self.name!r} has no function", "FAILED_PRECONDITION")
        path = inspect.getsourcefile(sys.modules[self._module])
        if path is None or not os.path.isfile(path):
            raise _error("an app has to stand in a file, because its file is what is deployed", "FAILED_PRECONDITION")
        graphs = self.graphs()
        return [each.name for each in self.deployments.values()
                if _code.deploy(self.client, each, path, self.include, tell, graphs.get(each.name))]

    @contextlib.contextmanager
    def run(self) -> Iterator[App]:
        """Deploys, for a block of calls. The functions stay: they cost nothing while they rest."""
        self.deploy()
        yield self
