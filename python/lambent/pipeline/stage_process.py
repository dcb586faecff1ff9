"""python3 -m lambent.pipeline.stage_process: one stage process without a worker. Jobs come as lines of JSON on the standard input, answers go to what
was the standard output, where the components' own prints do not go."""
import json
import os
import sys
from typing import Any, Dict

from .stage_processes import load_app
from .overlap import Overlap
from .stage import Stage, load


def main() -> int:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    # A component that calls exit() closes what it knows as standard input, which would wait for the next job.
    jobs = os.fdopen(os.dup(0), encoding="utf-8")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)

    def answer(document: Dict[str, Any]) -> None:
        answers.write(json.dumps(document) + "\n")
        answers.flush()

    try:
        description, handler = load(os.environ["LAMBENT_STAGE"])
        stage = Stage(description, load_app(handler, os.environ["LAMBDA_TASK_ROOT"])()).open()
    except Exception as error:
        component = getattr(error, "lambent_component", None)
        answer({"error": "%s%s: %s" % ("component '%s': " % component if component else "", type(error).__name__, error)})
        return 1
    answer({"ready": description["stage_process"]})

    def take() -> Any:
        line = jobs.readline()
        return (None, lambda: stage.begin(json.loads(line))) if line else None

    def answer_one(_: None, outcome: Any) -> None:
        answer({"error": "%s: %s" % (type(outcome).__name__, outcome)} if isinstance(outcome, Exception) else outcome)

    Overlap(stage, take, answer_one, stage.in_flight).serve()
    stage.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
