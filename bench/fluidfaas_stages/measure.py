"""Run by a Python that has PyTorch: what each network takes on one processor of this machine, and the right answers, as JSON."""
import json
import statistics
import sys
import time

import networks
import torch

PICTURES = int(sys.argv[1])

with torch.inference_mode():
    told, models = {}, {name: networks.make(name) for name in networks.NETWORKS}
    for name, model in models.items():
        value, taken = networks.picture(0), []
        for _ in range(12):
            begin = time.perf_counter()
            output = model(value)
            taken.append(time.perf_counter() - begin)
        told[name] = {"ms": round(1e3 * statistics.median(taken[2:]), 3), "output_bytes": output.numel() * 4,
                      "parameters": sum(one.numel() for one in model.parameters())}
    answers = {}
    for application, parts in networks.APPLICATIONS.items():
        answers[application] = []
        for number in range(PICTURES):
            value = networks.picture(number)
            for part in parts:
                value = models[part](value)
            answers[application].append(networks.answer_of(value))
print(json.dumps({"torch": torch.__version__, "networks": told, "answers": answers}))
