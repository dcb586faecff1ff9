"""ThreadClients: a client for each thread that asks, whose connections end with the thread. Any thread."""
from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class _Held:
    """A client in its thread's own storage, which Python drops when the thread ends."""

    def __init__(self, client: Any) -> None:
        self.client = client

    def __del__(self) -> None:
        self.client.close()  # who still has the client connects again by using it


class ThreadClients:
    def __init__(self, make: Callable[[], Any]) -> None:
        self._make, self._own = make, threading.local()

    def get(self) -> Any:
        """This thread's."""
        if not hasattr(self._own, "held"):
            self._own.held = _Held(self._make())
        return self._own.held.client

    def close(self) -> None:
        """Ends this thread's connections. The next get() makes another client."""
        self._own.__dict__.pop("held", None)
