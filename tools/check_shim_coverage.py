#!/usr/bin/env python3
"""Holds a shim against the driver, or NVML: how it treats every exported function must be written down, by its full name where
that could have to do with memory; the built library must export exactly the real one's names; and what waits at the gate
must be the same in both tables.

usage: check_shim_coverage.py SYMBOLS COVERAGE [LIBRARY NM] [--gated GATED_FUNCTIONS] [--stub LIBCUDA_STUB]
"""
import argparse
import fnmatch
import os
import re
import subprocess
import sys

import generate_gated

# Names of functions that could take, give back, touch, share or report memory of the device. Rather one too many: these
# may not be swallowed by a pattern, so that a name that comes with a newer driver is looked at by somebody.
SUSPICIOUS = re.compile(
    r"(?<!DynamicS)[Mm]em|Alloc|Free|Launch(?!HostFunc)|Array|Ipc(?!.*Event)|Export|Import|Upload|Multicast|Pointer"
    r"|Graph(Add|Instantiate|Launch|Upload|Exec|Destroy|Clone|.*SetParams)"
    r"|Map(?!Flags|ped)|MapResources|(Primary|Green)Ctx(Create|Destroy|Retain|Release|Reset)|Global|Managed"
    r"|Ctx(Create|Destroy|Detach|Attach|Reset|SetLimit|FromGreen)|PeerAccess(?!Supported)"
    r"|(Module|Library|Func)(Load|Unload)|GetProcAddress|GetExportTable|HostRegister|HostUnregister"
    r"|Stream(Write|Wait|Batch|Attach)|Copy(?!Attributes)|Prefetch|Discard|Advise|External(Mem|Sem)")
# ...and what only looks so.
HARMLESS = re.compile(r"Coredump|MipmapFilter|MipmapLevel|TensorMap(Encode|Replace)|cuDeviceCanAccessPeer|cuStreamWaitEvent"
                      r"|ExternalSemaphore|cuGraph.*Get(?!.*Mem)|cuGraphExecGetFlags")
# The same of NVML's names.
SUSPICIOUS_NVML = re.compile(r"Mem|Process|Accounting|Fb|Framebuffer|BAR1|GetAttributes")
# Beyond the driver's and NVML's names.
OWN_EXPORTS = {"dlopen", "lambent_shim_real_dlopen", "lambent_shim_nvml_is_here"}


def may_be_about_memory(name):
    if name.startswith("nvml"):
        return SUSPICIOUS_NVML.search(name)
    return SUSPICIOUS.search(name) and not HARMLESS.search(name)



def rows_of(text):
    return [line.split("#")[0].split(None, 2) for line in text.splitlines() if line.split("#")[0].strip()]


WORDS = ("hooked", "gated", "forwarded")


def problems_of(symbols_text, coverage_text, exports=None, gated_text=None):
    """A list of sentences, empty if all is well."""
    symbols = {row[0] for row in rows_of(symbols_text)}
    rows = rows_of(coverage_text)
    names = [row[0] for row in rows if "*" not in row[0]]
    patterns = [row[0] for row in rows if "*" in row[0]]
    problems = []
    for row in rows:
        if len(row) < 3 or row[1] not in WORDS:
            problems.append(f"{row[0]}: say {' or '.join(WORDS)}, and why")
        elif "*" in row[0] and row[1] != "forwarded":
            problems.append(f"{row[0]}: only what is forwarded may be a pattern")
        if not fnmatch.filter(symbols, row[0]):
            problems.append(f"{row[0]}: the real library has no such function")
        if [other[0] for other in rows].count(row[0]) > 1:
            problems.append(f"{row[0]}: classified twice")
    for name in sorted(symbols - set(names)):
        if may_be_about_memory(name):
            problems.append(f"{name}: nobody has said by its name how the shim treats it")
        elif not any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns):
            problems.append(f"{name}: nobody has said how the shim treats it")
    if exports is not None:
        problems += [f"{name}: not exported by the shim" for name in sorted(symbols - exports)]
        problems += [f"{name}: exported by the shim for no reason"
                     for name in sorted(exports - symbols - OWN_EXPORTS)]
    if gated_text is not None:
        marked = {row[0] for row in rows if len(row) > 1 and row[1] == "gated"}
        made = {name for name, _ in generate_gated.rows_of(gated_text)}
        problems += [f"{name}: gated, but its parameters are missing" for name in sorted(marked - made)]
        problems += [f"{name}: has a gate, but is not marked gated" for name in sorted(made - marked)]
    return problems


def exports_of(library, nm):
    out = subprocess.run([nm, "-D", "--defined-only", library], check=True, capture_output=True, text=True)
    return {line.split()[-1] for line in out.stdout.splitlines() if line.strip()}


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("symbols")
    parser.add_argument("coverage")
    parser.add_argument("library", nargs="?")
    parser.add_argument("nm", nargs="?")
    parser.add_argument("--gated")
    parser.add_argument("--stub", help="a driver, or a toolkit's stub of one, whose names must be known as well")
    options = parser.parse_args()
    text = {}
    for role in ("symbols", "coverage", "gated"):
        path = getattr(options, role)
        if path:
            with open(path, encoding="utf-8") as file:
                text[role] = file.read()
    exports = exports_of(options.library, options.nm) if options.library else None
    problems = problems_of(text["symbols"], text["coverage"], exports, text.get("gated"))
    if options.stub and os.path.exists(options.stub):
        theirs = {name for name in exports_of(options.stub, options.nm) if name.startswith("cu")}
        known = {row[0] for row in rows_of(text["symbols"])}
        problems += [f"{name}: exported by {options.stub}, but not in the list of symbols"
                     for name in sorted(theirs - known)]
    elif options.stub:
        print(f"not held against a toolkit's driver: there is no {options.stub}")
    print("\n".join(problems) if problems else "the shim covers the real library")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
