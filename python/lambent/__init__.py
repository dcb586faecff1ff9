"""Lambent from Python: `lambent.client` speaks to a worker, `lambent.objects` is for handlers, `lambent.kernels` builds
kernel functions, `lambent.workflow` workflows, `lambent.pipeline` functions that are cut into stages. `lambent.App` deploys functions of a
Python file. Standard library only, but `lambent.ray`, which joins the nodes of a Ray cluster."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .app import App as App
    from .app import enter as enter


def __getattr__(name: str) -> Any:
    # Loaded when it is used: handlers import this package too.
    if name in ("App", "enter"):
        from . import app

        return getattr(app, name)
    raise AttributeError("module 'lambent' has no attribute %r" % name)
