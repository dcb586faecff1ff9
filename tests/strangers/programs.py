"""Programs of others, as a checkout of theirs describes them: CUDA samples by their CMake files, Rodinia by the table in rodinia.toml,
HeCBench by its make files."""
import dataclasses
import json
import pathlib
import re
import shlex
import subprocess
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
# What of CMake's targets a program can be linked to, as flags of nvcc. None: there is nothing to be linked.
LIBRARIES = {"CUDA::cudart": None, "CUDA::cuda_driver": "-lcuda", "CUDA::cublas": "-lcublas", "CUDA::cusparse": "-lcusparse",
             "CUDA::cufft": "-lcufft", "CUDA::curand": "-lcurand", "CUDA::cusolver": "-lcusolver -lcusparse", "CUDA::nvrtc": "-lnvrtc",
             "OpenMP::OpenMP_CXX": "-Xcompiler=-fopenmp", "pthread": "-lpthread", "rt": "-lrt", "dl": "-ldl"}
KEYWORDS = ("PUBLIC", "PRIVATE", "INTERFACE")


@dataclasses.dataclass
class Program:
    name: str
    collection: str
    folder: pathlib.Path          # where its sources are
    sources: list                 # of nvcc, as the folder names them
    kernels: list = None          # those with kernels; None: the .cu among the sources
    flags: list = dataclasses.field(default_factory=list)        # of both compilers: -I, -D
    nvcc_flags: list = dataclasses.field(default_factory=list)   # of nvcc alone
    bundle_flags: list = dataclasses.field(default_factory=list)  # of lambent-bundle alone
    images: dict = dataclasses.field(default_factory=dict)       # file that is loaded -> the .cu it is made of
    arguments: list = dataclasses.field(default_factory=list)
    stdin: str = ""
    inputs: list = dataclasses.field(default_factory=list)       # what inputs.py draws into the folder
    preset: str = "h100-80gb"
    says: str = ""                # what its own check says if all is right, a regular expression
    never: str = ""               # what it says if something is wrong
    results: list = dataclasses.field(default_factory=list)      # files that it writes
    keep: str = ""                # lines of the output that are results; all, if empty
    extract: str = ""             # the part of such lines that is one, whatever their order
    reference: dict = None        # the same on the CPU: {folder, sources, flags, arguments, tolerance}
    samples_headers: bool = False  # it needs the headers that the samples share
    neighbours: list = dataclasses.field(default_factory=list)  # folders beside its own that it reads
    known: str = ""               # why it is wrong here, where that is known
    not_tried: str = ""

    def kernel_files(self):
        return [s for s in self.sources if s.endswith(".cu")] if self.kernels is None else self.kernels


def tells_by_its_status(program):
    """Whether its sources make the exit status of what a check found."""
    texts = [(program.folder / source).read_text(errors="replace") for source in program.sources if (program.folder / source).exists()]
    return any(re.search(r"EXIT_SUCCESS\s*:\s*EXIT_FAILURE|EXIT_FAILURE\s*:\s*EXIT_SUCCESS", text) for text in texts)


def _words(text, command):
    """The arguments of each call of a CMake command."""
    return [call.split() for call in re.findall(rf"\b{command}\s*\(([^)]*)\)", text)]


def _sample(folder, arguments, overrides):
    """The program of one folder of CUDA samples, or None if it has none."""
    text = re.sub(r"#.*", "", (folder / "CMakeLists.txt").read_text(errors="replace"))
    executables = _words(text, "add_executable")
    if not executables or not executables[0][1:]:
        return None
    name, sources = executables[0][0], [s for s in executables[0][1:] if "." in s]
    program = Program(name, "samples", folder, sources, flags=["-I../../../Common", "-I."], nvcc_flags=["--extended-lambda"])
    if "inc" in {child.name for child in folder.iterdir()}:
        program.flags.append("-Iinc")
    # The files ask for it everywhere; it takes long to link, so only where something is to be linked.
    if re.search(r"CUDA_SEPARABLE_COMPILATION\s+ON", text) and (sum(s.endswith(".cu") for s in sources) > 1 or name.startswith("cdp")):
        program.nvcc_flags.append("-rdc=true")
    for graphics in ("OpenGL", "Vulkan", "EGL", "NVSCI", "FreeImage", "MPI"):
        if re.search(rf"find_package\s*\(\s*{graphics}\b", text):
            program.not_tried = f"needs {graphics}"
    if "d3d1" in text:
        program.not_tried = "is for Windows"
    for words in _words(text, "target_link_libraries"):
        for library in words[1:]:
            if library in KEYWORDS or library == "socket":
                continue
            if library not in LIBRARIES:
                program.not_tried = program.not_tried or f"needs {library.removeprefix('CUDA::').strip('${}')}, which was not to be had"
            elif LIBRARIES[library]:
                program.nvcc_flags += LIBRARIES[library].split()
    # Images that the program loads by name: made of the .cu that the CMake file names for them.
    for variable, source in re.findall(r"set\s*\(\s*(\w+)\s+\"?\$\{CMAKE_CURRENT_SOURCE_DIR\}/([\w./]+\.cu)\"?\s*\)", text):
        for image in re.findall(r"\$\{CMAKE_CURRENT_BINARY_DIR\}/([\w.]+\.(?:fatbin|ptx))", text):
            program.images[image] = source
    if "CUDA::nvrtc" in text:
        program.kernels = []
    known = arguments.get(name, {})
    if known.get("min_gpus", 1) > 1:
        program.preset = "h200-x8"
    program.arguments = known.get("args", known.get("runs", [{}])[0].get("args", []))
    for key, value in overrides.get(name, {}).items():
        setattr(program, key, value)
    return program


def samples(checkout):
    """The programs of a checkout of NVIDIA's CUDA samples."""
    named = checkout / "test_args.json"
    arguments = json.loads(named.read_text()) if named.exists() else {}
    overrides = tomllib.loads((HERE / "samples.toml").read_text())
    found = []
    for listed in sorted((checkout / "Samples").glob("[0-6]_*/*/CMakeLists.txt")):
        program = _sample(listed.parent, arguments, overrides)
        if program is not None:
            found.append(program)
    return found


def rodinia(checkout, samples_checkout=None):
    """Those of Rodinia that rodinia.toml names."""
    table = tomllib.loads((HERE / "rodinia.toml").read_text())
    common = table.pop("common")
    found = []
    for name, row in table.items():
        folder = checkout / "cuda" / row.pop("folder", name)
        row["sources"] = [str(HERE / source.removeprefix("own:")) if source.startswith("own:") else source for source in row.get("sources", [])]
        row["flags"] = [*common["flags"], *row.get("flags", [])]
        program = Program(name, "rodinia", folder, **row)
        if program.samples_headers and samples_checkout is not None:
            program.flags.append(f"-I{samples_checkout / 'Common'}")
        elif program.samples_headers:
            program.not_tried = "needs headers of the CUDA samples: name their checkout too"
        found.append(program)
    return found


# What a program of HeCBench may need that is not to be had, or brings NVIDIA's runtime.
NOT_LINKED = ("cublas", "cublasLt", "cusparse", "cusolver", "cufft", "curand", "cudnn", "nccl", "mpi", "boost", "gsl", "nvjpeg", "nvml", "opencv", "gdal")


def _of_make(folder):
    """(sources, flags, libraries, arguments) by what make would do, or None if it says nothing of the kind."""
    said = subprocess.run(["make", "-n", "-B", "-f", "Makefile", "ARCH=sm_90", "run"], cwd=folder, capture_output=True, text=True, errors="replace",
                          timeout=20).stdout.replace("\\\n", " ")
    sources, flags, libraries, arguments = [], [], [], None
    for line in said.splitlines():
        try:
            words = shlex.split(line)
        except ValueError:
            continue
        if not words:
            continue
        if words[0].startswith("./") and arguments is None and sources:
            arguments = words[1:]
        if pathlib.Path(words[0]).name not in ("nvcc", "g++", "gcc", "c++", "cc"):
            continue
        for number, word in enumerate(words[1:], 1):
            after = words[number + 1] if number + 1 < len(words) else ""
            if re.search(r"\.(cu|cpp|cc|c)$", word) and words[number - 1] != "-o" and word not in sources:
                sources.append(word)
            elif word in ("-I", "-D"):
                flags.append(word + after)
            elif word.startswith(("-I", "-D")):
                flags.append(word)
            elif word.startswith("-l"):
                libraries.append(word[2:])
    return (sources, list(dict.fromkeys(flags)), list(dict.fromkeys(libraries)), arguments or []) if sources else None


def hecbench(checkout):
    """The programs for CUDA of a checkout of HeCBench, as their make files say."""
    overrides = tomllib.loads((HERE / "hecbench.toml").read_text())
    found = []
    for make_file in sorted((checkout / "src").glob("*-cuda/Makefile")):
        name = make_file.parent.name.removesuffix("-cuda")
        parts = _of_make(make_file.parent)
        if parts is None:
            continue
        sources, flags, libraries, arguments = parts
        missing = [library for library in libraries if library in NOT_LINKED]
        program = Program(make_file.parent.name, "hecbench", make_file.parent, sources, flags=["-I.", *flags], arguments=arguments,
                          nvcc_flags=["--extended-lambda", "--expt-relaxed-constexpr", *(f"-l{each}" for each in libraries if each not in NOT_LINKED)])
        program.nvcc_flags += ["-rdc=true"] if "-rdc=true" in make_file.read_text() or "-dc" in make_file.read_text().split() else []
        program.nvcc_flags += ["-Xcompiler=-fopenmp"] if "-fopenmp" in make_file.read_text() else []
        texts = " ".join((make_file.parent / s).read_text(errors="replace") for s in sources if (make_file.parent / s).exists())
        # A processor computes once what a GPU repeats for its times.
        if arguments and arguments[-1].isdigit() and re.search(r"<[^<>]*(?:repe|iteration)[^<>]*>\s*(?:\\n)?\"", texts):
            program.arguments = [*arguments[:-1], "1"]
        named = " ".join([*sources, *flags, *arguments, texts])
        program.neighbours = sorted({each for each in re.findall(r"\.\./([\w.-]+)", named) if (checkout / "src" / each).is_dir()})
        if missing:
            program.not_tried = "needs " + missing[0]
        for key, value in overrides.get(make_file.parent.name, {}).items():
            setattr(program, key, value)
        found.append(program)
    return found
