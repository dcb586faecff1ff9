#!/usr/bin/env python3
"""build.py FOLDER [--runtime shared|own] [--domain NAME] [--prefix TEXT] [--kernels FOLDER] [WORKFLOW...]: the StreamBox paper's three
workflows with every network a handler in a sandbox: packages in FOLDER/WORKFLOW, each for one `lambent deploy`."""
import argparse
import json
import os
import shutil

HERE = os.path.dirname(os.path.abspath(__file__))
# Of each network: milliseconds alone on a V100, the share of its multiprocessors that it fills, bytes of weights and of what it
# computes with, as example 11 and `./dev bench paper-streambox` have them.
NETWORKS = {
    "ssd300": (13.2, 0.90, 105_100_000, 112_700_000), "resnet50": (4, 0.43, 127_700_000, 45_300_000),
    "vgg16": (11.9, 0.50, 553_400_000, 60_300_000), "alexnet": (3.4, 0.10, 244_400_000, 2_300_000),
    "densenet121": (7.2, 0.21, 32_000_000, 88_600_000), "vdsr": (12.7, 1, 2_700_000, 244_100_000),
    "translate": (5.3, 0.16, 252_500_000, 17_200_000), "post_kind": (6.8, 0.69, 455_500_000, 14_900_000)}
BLOCKS = 80 * 16  # of 128 threads, that a V100 runs at once
PICTURE, MOST_OBJECTS = [3, 224, 224], 12
CLASSES = {"probabilities": {"shape": [1000], "to": "client"}}


def to_network(*shape):
    return {"shape": list(shape), "to": "network"}


# Of each workflow: its components in order, (name, network, input, outputs, more of the component).
WORKFLOWS = {
    "image": [
        ("face", "vgg16", {"image": "$input.image"}, {**CLASSES, "picture": to_network(*PICTURE)}, {}),
        ("enhance", "vdsr", {"image": "$face.picture"}, {"image_out": {"shape": PICTURE, "to": "object"}}, {})],
    "traffic": [
        ("detect", "ssd300", {"image": "$input.frame", "reads": "$input.reads"},
         {"cars": to_network(MOST_OBJECTS, *PICTURE), "people": to_network(MOST_OBJECTS, *PICTURE)}, {}),
        ("cars", "resnet50", {"image": "$detect.cars"}, CLASSES, {"for_each": "$input.cars"}),
        ("plates", "alexnet", {"image": "$detect.cars"}, CLASSES, {"for_each": "$input.cars"}),
        ("people", "vgg16", {"image": "$detect.people"}, CLASSES, {"for_each": "$input.people"})],
    "social": [
        ("translate", "translate", {"tokens": "$input.tokens"}, {"translated": to_network(32)}, {}),
        ("text", "post_kind", {"tokens": "$translate.translated"}, {"answer": {"shape": [2], "to": "client"}}, {}),
        ("picture", "densenet121", {"image": "$input.image"}, CLASSES, {}),
        ("other", "alexnet", {"image": "$input.image"}, CLASSES, {})]}
OUTPUT = {"image": {"face": "$face.probabilities", "image": "$enhance.image_out"},
          "traffic": {"cars": "$cars", "plates": "$plates", "people": "$people"},
          "social": {"text": "$text.answer", "picture": "$picture.probabilities", "other": "$other.probabilities"}}


def toml(value):
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {toml(each)}" for key, each in value.items()) + "}"
    return json.dumps(value)


def write_network(folder, options, name, network, inputs, outputs):
    milliseconds, fills, weights, workspace = NETWORKS[network]
    os.makedirs(folder)
    shutil.copy(os.path.join(HERE, "network.py"), folder)
    handed = sum(4 * size_of(output["shape"]) for output in outputs.values())
    with open(os.path.join(folder, "network.json"), "w", encoding="utf-8") as file:
        json.dump({"name": network, "nanoseconds": round(milliseconds * 1e6), "blocks": max(1, round(fills * BLOCKS)),
                   "weights_bytes": weights, "workspace_bytes": workspace, "inputs": sorted(inputs), "outputs": outputs}, file)
    kernels = options.kernels or os.path.relpath(os.path.join(options.folder, "../../share/lambent/kernels"), folder)
    # For what lies around until another network has taken it, too.
    memory = (weights + workspace + 4 * handed >> 20) + 64
    lines = [f'name = "{options.prefix}{name}"', 'runtime = "python3"', 'handler = "network.handler"', "timeout_s = 60",
             'memory = "512M"', f"max_concurrency = {options.instances}", f'bundles = ["{os.path.join(kernels, "occupy")}"]', "", "[gpu]",
             f'memory = "{memory}M"', f'runtime = "{options.runtime}"', 'launch_mode = "model"']
    if options.runtime == "shared" and options.domain:
        lines.append(f'domain = "{options.domain}"')
    with open(os.path.join(folder, "lambent.toml"), "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


def size_of(shape):
    count = 1
    for extent in shape:
        count *= extent
    return count


def write_workflow(options, workflow):
    folder = os.path.join(options.folder, workflow)
    shutil.rmtree(folder, ignore_errors=True)
    lines = [f'name = "{options.prefix}{workflow}"', 'kind = "workflow"', "timeout_s = 60", f"output = {toml(OUTPUT[workflow])}"]
    for name, network, inputs, outputs, more in WORKFLOWS[workflow]:
        write_network(os.path.join(folder, network), options, f"{workflow}_{network}", network, set(inputs) - {"reads"}, outputs)
        lines += ["", "[[component]]", f'name = "{name}"', f'package = "{network}"', f"input = {toml(inputs)}",
                  *(f"{key} = {toml(value)}" for key, value in more.items())]
    with open(os.path.join(folder, "lambent.toml"), "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("workflows", nargs="*", default=list(WORKFLOWS), metavar="WORKFLOW")
    parser.add_argument("--runtime", choices=("shared", "own"), default="shared")
    parser.add_argument("--domain", default="")
    parser.add_argument("--prefix", default="handler_", help="of all names")
    parser.add_argument("--instances", type=int, default=4, help="sandboxes of one network")
    parser.add_argument("--kernels", help="where the bundle occupy lies; by default where the build has it")
    options = parser.parse_args(arguments)
    for workflow in options.workflows:
        write_workflow(options, workflow)


if __name__ == "__main__":
    main()
