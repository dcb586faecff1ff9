"""Deadline: when an invocation has to be answered."""
import _socket
import os
import time

from .api import ApiError, RuntimeApi

ASK_SECONDS = 1.0  # that the Runtime API has for its answer
MOST_UNANSWERED = 5.0  # seconds without an answer in all, after which it is asked no more


class Deadline:
    def __init__(self, headers):
        text = headers.get("lambda-runtime-deadline-ms", "")
        self._request_id = headers.get("lambda-runtime-aws-request-id", "")
        self.moves = headers.get("lambent-runtime-deadline", "") == "moves"
        self._unanswered = 0.0  # seconds
        self.ms = int(text) if text.isdigit() else None  # since the epoch; None: it has none

    def look(self, seconds=ASK_SECONDS):
        """While its device memory is on its way, it has its whole time from the memory's arrival on: asks whether that has been.

        Waits at most `seconds` for the answer. Without one the deadline stays as it is, and may be asked for again.
        """
        if not self.moves:
            return
        try:
            self.ms, self.moves = RuntimeApi(os.environ["AWS_LAMBDA_RUNTIME_API"], seconds).deadline(self._request_id)
        except _socket.timeout:
            self._unanswered += seconds
            self.moves = self._unanswered < MOST_UNANSWERED
        except (ApiError, OSError, KeyError):
            self.moves = False

    def left(self):
        """Seconds, below zero once it is over."""
        return float("inf") if self.ms is None else self.ms / 1000 - time.time()
