"""A program compiled for both sides: by nvcc as its authors do, and its kernels for the host by lambent-bundle. Kept until something changes."""
import dataclasses
import hashlib
import pathlib
import re
import shutil
import subprocess

import inputs

LIMIT_S = 600


@dataclasses.dataclass
class Built:
    folder: pathlib.Path   # a copy of the program's, in which it runs
    program: pathlib.Path = None
    kernels: list = dataclasses.field(default_factory=list)  # files for EMULATED_CUDA_KERNELS, beyond the one beside the program
    trouble: str = ""      # why it cannot run
    notes: list = dataclasses.field(default_factory=list)


def first_error(text, tidy):
    """The line that says what is wrong, without the folders of this machine."""
    refused = re.search(r'(?:static_assert failed due to [^"]*|error: )"([^"]*not supported[^"]*)"', text)
    if refused:
        return refused[1]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    found = next((line for line in lines if "undefined reference" in line or "cannot find -l" in line), None)
    found = found or next((line for line in lines if "error:" in line), None)
    found = found or next((line for line in lines if "not supported" in line or "would be seen" in line), lines[-1] if lines else "no word")
    for folder in tidy:
        found = found.replace(f"{folder}/", "")
    return found.removeprefix("lambent-bundle: ")[:240]


class Builder:
    def __init__(self, prefix, toolkit, architecture, scratch):
        self.bundle = prefix / "bin/lambent-bundle"
        self.runtime = prefix / "lib/emulated_runtime"
        self.nvcc = toolkit / "bin/nvcc"
        self.toolkit = toolkit
        self.architecture = architecture
        self.scratch = scratch
        newest = [self.bundle, *prefix.glob("share/lambent/include/**/*")]
        self.tools = max((path.stat().st_mtime for path in newest if path.exists()), default=0)

    def _run(self, command, folder, log):
        with open(log, "a") as file:
            file.write(" ".join(map(str, command)) + "\n")
        try:
            done = subprocess.run(list(map(str, command)), cwd=folder, capture_output=True, text=True, errors="replace", timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            return f"error: not over after {LIMIT_S} s"
        with open(log, "a") as file:
            file.write(done.stdout + done.stderr + f"status {done.returncode}\n")
        return None if done.returncode == 0 else done.stdout + "\n" + done.stderr

    def _cached(self, key, mark, make):
        """What `make` answered for this key, made anew only where the key has changed."""
        digest = hashlib.sha256(repr(key).encode()).hexdigest()
        if mark.exists() and mark.read_text(errors="replace").split("\n", 1)[0] == digest:
            said = mark.read_text(errors="replace").split("\n", 1)[1]
            return said or None
        said = make()
        mark.write_text(digest + "\n" + (said or ""))
        return said

    def copy(self, program, folder):
        if not folder.exists():
            folder.parent.mkdir(parents=True, exist_ok=True)
            shutil.copytree(program.folder, folder, symlinks=True, ignore_dangling_symlinks=True)
        self._draw(folder, program)
        return folder

    def _draw(self, folder, program):
        """Its inputs, drawn anew where what is to be drawn has changed."""
        mark = folder / "inputs.made"
        if not mark.exists() or mark.read_text() != repr(program.inputs):
            inputs.draw(folder, program.inputs)
            mark.write_text(repr(program.inputs))

    def build(self, program, checkout):
        base = self.scratch / program.collection / program.name
        # As deep as in the checkout, for sources that name files of neighbours.
        inner = program.folder.relative_to(checkout)
        built = Built(self.copy(program, base / inner))
        top = base
        for shared in ("Common", "cuda/util", "cuda/lud/common"):
            if (checkout / shared).is_dir() and not (top / shared).exists():
                (top / shared).parent.mkdir(parents=True, exist_ok=True)
                (top / shared).symlink_to(checkout / shared)
        for neighbour in program.neighbours:
            if not (built.folder.parent / neighbour).exists():
                (built.folder.parent / neighbour).symlink_to(program.folder.parent / neighbour)
        log = base / "build.txt"
        log.unlink(missing_ok=True)
        tidy = [built.folder, base, self.toolkit / "include", self.bundle.parent.parent / "share/lambent/include", "/usr/local/include"]
        sources = [(built.folder / source, source) for source in program.sources]
        for path, source in sources:
            if not path.exists() and not pathlib.Path(source).exists():
                built.trouble = f"the checkout lacks {source}"
                return built
        out = built.folder / program.name
        said = self._compile(program, built, out, log)
        if said is not None:
            built.trouble = "nvcc: " + first_error(said, tidy)
            return built
        said = self._kernels(program, built, out, log)
        if said is not None:
            built.trouble = "lambent-bundle: " + first_error(said, tidy)
            return built
        built.program = out
        return built

    def _compile(self, program, built, out, log):
        link = ["-L", self.toolkit / "lib64", "-L", self.toolkit / "lib64/stubs", "-Xlinker", "--unresolved-symbols=ignore-in-shared-libs"]
        command = [self.nvcc, "-std=c++17", "-cudart", "shared", f"-arch={self.architecture}", "-O2", "-w", *program.flags, *program.nvcc_flags,
                   *link, *program.sources, "-o", out]
        times = [path.stat().st_mtime for path in (built.folder / s for s in program.sources) if path.exists()]

        def make():
            said = self._run(command, built.folder, log)
            for image, source in program.images.items():
                form = "-ptx" if image.endswith(".ptx") else "-fatbin"
                said = said or self._run([self.nvcc, "-std=c++17", f"-arch={self.architecture}", "-w", *program.flags, form, source, "-o", image],
                                         built.folder, log)
            return said
        return self._cached((command, program.images, times), built.folder / "nvcc.made", make)

    def _kernels(self, program, built, out, log):
        def bundle(files, output):
            # For kernels that come by PTX: the names of Thrust's say what they were made for.
            by_ptx = [f"--nvcc={flag}" for flag in ("-std=c++17", f"-arch={self.architecture}", *program.nvcc_flags)]
            return self._run([self.bundle, "host", *files, "-o", output, "--toolkit-headers", self.toolkit / "include", *by_ptx,
                              *program.bundle_flags, *program.flags],
                             built.folder, log)

        def make():
            for old in built.folder.glob("*.kernels.so"):
                old.unlink()
            for image, source in program.images.items():
                said = bundle([source], f"{image}.kernels.so")
                if said is not None:
                    return said
            files = program.kernel_files()
            if not files:
                return None
            said = bundle(files, f"{out}.kernels.so")
            if said is not None and "has no kernels for the host" in said and len(files) == 1:
                return None
            if said is None or len(files) == 1:
                return said
            # Files that nvcc compiles apart may share names: each as one.
            for number, file in enumerate(files):
                again = bundle([file], f"apart{number}.kernels.so")
                if again is not None and "no kernels for the host" not in again:
                    return said
            return None
        said = self._cached((self.tools, program.flags, program.bundle_flags, program.kernel_files(), program.images), built.folder / "kernels.made", make)
        apart = sorted(built.folder.glob("apart*.kernels.so"))
        if said is None and apart:
            built.notes.append("its files compiled apart")
        # An image that a program reads itself has no name for the driver to look beside.
        built.kernels = apart + [built.folder / f"{image}.kernels.so" for image in program.images]
        return said

    def build_reference(self, program, checkout):
        """The program's version for the CPU: (folder, file), or why there is none."""
        reference = program.reference
        folder = checkout / "openmp" / reference["folder"]
        base = self.scratch / program.collection / program.name / "cpu"
        inner = base / "openmp" / reference["folder"]
        if not inner.exists():
            inner.parent.mkdir(parents=True, exist_ok=True)
            shutil.copytree(folder, inner, symlinks=True)
        self._draw(inner, program)
        out = inner / (program.name + ".cpu")
        if not out.exists():
            here = pathlib.Path(__file__).resolve().parent
            sources = [here / s.removeprefix("own:") if s.startswith("own:") else s for s in reference["sources"]]
            compiler = "g++" if any(str(s).endswith(".cpp") for s in sources) else "gcc"
            said = self._run([compiler, "-O2", "-w", "-fopenmp", *([] if compiler == "g++" else ["-std=gnu89"]), "-I.", *reference.get("flags", []),
                              *sources, "-o", out, "-lm"], inner, inner / "build.txt")
            if said is not None:
                return inner, None, first_error(said, [inner])
        return inner, out, ""
