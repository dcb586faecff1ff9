"""Machines for Ray's autoscaler, each a set of namespaces of this one: a network with a cable to one switch, a name, processes and shared
memory of its own. One that is taken away ends with all its processes, as a machine of a cloud does. Ray's monitor loads this by the
configuration ("external" provider); it needs root."""
import os
import signal
import subprocess
import sys
from threading import RLock

from ray.autoscaler.node_provider import NodeProvider
from ray.autoscaler.tags import (NODE_KIND_HEAD, NODE_KIND_WORKER, STATUS_UP_TO_DATE, TAG_RAY_NODE_KIND, TAG_RAY_NODE_NAME,
                                 TAG_RAY_NODE_STATUS, TAG_RAY_USER_NODE_TYPE)

# As the first process of the machine: its name, its own shared memory, and none of Ray's files of others.
BOOT = """
echo "$1" >/proc/sys/kernel/hostname || exit 1
mount -t tmpfs tmpfs /dev/shm && mkdir -p "$2" && mount -t tmpfs tmpfs "$2" || exit 1
shift 2
"$@" &
wait $!
"""


class MachineProvider(NodeProvider):
    """`machines` of its configuration: by name, the address and the process that holds the network of each; the first is the head."""

    def __init__(self, provider_config, cluster_name):
        super().__init__(provider_config, cluster_name)
        self._lock, self._running = RLock(), {}
        (self._head, self._head_of), *rest = provider_config["machines"].items()
        self._machines = dict(rest)
        self._tags = {self._head: self._tags_of(self._head, NODE_KIND_HEAD, "ray.head.default")}

    @staticmethod
    def _tags_of(name, kind, node_type):
        return {TAG_RAY_NODE_KIND: kind, TAG_RAY_USER_NODE_TYPE: node_type, TAG_RAY_NODE_NAME: name, TAG_RAY_NODE_STATUS: STATUS_UP_TO_DATE}

    def non_terminated_nodes(self, tag_filters):
        with self._lock:
            for name in [name for name, process in self._running.items() if process.poll() is not None]:
                del self._running[name], self._tags[name]
            return [name for name, tags in self._tags.items() if tag_filters.items() <= tags.items()]

    def is_running(self, node_id):
        return node_id in self._tags

    def is_terminated(self, node_id):
        return node_id not in self._tags

    def node_tags(self, node_id):
        return self._tags[node_id]

    def set_node_tags(self, node_id, tags):
        with self._lock:
            self._tags[node_id].update(tags)

    def internal_ip(self, node_id):
        return (self._head_of if node_id == self._head else self._machines[node_id])["ip"]

    external_ip = internal_ip

    def create_node(self, node_config, tags, count):
        raise NotImplementedError("Ray gives resources")

    def create_node_with_resources_and_labels(self, node_config, tags, count, resources, labels):
        with self._lock:
            for name in [name for name in self._machines if name not in self._tags][:count]:
                self._tags[name] = {**self._tags_of(name, NODE_KIND_WORKER, tags[TAG_RAY_USER_NODE_TYPE]), **tags}
                self._running[name] = self._boot(name, resources)

    def _boot(self, name, resources):
        machine, folder = self._machines[name], self.provider_config["folder"]
        ray = [sys.executable, "-c", "from ray.scripts.scripts import main; main()", "start", "--block",
               f"--address={self.provider_config['gcs_address']}", f"--node-ip-address={machine['ip']}",
               f"--num-cpus={int(resources['CPU'])}", f"--num-gpus={int(resources['GPU'])}", f"--object-store-memory={80 << 20}"]
        words = ["nsenter", f"--net=/proc/{machine['pid']}/ns/net", "unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child",
                 "--mount-proc", "sh", "-c", BOOT, "sh", name, folder + "/ray", *ray]
        # Not what the head's own processes were told.
        environment = {key: value for key, value in os.environ.items() if key not in ("RAY_JOB_ID", "RAY_RAYLET_PID", "RAY_NODE_ID")}
        with open(f"{folder}/{name}.log", "ab") as log:
            return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, start_new_session=True)

    def terminate_node(self, node_id):
        with self._lock:
            process = self._running.pop(node_id, None)
            self._tags.pop(node_id, None)
        if process is None:
            return  # it ended by itself
        process.send_signal(signal.SIGKILL)  # its namespace of processes ends with it
        process.wait()
