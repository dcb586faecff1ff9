#!/usr/bin/env python3
"""Holds the shim against the driver: every function that could allocate, free or report memory must be
classified, and the built library must export exactly the driver's names.

usage: check_shim_coverage.py SYMBOLS COVERAGE [LIBRARY NM]
"""
import re
import subprocess
import sys

# Names that could have to do with amounts of memory. Rather one too many: forwarding costs one line.
SUSPICIOUS = re.compile(
    r"Alloc|Create.*Mem|Mem.*Create|Array.*Create|MemGetInfo|TotalMem|MemFree|Free(Async|Host)|MemRelease"
    r"|MemMap|MemUnmap|MemRetain|MemAddress(Reserve|Free)|Mem(Export|Import)|MemAdvise|LogsDumpToMemory"
    r"|Array(Destroy|GetMemoryRequirements)|MemHost(Alloc|Register|Unregister)|MemPool|GraphMem"
    r"|Ipc(Get|Open|Close)Mem|ExternalMemory|Multicast(Create|Bind)|Ctx(Destroy|Detach|Reset|Release)"
    r"|PrimaryCtx(Retain|Release|Reset)|GetProcAddress|GetExportTable|ModuleLoad(Data|Fat|$)"
    r"|LibraryLoad|MemGetAddressRange|UserObject(Retain|Release)$|(Retain|Release)UserObject")
# ...and what only looks so: copies and fills.
HARMLESS = re.compile(r"^cuMem(cpy|set)|^cuGraph.*(Memcpy|Memset)|BatchMemOp")
# Beyond the driver's names.
OWN_EXPORTS = {"dlopen", "lambent_shim_real_dlopen"}


def rows_of(text):
    return [line.split("#")[0].split(None, 2) for line in text.splitlines() if line.split("#")[0].strip()]


def problems_of(symbols_text, coverage_text, exports=None):
    """A list of sentences, empty if all is well."""
    symbols = {row[0] for row in rows_of(symbols_text)}
    rows = rows_of(coverage_text)
    classified = [row[0] for row in rows]
    problems = []
    for row in rows:
        if len(row) < 3 or row[1] not in ("hooked", "forwarded"):
            problems.append(f"{row[0]}: say 'hooked' or 'forwarded', and why")
        if row[0] not in symbols:
            problems.append(f"{row[0]}: the driver has no such function")
        if classified.count(row[0]) > 1:
            problems.append(f"{row[0]}: classified twice")
    for name in sorted(symbols - set(classified)):
        if SUSPICIOUS.search(name) and not HARMLESS.search(name):
            problems.append(f"{name}: nobody has said how the shim treats it")
    if exports is not None:
        problems += [f"{name}: not exported by the shim" for name in sorted(symbols - exports)]
        problems += [f"{name}: exported by the shim for no reason"
                     for name in sorted(exports - symbols - OWN_EXPORTS)]
    return problems


def exports_of(library, nm):
    out = subprocess.run([nm, "-D", "--defined-only", library], check=True, capture_output=True, text=True)
    return {line.split()[-1] for line in out.stdout.splitlines() if line.strip()}


def main():
    with open(sys.argv[1], encoding="utf-8") as symbols, open(sys.argv[2], encoding="utf-8") as coverage:
        exports = exports_of(sys.argv[3], sys.argv[4]) if len(sys.argv) > 4 else None
        problems = problems_of(symbols.read(), coverage.read(), exports)
    print("\n".join(problems) if problems else "the shim covers the driver")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
