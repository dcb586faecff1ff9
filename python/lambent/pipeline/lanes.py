"""What lambent.pipeline.stage_processes was called in the version before. Importing it warns; the next version does not have it."""
import warnings

from .stage_processes import LocalStageProcesses as LocalLanes
from .stage_processes import load_app, needs_events
from .stage_processes import parse_stage_processes as parse_lanes
from .stage_processes import stage_process_descriptions as lane_descriptions

__all__ = ["LocalLanes", "lane_descriptions", "load_app", "needs_events", "parse_lanes"]

warnings.warn("lambent.pipeline.lanes is called lambent.pipeline.stage_processes now, and LocalLanes LocalStageProcesses",
              DeprecationWarning, stacklevel=2)
