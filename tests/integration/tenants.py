"""What the tests of tenants and tokens stand on: a worker that wants tokens, and callers with one. Standard library only."""
import json
import pathlib
import shutil
import tempfile

from harness import HttpError, Worker, exchange, http_over_unix

EVERYTHING = ("deploy", "invoke", "read")


class Caller:
    """A worker as one who sends this token sees it, with the calls of Worker."""

    def __init__(self, worker, token=None, tenant=None):
        self.worker, self.token, self.tenant = worker, token, tenant

    def request(self, method, path, body=None, headers=None, timeout=60):
        own = {"Authorization": f"Bearer {self.token}"} if self.token is not None else {}
        if self.tenant is not None:
            own["X-Lambent-Tenant"] = self.tenant
        return self.worker.request(method, path, body, {**own, **(headers or {})}, timeout)

    create, create_python, invoke, delete = Worker.create, Worker.create_python, Worker.invoke, Worker.delete
    sandboxes, metrics = Worker.sandboxes, Worker.metrics

    def status_of(self, method, path, body=None, headers=None):
        """(status, text) of an answer, whatever it is."""
        try:
            reply = self.request(method, path, body, headers)
        except HttpError as error:
            return error.status, error.body.decode()
        return reply.status, reply.body.decode()


class Operator(Caller):
    """Root, over the worker's Unix socket, without a token."""

    def __init__(self, worker, path):
        super().__init__(worker)
        self.path = str(path)

    def request(self, method, path, body=None, headers=None, timeout=60):
        return exchange(http_over_unix(self.path, timeout), method, path, body, headers)

    def create_tenant(self, name, weight=1, **quotas):
        return self.request("POST", "/v1/tenants", json.dumps({"name": name, "weight": weight, "quotas": quotas})).json

    def change_tenant(self, name, **quotas):
        return self.request("PATCH", f"/v1/tenants/{name}", json.dumps({"quotas": quotas})).json

    def create_token(self, tenant, name="test", scopes=EVERYTHING, lifetime=None):
        body = {"name": name, "scopes": list(scopes)}
        if lifetime is not None:
            body["lifetime_seconds"] = lifetime
        return self.request("POST", f"/v1/tenants/{tenant}/tokens", json.dumps(body)).json

    def caller(self, tenant, scopes=EVERYTHING, **options):
        return Caller(self.worker, self.create_token(tenant, scopes=scopes, **options)["secret"])


class TokenWorker:
    """A worker with --auth tokens, and its operator; folders are its own and go with close()."""

    def __init__(self, *flags, gpu="emulated:tiny"):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lambent-tenants-"))
        self.socket = self.folder / "api.sock"
        try:
            self.worker = Worker("--auth", "tokens", "--socket", str(self.socket), *flags, gpu=gpu, folder=self.folder)
        except BaseException:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise
        self.operator = Operator(self.worker, self.socket)
        self.audit_log = self.folder / "state/audit.log"

    def close(self):
        self.worker.close()
        shutil.rmtree(self.folder, ignore_errors=True)
