"""Deadline: when an invocation has to be answered."""
import os
import time

from .api import ApiError, RuntimeApi


class Deadline:
    def __init__(self, headers):
        text = headers.get("lambda-runtime-deadline-ms", "")
        self._request_id = headers.get("lambda-runtime-aws-request-id", "")
        self._moves = headers.get("lambent-runtime-deadline", "") == "moves"
        self.ms = int(text) if text.isdigit() else None  # since the epoch; None: it has none

    def look(self):
        """While its device memory is on its way, it has its whole time from the memory's arrival on: asks whether that has been.

        False: nothing new is to be known.
        """
        if not self._moves:
            return False
        try:
            self.ms, self._moves = RuntimeApi(os.environ["AWS_LAMBDA_RUNTIME_API"]).deadline(self._request_id)
        except (ApiError, OSError, KeyError):
            self._moves = False
        return True

    def left(self):
        """Seconds, below zero once it is over."""
        return float("inf") if self.ms is None else self.ms / 1000 - time.time()
