"""Writes the pages of docs/reference that follow from the sources: python3 tests/docs/reference_pages.py [--write]. Without --write it
only compares, as the test test_reference_pages.py does.
"""
import pathlib
import re
import sys

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
REFERENCE = REPOSITORY / "docs" / "reference"
STRING = r'"((?:[^"\\]|\\.)*)"'

# What each code means to a caller, and what to do. A code that is missing here fails the test.
ERRORS = {
    "CANCELLED": ("the client or the operator ended it", "nothing"),
    "UNKNOWN": ("a function failed by itself, or the cause is not known", "read the function's log (`lambent logs`), then the worker's"),
    "INVALID_ARGUMENT": ("the request is wrong in itself; the message names the field", "change the request"),
    "DEADLINE_EXCEEDED": ("it took longer than it may", "raise `timeout_s`, or make it quicker"),
    "NOT_FOUND": ("there is no such function, model, object, tenant ...", "check the name; a suggestion may be in the message"),
    "ALREADY_EXISTS": ("the name is taken, or the folder is there", "choose another name"),
    "PERMISSION_DENIED": ("the token lacks a scope, or the web page is a foreign one", "use another token"),
    "RESOURCE_EXHAUSTED": ("too much waits, or a quota is used up", "try again after `Retry-After` ([when it holds](scheduling.md#overload))"),
    "FAILED_PRECONDITION": ("it cannot succeed as things are: no GPU, another kind of function", "change what the message names"),
    "ABORTED": ("something else changed the same thing at the same time", "try again"),
    "OUT_OF_RANGE": ("a number or a size is beyond its [limit](limits.md)", "change the request"),
    "UNIMPLEMENTED": ("Lambent does not have it", "see [what works](../status.md)"),
    "INTERNAL": ("a fault of Lambent", "report it, with the worker's log"),
    "UNAVAILABLE": ("the worker stops, or cannot be reached", "try again"),
    "DATA_LOSS": ("a file is damaged or was changed by others", "restore it; the message names it"),
    "UNAUTHENTICATED": ("no token, or one that is expired or revoked", "log in again"),
    "STORAGE_FULL": ("the worker's disk is full", "make room, then try again"),
}

# The labels of each metric, and in the order of the page.
LABELS = {
    "lambent_otlp_exported_total": "signal", "lambent_otlp_dropped_total": "signal",
    "nv_inference_request_success": "model, version, tenant",
    "nv_inference_request_failure": "model, version, tenant",
    "nv_inference_count": "model, version, tenant",
    "nv_inference_exec_count": "model, version, tenant",
    "nv_inference_request_duration_us": "model, version, tenant",
    "nv_inference_queue_duration_us": "model, version, tenant",
    "nv_inference_compute_infer_duration_us": "model, version, tenant",
    "lambent_invocations_total": "tenant, function, outcome, start",
    "lambent_refusals_total": "tenant, function, reason",
    "lambent_invocation_duration_seconds": "tenant, function",
    "lambent_queue_seconds": "tenant, function",
    "lambent_gpu_memory_wait_seconds": "",
    "lambent_cold_start_seconds": "phase",
    "lambent_sandboxes_forked_total": "",
    "lambent_zygotes_total": "event",
    "lambent_warm_ups_total": "outcome",
    "lambent_network_refused_total": "tenant, function",
    "lambent_async_retries_total": "tenant, function, reason",
    "lambent_async_waiting_for_retry": "",
    "lambent_async_destinations_total": "tenant, function, condition, outcome",
    "lambent_schedule_firings_total": "tenant, function, schedule, outcome",
    "lambent_schedule_last_timestamp_seconds": "tenant, function, schedule",
    "lambent_schedule_next_timestamp_seconds": "tenant, function, schedule",
    "lambent_flow_pending": "tenant, function",
    "lambent_flow_running": "tenant, function",
    "lambent_flow_virtual_time_seconds": "tenant, function",
    "lambent_gpu_memory_bytes": "gpu, kind",
    "lambent_gpu_utilization_ratio": "gpu",
    "lambent_gpu_tokens": "gpu, kind",
    "lambent_gpu_healthy": "gpu",
    "lambent_gpu_xid_errors_total": "gpu, xid",
    "lambent_pool_containers": "state",
    "lambent_gpu_memory_moved_bytes_total": "direction",
    "lambent_gpu_memory_fetches_total": "answer",
    "lambent_gpu_memory_move_seconds": "direction",
    "lambent_objects": "state",
    "lambent_object_bytes": "place",
    "lambent_tls_handshakes_total": "outcome",
    "lambent_tls_reloads_total": "outcome",
    "lambent_object_events_total": "event",
    "lambent_executors": "gpu",
    "lambent_executor_ends_total": "how",
    "lambent_starts_ahead_total": "what",
    "lambent_object_moves_total": "to",
    "lambent_object_reads_total": "from",
    "lambent_object_read_bytes_total": "from",
    "lambent_object_moved_bytes_total": "to",
    "lambent_object_keeps_total": "event",
    "lambent_object_keep_bytes_total": "event",
    "lambent_slo_requests_total": "tenant, function, outcome",
    "lambent_batches_total": "tenant, function", "lambent_batched_calls_total": "tenant, function",
    "lambent_slice_busy_seconds_total": "gpu, shape",
    "lambent_gpu_slices_busy_seconds_total": "gpu",
    "lambent_slice_held": "gpu, shape",
    "lambent_build_info": "version",
    "lambent_cluster_members": "state",
    "lambent_cluster_requests_total": "what",
    "lambent_volume_fetches_total": "outcome",
}

# The limits that users meet, by their names in the headers of limits.
LIMITS = {
    "Calls": {
        "kSyncPayload": "payload of a synchronous call",
        "kAsyncPayload": "payload of an asynchronous call",
        "kResponsePayload": "answer of a handler",
        "kTensorPayload": "inputs of a run of kernels by the Open Inference Protocol, and its outputs",
        "kLogTail": "end of the log in an answer (`LogType: Tail`)",
        "kQueuedPerFunction": "calls that wait, of a function",
        "kQueuedInvocations": "calls that wait, of all functions",
        "kIdempotencyKeyLength": "length of an idempotency key",
    },
    "Functions": {
        "kFunctions": "functions of a worker",
        "kFunctionNameLength": "length of a function's name",
        "kZippedCode": "code, zipped",
        "kUnzippedCode": "code, unpacked",
        "kZipEntries": "files of the code",
        "kEnvironment": "environment variables together",
        "kTags": "tags of a function",
        "kDefaultTimeout": "`timeout_s`, unless given",
        "kMostTimeout": "`timeout_s` at most",
        "kLeastMemory": "`memory` at least",
        "kDefaultMemory": "`memory`, unless given",
        "kMostMemory": "`memory` at most",
        "kDefaultConcurrency": "`max_concurrency`, unless given",
        "kMostConcurrency": "`max_concurrency` at most",
        "kInitTimeout": "time for a program's start",
        "kLogPerFunction": "log of a function that the worker keeps in memory",
    },
    "Sandboxes": {
        "kSandboxes": "sandboxes of a worker",
        "kSandboxProcesses": "processes and threads of a sandbox",
        "kSandboxOpenFiles": "open files of a process",
        "kSandboxScratch": "`/tmp`, unless `scratch` says otherwise",
        "kSandboxSharedMemory": "`/dev/shm`, unless `shared_memory` says otherwise",
        "kMountsPerFunction": "mounts of a function",
    },
    "HTTP": {
        "kConnections": "connections to a worker, and at most five eighths of the files that it may open",
        "kHttpHeaders": "headers of a request",
        "kHttpHeaderTimeout": "time for the headers of a request (`--request-head-timeout`)",
        "kHttpBodyTimeout": "time for a body that the worker keeps (`--request-body-timeout`), and without a byte of one that it passes on",
        "kHttpBodyRate": "of a body that is kept, for each second beyond that time",
        "kHttpIdleTimeout": "time that an idle connection is kept",
        "kRelayedRequests": "requests to HTTP functions at one time",
        "kRelayedHead": "headers of an HTTP function's answer",
        "kDecompressedBodies": "bodies of requests under way to models that kernels serve, those that came compressed, all together",
    },
    "Tenants": {
        "kTenants": "tenants of a worker",
        "kTokensPerTenant": "tokens of a tenant",
        "kSecretsPerTenant": "secrets of a tenant",
        "kSecretValue": "a secret",
        "kVolumesPerTenant": "volumes of a tenant",
        "kFilesPerVolume": "files of a volume",
    },
    "Objects and kernel functions": {
        "kObjectSize": "an object",
        "kObjects": "objects of a worker",
        "kObjectsOfTenant": "objects of a tenant",
        "kObjectTimeToLive": "time that an object lives, unless given",
        "kGraphBuffers": "buffers of a graph",
        "kGraphSteps": "launches of a graph",
    },
}


def read(path):
    return (REPOSITORY / path).read_text()


def note(source):
    return f"This page is written by `tests/docs/reference_pages.py` from `{source}`, and a test compares it.\n"


def errors_page():
    rows = re.findall(r'^ERROR_CODE\(\w+, "(\w+)", (\d+), (\d+), (\d+), "(\w+)", (\w+)\)', read("api/error_codes.inc"), re.MULTILINE)
    text = ("# Errors\n\n"
            "Every error has a code. Over HTTP it is in the body, `{\"error\": {\"code\", \"message\", \"type\"}}`, in Lambda's API it is one of Lambda's "
            "types. The command exits with its number; `lambent.client` raises the Python exception. *Again* says whether the same request may succeed later.\n\n"
            + note("api/error_codes.inc") +
            "\n| code | HTTP | exit | Python | again | means | what to do |\n|---|---|---|---|---|---|---|\n")
    for name, _, http, exit_code, exception, again in rows:
        means, remedy = ERRORS[name]
        text += f"| `{name}` | {http} | {exit_code} | `{exception}` | {'yes' if again == 'true' else 'no'} | {means} | {remedy} |\n"
    return text + ("\nA function that fails by itself is no error of the worker: HTTP 200 with `X-Amz-Function-Error`, and exit code 1. "
                   "An HTTP function whose program ends, or does not answer, is 502 or 504 ([what a client sees](../guides/http-functions.md#what-a-client-sees)). "
                   "With 502 its code is `UNKNOWN` where it ended by itself, and `RESOURCE_EXHAUSTED` where it used more than its memory; by gRPC both are `UNKNOWN`. "
                   "The `type`, such as `Runtime.ExitError`, says how it failed. "
                   "Bad usage of the command exits with 2.\n")


METRICS = ("src/core/metrics/worker_metrics.cc", "src/core/metrics/cluster_metrics.cc")


def families():
    """(name, type, help) of each metric, in the order of the source."""
    source = "".join(read(each) for each in METRICS)
    for kind, name, words in re.findall(r"family<(\w+)>\(\s*" + STRING + r",\s*((?:" + STRING.replace("(", "(?:", 1) + r"\s*)+)\)", source):
        yield name, kind.lower(), "".join(re.findall(STRING, words))
    # Those that other sources write as they are.
    strings = r"((?:" + STRING.replace("(", "(?:", 1) + r"\s*)+)"
    for path, form in (("src/core/telemetry/exporter.cc", r"counter\(\s*"), ("src/edge/frontend/metrics_formats.cc", r"\{\s*")):
        for name, words in re.findall(form + r'"((?:lambent|nv)_\w+)",\s*' + strings, read(path)):
            yield name, "counter", "".join(re.findall(STRING, words))


def metrics_page():
    text = ("# Metrics\n\n"
            "`GET /metrics` has them in Prometheus' text format; how to collect them is in [monitoring](../operate/monitoring.md). Units are seconds and bytes. "
            "A histogram has the series `_bucket`, `_sum` and `_count`. A token sees the functions of its tenant. Those of Triton's names are there once a model was called.\n\n"
            + note("src/core/metrics/worker_metrics.cc` and `cluster_metrics.cc") + "\n| metric | type | labels | meaning |\n|---|---|---|---|\n")
    for name, kind, words in families():
        labels = ", ".join(f"`{label}`" for label in LABELS.get(name, "").split(", ") if label)
        text += f"| `{name}` | {kind} | {labels} | {words} |\n"
    return text


def amount(expression):
    """The value of an expression of such a header, for people."""
    expression = expression.replace("'", "").replace("std::chrono::", "").strip()
    if match := re.fullmatch(r"Bytes::(kib|mib|gib)\((\d+)\)", expression):
        units = ["KiB", "MiB", "GiB"]
        number, unit = int(match[2]), ["kib", "mib", "gib"].index(match[1])
        while number % 1024 == 0 and unit < 2:
            number, unit = number // 1024, unit + 1
        return f"{number} {units[unit]}"
    if match := re.fullmatch(r"Bytes\(([\d *]+)\)", expression):
        number = 1
        for factor in match[1].split("*"):
            number *= int(factor)
        for unit, size in (("MiB", 1 << 20), ("KiB", 1 << 10)):
            if number % size == 0:
                return f"{number // size} {unit}"
        return f"{number} bytes"
    if match := re.fullmatch(r"(milliseconds|seconds|minutes|hours)\((\d+)\)", expression):
        number, unit = int(match[2]), {"milliseconds": "ms", "seconds": "s", "minutes": "min", "hours": "h"}[match[1]]
        return f"{number:,} {unit}"
    return f"{int(expression):,}"


def limits_page():
    values = {}
    sources = [REPOSITORY / "src/bin/open_files.cc", REPOSITORY / "src/bin/worker_settings.cc", *(REPOSITORY / "src").glob("*/*/*limits.h")]
    for source in sorted(sources):
        words = source.read_text(encoding="utf-8")
        if "namespace lambent::limits {" in words or source.suffix == ".cc":
            values |= dict(re.findall(r"^constexpr \w+ (k\w+) = ([^;]+);", words, re.MULTILINE))
    text = ("# Limits\n\nWhat is beyond a limit is refused with `OUT_OF_RANGE`, `INVALID_ARGUMENT` or `RESOURCE_EXHAUSTED` and a message that names it. "
            "Quotas of [tenants](../operate/tenants.md) bound further what each team may use.\n\n" + note("src/*/*/*limits.h"))
    for title, names in LIMITS.items():
        text += f"\n## {title}\n\n| limit | value |\n|---|---|\n"
        for name, words in names.items():
            text += f"| {words} | {amount(values[name])} |\n"
    return text


def pages():
    return {"errors.md": errors_page(), "metrics.md": metrics_page(), "limits.md": limits_page()}


if __name__ == "__main__":
    stale = [name for name, text in pages().items() if not (REFERENCE / name).exists() or (REFERENCE / name).read_text() != text]
    if "--write" in sys.argv:
        for name in stale:
            (REFERENCE / name).write_text(pages()[name])
    elif stale:
        sys.exit("stale: " + ", ".join(stale) + "; write them with --write")
