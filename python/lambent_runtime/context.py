"""Context: what a handler is told about its invocation, under the names that Lambda gives."""
import json
import os
import sys
import time

from .deadline import ASK_SECONDS, Deadline

ASK_ON_LOOP = 0.1  # seconds that a coroutine waits for an answer of the Runtime API


def _on_a_loop():
    events = sys.modules.get("asyncio.events")
    return events is not None and events._get_running_loop() is not None


class ClientContext:
    """What the caller gave as ClientContext: `custom` and `env` are dictionaries, `client` has attributes of its own."""

    def __init__(self, text):
        given = json.loads(text)
        self.custom = given.get("custom")
        self.env = given.get("env")
        client = given.get("client")
        self.client = None if client is None else Client(client)


class Client:
    def __init__(self, given):
        for name in ("installation_id", "app_title", "app_version_name", "app_version_code", "app_package_name"):
            setattr(self, name, given.get(name))


class Identity:
    """Of Cognito, which there is not: the names that handlers ask for, and nothing in them."""

    cognito_identity_id = None
    cognito_identity_pool_id = None


def client_context_of(text):
    """None where there is none, or where it is not what Lambda's clients send."""
    try:
        return ClientContext(text) if text else None
    except (ValueError, AttributeError, RecursionError):
        return None


class Context:
    def __init__(self, headers):
        environment = os.environ
        self.aws_request_id = headers["lambda-runtime-aws-request-id"]
        self.invoked_function_arn = headers.get("lambda-runtime-invoked-function-arn", "")
        self.function_name = environment.get("AWS_LAMBDA_FUNCTION_NAME", "")
        self.function_version = environment.get("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST")
        self.memory_limit_in_mb = environment.get("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "")
        self.log_group_name = environment.get("AWS_LAMBDA_LOG_GROUP_NAME", "")
        self.log_stream_name = environment.get("AWS_LAMBDA_LOG_STREAM_NAME", "")
        self.identity = Identity()
        self.tenant_id = None
        self.client_context = client_context_of(headers.get("lambda-runtime-client-context", ""))
        self._deadline = Deadline(headers)

    def get_remaining_time_in_millis(self):
        # Other coroutines wait meanwhile.
        self._deadline.look(ASK_ON_LOOP if _on_a_loop() else ASK_SECONDS)
        return max(0, (self._deadline.ms or 0) - int(time.time() * 1000))

    def log(self, message):
        sys.stdout.write("%s\n" % message)
