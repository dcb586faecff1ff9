"""The three workflows of the StreamBox paper's Figure 11 as packages for a worker: the networks of example 11 with what they hand on, and the
workflows over them. As the model of bench paper-streambox has them: what one network makes for others lies on the device, none of it goes
through a handler, and how many cars and people a frame shows comes with the request.

Used by paper_streambox_worker.py. Networks are modelled: which of a tensor's pictures a call looks at makes no difference to a modelled device.
"""
import importlib.util
import pathlib
import subprocess
import sys

from worker_under_test import PREFIX, PROGRAMS, ROOT

sys.path.insert(0, str(ROOT / "python"))
from lambent.kernels import int32, read, uint64, write  # noqa: E402
from lambent.workflow import Workflow  # noqa: E402

PICTURE = (3, 224, 224)
MOST_OBJECTS = 12  # of each kind in a frame
COPY_NS_PER_BYTE = 2 / 900  # each byte of a cut-out is read and written, at the memory's rate
# Each network's milliseconds alone are those that example 11 gives it, which are the model's.
NETWORK_MS = {"ssd300": 13.2, "resnet50": 4, "vgg16": 11.9, "alexnet": 3.4, "densenet121": 7.2, "vdsr": 12.7, "translate": 5.3, "post_kind": 6.8}
# And so is the share of the multiprocessors that each can fill in the mean over its time (`fills` in the model's table): most of what AlexNet, say,
# takes are dense layers, which wait for memory and have few outputs.
NETWORK_FILLS = {"ssd300": 0.90, "resnet50": 0.43, "vgg16": 0.50, "alexnet": 0.10, "densenet121": 0.21, "vdsr": 1, "translate": 0.16, "post_kind": 0.69}
WHOLE_DEVICE = 80 * 16  # blocks of 128 threads that a V100 runs at once
# Of each workflow: its networks, and how long they take for a request of the mean, one after the other.
NETWORKS = {"image": ("vgg16", "vdsr"), "traffic": ("ssd300", "resnet50", "alexnet", "vgg16"),
            "social": ("translate", "post_kind", "densenet121", "alexnet")}
WORKFLOWS = tuple(NETWORKS)


def mean_ms(workflow):
    each = MOST_OBJECTS / 2 if workflow == "traffic" else 1
    return sum(NETWORK_MS[name] * (1 if name == "ssd300" else each) for name in NETWORKS[workflow])


def example_models():
    specification = importlib.util.spec_from_file_location("models", ROOT / "examples/11_kernel_models/build.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def add_pictures(graph, name, count):
    """An output of so many pictures, cut out of the network's input."""
    image = graph.buffers["image"]
    shape = PICTURE if count == 1 else (count, *PICTURE)
    out = graph.output(name, "FP32", shape)
    layers = graph.bundles["bundles/layers"]
    layers.kernel("window_pool")(min(65535, (out.size_bytes // 4 + 127) // 128), 128, [
        uint64(int(out.size_bytes * COPY_NS_PER_BYTE)), read(image), write(out), int32(3), int32(image.shape[-1]), int32(1), int32(1),
        int32(0), int32(0)])


def look_at_one_of(graph, count):
    """Its input is a tensor of so many pictures."""
    image = graph.buffers["image"]
    image.shape, image.size_bytes = (count, *image.shape), count * image.size_bytes


# Kernels of so many buffers, in place of several launches one after the other.
WIDTHS = (8, 16, 32, 64, 128)
LAUNCHES = 8


def wide_kernels():
    """Their source: they are only timed."""
    lines = ["#include <lambent/kernel.h>", "using Nanoseconds = unsigned long long;"]
    for width in WIDTHS:
        lines += [f"extern \"C\" __global__ void layers{width}(Nanoseconds{', float*' * width}) {{}}",
                  f"LAMBENT_KERNEL_DURATION(layers{width}, [](dim3, dim3, Nanoseconds duration, auto...) {{ return duration; }});",
                  f"LAMBENT_KERNEL(layers{width});"]
    return "\n".join(lines) + "\n"


def put_together(graph, fills):
    """Its launches, LAUNCHES of them instead of up to 250: as long, over the same buffers, each filling this share of the device. The emulated
    driver pays a hand-over between threads for each launch, which two cores could not bear; what a network takes and holds stays."""
    chunks = [graph.steps[len(graph.steps) * i // LAUNCHES:len(graph.steps) * (i + 1) // LAUNCHES] for i in range(LAUNCHES)]
    steps = []
    for chunk in chunks:
        accesses, total = {}, 0
        for step in chunk:
            total += step["arguments"][0]["literal"]
            for argument in step["arguments"]:
                if "buffer" not in argument:
                    continue
                known = accesses.setdefault(argument["buffer"], argument["access"])
                if known == "read" and argument["access"] != "read":
                    accesses[argument["buffer"]] = "read_write"
        width = min(width for width in WIDTHS if width >= len(accesses))
        nothing = [{"literal": 0, "datatype": "UINT64"}] * (width - len(accesses))
        steps.append({"kernel": f"layers{width}", "bundle": "bundles/wide", "grid": [round(fills * WHOLE_DEVICE)], "block": [128],
                      "arguments": [{"literal": total, "datatype": "UINT64"},
                                    *({"buffer": name, "access": access} for name, access in accesses.items()), *nothing]})
    graph.steps[:] = steps


def example_handlers():
    specification = importlib.util.spec_from_file_location("handlers", ROOT / "examples/27_shared_runtime/build.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


class Packages:
    """The packages of a workflow in a folder, its kernels compiled once."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.models = example_models()
        self.bundle = self.folder / "wide"
        source = self.folder / "wide.cu"
        source.write_text(wide_kernels())
        subprocess.run([str(PROGRAMS / "lambent"), "bundle", "build", str(source), "-o", str(self.bundle), "--host-only"], check=True,
                       capture_output=True, timeout=300)

    def network(self, workflow, name, instances):
        """Its folder; made once for a workflow."""
        package = self.folder / workflow / name
        if package.exists():
            return package
        graph = self.models.MODELS[name]()
        if (workflow, name) == ("traffic", "ssd300"):
            add_pictures(graph, "cars", MOST_OBJECTS)
            add_pictures(graph, "people", MOST_OBJECTS)
        elif workflow == "traffic":
            look_at_one_of(graph, MOST_OBJECTS)
        elif (workflow, name) == ("image", "vgg16"):
            add_pictures(graph, "picture", 1)
        put_together(graph, NETWORK_FILLS[name])
        graph.bundles.clear()
        graph.bundle(str(self.bundle))
        graph.save(str(package), timeout_s=120, launch_mode="model", max_concurrency=instances)
        return package

    def flows(self, workflow, tenant):
        """The workflow's name and folders, those that are called first."""
        named = {name: f"{tenant}_{name}" for name in NETWORKS[workflow]}
        made = []

        def save(flow, name):
            made.append(self.folder / workflow / f"flow_{name}")
            flow.save(str(made[-1]), timeout_s=120)

        flow = Workflow(f"{tenant}_{workflow}")
        if workflow == "image":
            face = flow.call(named["vgg16"], {"image": flow.input.image}, name="face")
            flow.output(flow.call(named["vdsr"], {"image": face.picture}, name="enhance").image_out)
        elif workflow == "social":
            words = flow.call(named["translate"], {"tokens": flow.input.tokens}, name="translate")
            kind = flow.call(named["post_kind"], {"tokens": words.translated, "segments": flow.input.segments}, name="text")
            picture = flow.call(named["densenet121"], {"image": flow.input.image}, name="picture")
            other = flow.call(named["alexnet"], {"image": flow.input.image}, name="other")
            flow.output({"text": kind.answer, "picture": picture.probabilities, "other": other.probabilities})
        else:
            car = Workflow(f"{tenant}_car")
            make = car.call(named["resnet50"], {"image": car.input.pictures}, name="make")
            plate = car.call(named["alexnet"], {"image": car.input.pictures}, name="plate", after=[make])
            car.output(plate.probabilities)
            save(car, f"{tenant}_car")
            found = flow.call(named["ssd300"], {"image": flow.input.frame}, name="detect")
            cars = flow.call(f"{tenant}_car", {"pictures": found.cars}, name="cars", for_each=flow.input.cars)
            people = flow.call(named["vgg16"], {"image": found.people}, name="people", for_each=flow.input.people)
            flow.output({"cars": cars, "people": people})
        save(flow, f"{tenant}_{workflow}")
        return flow.name, made

    def deploy(self, worker, workflow, tenant, domain_of, instances):
        """Everything of one tenant; domain_of(network) is where its calls run. Returns the workflow's name."""
        for name in NETWORKS[workflow]:
            manifest = self.network(workflow, name, instances) / "lambent.toml"
            plain = manifest.read_text()
            manifest.write_text(plain.replace("[gpu]\n", f'[gpu]\ndomain = "{domain_of(name)}"\n', 1))
            try:
                deploy(worker, manifest.parent, f"{tenant}_{name}")
            finally:
                manifest.write_text(plain)
        name, folders = self.flows(workflow, tenant)
        for folder in folders:
            deploy(worker, folder)
        return name


class HandlerPackages:
    """The same workflows with every network a handler in a sandbox (example 27), which have a GPU runtime of their own or share one."""

    def __init__(self, folder, runtime):
        self.folder, self.runtime = pathlib.Path(folder), runtime

    def deploy(self, worker, workflow, tenant, domain_of, instances):
        """As Packages has it."""
        folder = self.folder / f"handlers-{self.runtime}" / tenant
        prefix = f"{tenant}_"
        example_handlers().main([str(folder), workflow, "--runtime", self.runtime, "--domain", domain_of(workflow), "--prefix", prefix,
                                 "--instances", str(instances), "--kernels", str(PREFIX / "share/lambent/kernels")])
        deploy(worker, folder / workflow)
        return prefix + workflow


def deploy(worker, folder, name=None):
    done = subprocess.run([str(PROGRAMS / "lambent"), "deploy", str(folder), "--endpoint", worker.endpoint, *(("--name", name) if name else ())],
                          capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise SystemExit(f"deploying {folder.name}: {done.stderr[-1000:]}")


def needs_object(workflow):
    """The shape of the picture that comes with each request."""
    return (3, 300, 300) if workflow == "traffic" else PICTURE


def event_of(workflow, picture, cars, people, handlers=False):
    if workflow == "traffic":
        return {"frame": {"object": picture}, "cars": list(range(cars)), "people": list(range(people)),
                "reads": {"cars": 2 * cars, "people": people}}  # of what handlers hand on
    if workflow == "image":
        return {"image": {"object": picture}}
    tokens = {"object": picture} if handlers else {"datatype": "INT32", "shape": [32], "data": list(range(32))}
    segments = tokens if handlers else dict(tokens, data=[0] * 32)
    return {"tokens": tokens, "segments": segments, "image": {"object": picture}}
