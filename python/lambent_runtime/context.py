"""Context: what a handler is told about its invocation, under the names that Lambda gives."""
import os
import time


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
        self.identity = None
        self.client_context = None
        deadline = headers.get("lambda-runtime-deadline-ms", "")
        self._deadline_ms = int(deadline) if deadline.isdigit() else 0

    def get_remaining_time_in_millis(self):
        return max(0, self._deadline_ms - int(time.time() * 1000))
