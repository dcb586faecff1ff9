"""Lambent on the nodes of a Ray cluster: one worker for each, joined to one cluster. Needs ray (pip install lambent[ray]).

    import ray, lambent.ray
    ray.init(address="auto")
    lambent.ray.start(key="/etc/lambent/cluster.key")
    square = lambent.ray.function("square")
    ray.get(square.remote(ray.put({"x": 3})))
    scale = lambent.ray.function("scale")          # a kernel function
    y = scale.remote(x=ray.put(array), outputs="y")  # an ObjectRef of an array

Ray says which nodes there are, reserves their GPUs, and hands references on. Requests never pass through it, and the workers do
not end with it.
"""
import json
import os
import re
import shutil
import subprocess
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple, Union

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from .client import Client, ObjectRef
from .errors import LambentError, error_of
from .http_objects import connect
from .tensor import Tensor, tensor_of

NAMESPACE = "lambent"
LEASE = 5.0  # seconds for which a worker takes our word for who the others are
_PERIOD = 1.0
_TO_SAY_WHY = 10.0  # seconds that start() waits longer than its agents
_CALLS = 64  # of an agent at once
_MEMBERS = "lambent-members"
_SCHEME = "lambent://"
_OBJECT = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}[.][0-9]{1,10}", re.IGNORECASE)


def _agent_name(node_id: str) -> str:
    return "lambent-agent-" + node_id


def _request(endpoint: str, method: str, path: str, body: Optional[str] = None, timeout: float = 5.0) -> Any:
    """The JSON of an answer; LambentError otherwise."""
    connection = connect(endpoint)
    connection.timeout = timeout
    try:
        connection.request(method, path, body)
        answer = connection.getresponse()
        content = answer.read()
    finally:
        connection.close()
    if answer.status >= 300:
        raise error_of("UNKNOWN", "%s %s: HTTP %d %s" % (method, path, answer.status, content[:300].decode("utf-8", "replace")))
    return json.loads(content)


def _tail_of(path: str, most: int = 2000) -> str:
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.path.getsize(path) - most))
            return file.read().decode("utf-8", "replace")
    except OSError as error:
        return str(error)


class Handle:
    """A tensor that stays with the Lambent node that made it, "lambent://ID" as text. Functions take it without a copy through Ray;
    get() and remote() bring it, from whatever node has it. It lives for its time to live, an hour unless said, and is no
    reference that Ray counts: remove() ends it."""

    def __init__(self, name: str) -> None:
        name = str(name).removeprefix(_SCHEME)
        if not _OBJECT.fullmatch(name):
            raise error_of("INVALID_ARGUMENT", "%r names no object: lambent:// and its id are expected" % name)
        self.id = name

    def __repr__(self) -> str:
        return _SCHEME + self.id

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Handle) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    def remote(self) -> Any:
        """A Ray ObjectRef of its array, or bytes."""
        return _agent_here().fetch.remote(self.id)

    def get(self, timeout: Optional[float] = None) -> Any:
        return _answer_of(self.remote(), timeout)

    def remove(self) -> None:
        _answer_of(_agent_here().remove.remote(self.id))


class _Hole:
    """Where a reference stood in a payload; Ray brings its value beside it."""

    def __init__(self, number: int) -> None:
        self.number = number


def _map(value: Any, change: Callable[[Any], Any]) -> Any:
    """`value` with each leaf, and each dict that `change` knows, replaced."""
    changed = change(value)
    if changed is not value:
        return changed
    if isinstance(value, dict):
        return {key: _map(each, change) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_map(each, change) for each in value]
    return value


def _without_references(payload: Any) -> Tuple[Any, List[Any]]:
    """(payload, references): Ray waits for what stands at the top of a call only, so all references go there."""
    references: List[Any] = []

    def change(value: Any) -> Any:
        if not isinstance(value, ray.ObjectRef):
            return value
        references.append(value)
        return _Hole(len(references) - 1)
    return _map(payload, change), references


def _is_tensor(value: Any) -> bool:
    return isinstance(value, (bytes, bytearray, memoryview, Tensor)) or (
        hasattr(value, "__array_interface__") and bool(getattr(value, "shape", None)))


def _value_of(tensor: Tensor) -> Any:
    """What Ray's tasks get: an array over the same memory, or bytes."""
    return bytes(tensor) if tensor.datatype == "BYTES" else tensor.numpy()


class _Members:
    """What the agents know of their workers. Its loss is none: they tell it again."""

    def __init__(self) -> None:
        self._known: Dict[str, Dict[str, Any]] = {}
        self._home = ""

    def tell(self, node_id: str, member: Dict[str, Any], home: str) -> Dict[str, Any]:
        """One agent's worker; all that are on nodes that live, and the home among them."""
        self._known[node_id] = member
        alive = {node["NodeID"] for node in ray.nodes() if node["Alive"]}
        self._known = {each: known for each, known in self._known.items() if each in alive}
        names = {known["node"] for known in self._known.values()}
        # It never moves by itself: two nodes that take changes of the catalog would be two catalogs.
        if not self._home:
            self._home = home or member["node"]
        return {"home": self._home if self._home in names else "", "members": list(self._known.values()),
                "wanted_home": self._home}


class _Agent:
    """Of one node: it finds or starts the node's worker, tells it who the others are, and hands it calls of Ray tasks."""

    def __init__(self, node_id: str, options: Dict[str, Any], members: Any) -> None:
        self._options, self._node_id, self._members = options, node_id, members
        self._local, self._stop, self._error = threading.local(), threading.Event(), ""
        self._kinds: Dict[str, str] = {}  # of functions, by name
        fields = {"node": node_id[:12]}
        self._endpoint = "unix:" + options["socket"].format(**fields)
        self._ensure_worker(fields)
        self._tell(options["timeout"])  # what knows the members may yet be started
        threading.Thread(target=self._beat, daemon=True).start()

    def _answers(self) -> Optional[Dict[str, Any]]:
        try:
            status: Dict[str, Any] = _request(self._endpoint, "GET", "/v1/cluster")
            return status
        except (OSError, LambentError, ValueError) as error:
            self._error = str(error)
            return None

    def _ensure_worker(self, fields: Dict[str, str]) -> None:
        if self._answers():
            return
        command = self._options["serve"]
        if not command:
            raise error_of("FAILED_PRECONDITION", "no worker of a cluster answers at %s (%s), and none is to be started: start it "
                           "with --cluster-key, or give `serve`" % (self._endpoint, self._error))
        words = [word.format(**fields) for word in command]
        if "--socket" not in words:
            words += ["--socket", self._endpoint[5:]]
        log = self._options["log"].format(**fields)
        os.makedirs(os.path.dirname(os.path.abspath(log)), exist_ok=True)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        # A session of its own, and no child of ours: Ray ends the children of its workers.
        with open(log, "ab") as output:
            subprocess.run(["setsid", "--fork", *words], stdin=subprocess.DEVNULL, stdout=output, stderr=output, check=True,
                           env=environment)
        deadline = time.monotonic() + self._options["timeout"]
        while not self._answers():
            if time.monotonic() > deadline:
                raise error_of("DEADLINE_EXCEEDED", "the worker did not start (%s); the end of its log %s:\n%s" %
                               (self._error, log, _tail_of(log)))
            time.sleep(0.1)

    def _member(self, status: Dict[str, Any]) -> Dict[str, Any]:
        address = self._options["address"].get(self._node_id) or self._own_address()
        own = next(each for each in status["members"] if each["self"])
        return {"node": status["self"], "address": address,
                "gpus": [{"name": gpu["name"], "memory_bytes": gpu["memory_bytes"]} for gpu in own["gpus"]]}

    def _own_address(self) -> str:
        """Where the worker listens, as it wrote beside its socket."""
        path = os.path.join(os.path.dirname(self._endpoint[5:]), "endpoint")
        with open(path) as file:
            address = file.read().strip()
        if not address.startswith("http"):
            raise error_of("FAILED_PRECONDITION", "the worker listens on no TCP address: start it with --listen")
        for every in ("//0.0.0.0:", "//[::]:"):
            address = address.replace(every, "//%s:" % ray.util.get_node_ip_address())
        return address

    def _tell(self, timeout: float = LEASE) -> None:
        status = _request(self._endpoint, "GET", "/v1/cluster")
        told = ray.get(self._members.tell.remote(self._node_id, self._member(status), status["home"]), timeout=timeout)
        if not told["home"]:
            # Its node is gone: who was told of it before still is, and says so where the catalog is to be changed.
            return
        _request(self._endpoint, "PUT", "/v1/cluster/members",
                 json.dumps({"source": "ray", "home": told["home"], "lease_seconds": LEASE, "members": told["members"]}))

    def _beat(self) -> None:
        while not self._stop.wait(_PERIOD):
            try:
                self._tell()
                self._error = ""
            except Exception as error:  # whatever it is, the worker goes on and the next beat may do better
                self._error = str(error)

    def status(self) -> Any:
        return {"node_id": self._node_id, "endpoint": self._endpoint, "error": self._error,
                "gpus": ray.get_gpu_ids(), "pid": os.getpid(), "cluster": self._answers()}

    def _client(self) -> Client:
        """This thread's, over the worker's object socket where that can be reached: then a put copies once and a get not at all."""
        if not hasattr(self._local, "client"):
            self._local.client = Client(self._endpoint)
        client: Client = self._local.client
        return client

    def _with_worker(self, call: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return call(self._client(), *arguments)
        except OSError as error:
            self._local.__dict__.pop("client", None)
            raise error_of("UNAVAILABLE", "the worker at %s was lost: %s" % (self._endpoint, error)) from None

    def invoke(self, function: str, payload: Any, handles: bool, *values: Any) -> Any:
        """Ray has put values in place of references: where the payload has a _Hole."""
        return self._with_worker(self._invoke, function, payload, handles, values)

    def run_kernels(self, function: str, outputs: Sequence[str], handles: bool, names: Sequence[str], *values: Any) -> Any:
        """A kernel function: one result for each of `outputs`. Each input is copied once, from Ray's memory to the worker's."""
        return self._with_worker(self._run_kernels, function, outputs, handles, names, values)

    def fetch(self, name: str) -> Any:
        return self._with_worker(lambda client: _value_of(client.get(name)))

    def remove(self, name: str) -> None:
        self._with_worker(lambda client: client.remove(name))

    def _invoke(self, client: Client, function: str, payload: Any, handles: bool, values: Any) -> Any:
        payload = _map(payload, lambda value: values[value.number] if isinstance(value, _Hole) else value)
        own: List[ObjectRef] = []
        needs: List[str] = []

        def change(value: Any) -> Any:
            if _is_tensor(value):
                value = client.put(tensor_of(value))
                own.append(value)
            elif not isinstance(value, Handle):
                return value
            needs.append(value.id)
            return {"object": value.id}
        try:
            if isinstance(payload, (bytes, bytearray, memoryview)):
                body = bytes(payload)
            else:
                body = json.dumps(_map(payload, change)).encode()
            answer = client.invoke(function, body, needs)
            try:
                answer = json.loads(answer)
            except ValueError:
                return answer
            return self._opened(client, function, answer, handles, set(needs))
        finally:
            client.release(own)

    def _opened(self, client: Client, function: str, answer: Any, handles: bool, given: Set[str]) -> Any:
        """The answer of a workflow has arrays, or handles, where it names objects. Those that it made are removed with that, also where
        some cannot be got; those that it was given are their owner's."""
        named: Dict[str, Any] = {}  # values of objects, by name

        def find(value: Any) -> Any:
            if isinstance(value, dict) and _OBJECT.fullmatch(str(value.get("object", ""))):
                named[value["object"]] = None
            return value

        _map(answer, find)
        if not named or not self._is_workflow(client, function):
            return answer
        try:
            for name in named:
                named[name] = Handle(name) if handles else _value_of(client.get(name))
        finally:
            if not handles:
                client.release(ObjectRef(client, name) for name in named if name not in given)
        return _map(answer, lambda value: named.get(str(value.get("object", "")), value) if isinstance(value, dict) else value)

    def _is_workflow(self, client: Client, function: str) -> bool:
        if function not in self._kinds:
            self._kinds[function] = client.kind_of(function)
        return self._kinds[function] == "workflow"

    def _run_kernels(self, client: Client, function: str, outputs: Sequence[str], handles: bool, names: Sequence[str], values: Any) -> Any:
        own: List[ObjectRef] = []
        try:
            inputs: List[Dict[str, Any]] = []
            for name, value in zip(names, values):
                if not isinstance(value, Handle):
                    value = client.put(tensor_of(value))
                    own.append(value)
                inputs.append({"name": name, "parameters": {"object": value.id}})
            request = {"inputs": inputs, "outputs": [{"name": name, "parameters": {"object": True}} for name in outputs]}
            answer = json.loads(client.invoke(function, json.dumps(request), [each["parameters"]["object"] for each in inputs]))
            of_name = {each["name"]: each["parameters"]["object"] for each in answer["outputs"]}
            made = [of_name[name] for name in outputs]
            if handles:
                results = [Handle(each) for each in made]
            else:
                own += [ObjectRef(client, each) for each in made]
                results = [_value_of(client.get(each)) for each in made]
        finally:
            client.release(own)
        return results[0] if len(results) == 1 else results


class Cluster:
    """The agents of start(): handles by node id."""

    def __init__(self, agents: Dict[str, Any]) -> None:
        self.agents = agents

    def status(self) -> Any:
        return ray.get([agent.status.remote() for agent in self.agents.values()])

    def wait_until_up(self, timeout: float = 30.0) -> "Cluster":
        """Until every worker has heard from every other."""
        deadline = time.monotonic() + timeout
        while True:
            states = [[member["state"] for member in (each["cluster"] or {"members": []})["members"]] for each in self.status()]
            if all(len(each) >= len(self.agents) and set(each) == {"up"} for each in states):
                return self
            if time.monotonic() > deadline:
                raise error_of("DEADLINE_EXCEEDED", "the nodes did not hear from each other: %s" % self.status())
            time.sleep(0.2)

    def stop(self) -> None:
        """Ends the agents, which gives Ray its GPUs back. The workers go on."""
        for agent in self.agents.values():
            ray.kill(agent)
        _agents.clear()


def _usual_command(key: str, state: str) -> List[str]:
    program = shutil.which("lambent")
    if program is None:
        raise error_of("NOT_FOUND", "there is no command `lambent`: install it, or give `serve`")
    return [program, "serve", "--cluster-key", key, "--node-name", "ray-{node}", "--state", state + "/{node}",
            "--run", state + "/{node}/run"]


def start(key: str = "/etc/lambent/cluster.key", *, state: str = "/var/lib/lambent/ray", socket: Optional[str] = None,
          serve: Optional[Sequence[str]] = None, address: Optional[Dict[str, str]] = None, reserve_gpus: bool = True,
          timeout: float = 60.0) -> Cluster:
    """Starts an agent on each node of the Ray cluster, which finds that node's worker at `socket` (a path) or starts it by
    `serve` (words). In both "{node}" stands for the beginning of the node's id. `address`: URLs of workers by node id, where
    they do not tell themselves what others reach them by. Agents are detached: they outlive this driver. Call it again after
    nodes came; what runs stays. A node's GPUs are reserved from Ray, so that its tasks do not collide with ours; RuntimeError
    some seconds after `timeout` if tasks of Ray have them."""
    if not ray.is_initialized():
        ray.init(address="auto", namespace=NAMESPACE)
    options = {"socket": socket or state + "/{node}/run/lambent.sock", "log": state + "/{node}/worker.log",
               "serve": serve if serve is not None else _usual_command(key, state), "address": dict(address or {}),
               "timeout": timeout}
    members = ray.remote(_Members).options(name=_MEMBERS, namespace=NAMESPACE, lifetime="detached", get_if_exists=True, num_cpus=0,
                                           max_restarts=-1).remote()
    agents = {}
    for node in ray.nodes():
        if not node["Alive"]:
            continue
        node_id = node["NodeID"]
        agents[node_id] = ray.remote(_Agent).options(
            name=_agent_name(node_id), namespace=NAMESPACE, lifetime="detached", get_if_exists=True, num_cpus=0,
            num_gpus=node["Resources"].get("GPU", 0) if reserve_gpus else 0, max_restarts=-1, max_task_retries=0,
            max_concurrency=_CALLS,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node_id, soft=False)).remote(node_id, options, members)
    for node_id, agent in agents.items():
        try:
            # An agent whose worker does not start in time says why, for which it has to be heard.
            ray.get(agent.status.remote(), timeout=timeout + _TO_SAY_WHY)
        except ray.exceptions.GetTimeoutError:
            raise RuntimeError("the agent of node %s did not start in %g s: other tasks of Ray have its GPUs, or its worker does "
                               "not start" % (node_id, timeout)) from None
    return Cluster(agents)


class Function:
    """A function of the Lambent cluster, for Ray's tasks."""

    def __init__(self, name: str) -> None:
        self.name = name

    def remote(self, payload: Any = None, *, outputs: Union[str, Sequence[str]] = (), handles: bool = False, **inputs: Any) -> Any:
        """A Ray ObjectRef of its answer: JSON as a value, else bytes. `payload` is JSON, bytes or an ObjectRef of either; references,
        arrays (numpy) and Handles may stand anywhere in it. Arrays become objects of Lambent ({"object": id}) for the time of the
        call, and objects in the answer of a workflow become arrays.

        A kernel function gets its `inputs` by keyword, each an array, an ObjectRef of one, or a Handle; `outputs` names the buffers
        that come back: an ObjectRef for one, a list for more. With `handles` tensors stay where they were made, and Handles come back.

        References are waited for by Ray, not here. What fails raises ray.exceptions.RayTaskError, which is a LambentError too; when
        the node is lost meanwhile, RayActorError. It runs at most once."""
        if inputs or outputs:
            if payload is not None or not outputs:
                raise TypeError("one payload; or, for a kernel function, inputs by keyword and the names of its outputs")
            names = (outputs,) if isinstance(outputs, str) else tuple(outputs)
            made = _agent_here().run_kernels.options(num_returns=len(names)).remote(self.name, names, handles, list(inputs),
                                                                                    *inputs.values())
            return made
        payload, references = _without_references(payload)
        return _agent_here().invoke.remote(self.name, payload, handles, *references)


_agents: Dict[Tuple[str, str], Tuple[Any, float]] = {}  # of nodes, and since when they are known


def _agent_here() -> Any:
    """This node's. Other drivers may have stopped and started it, so that it is known for a while only."""
    node_id = ray.get_runtime_context().get_node_id()
    key = (ray.get_runtime_context().gcs_address, node_id)
    agent, since = _agents.get(key, (None, 0.0))
    if agent is None or time.monotonic() - since > _PERIOD:
        try:
            agent = ray.get_actor(_agent_name(node_id), namespace=NAMESPACE)
        except ValueError:
            _agents.pop(key, None)
            raise error_of("FAILED_PRECONDITION", "there is no agent of Lambent on this node: lambent.ray.start()") from None
        _agents[key] = (agent, time.monotonic())
    return agent


def _answer_of(made: Any, timeout: Optional[float] = None) -> Any:
    """Of an agent's call; one that died is not asked again."""
    try:
        return ray.get(made, timeout=timeout)
    except ray.exceptions.RayActorError:
        _agents.clear()
        raise


def function(name: str) -> Function:
    """A Function that has been deployed, by `lambent deploy` at any node."""
    return Function(name)
