import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { mainReason, placeOf, reasonAdvice, reasonWords, waitReasons } from "../web/advice.js";
import { causeSentence, findings, callWords, headline, kindWords, settingText } from "../web/words.js";
import { settingRows } from "../web/view_function.js";

const plain = text => text.replaceAll("\u00a0", " ");
const call = (phases, more = {}) => {
  const phases_ms = { queue: 0, sandbox: 0, init: 0, memory: 0, run: 0, ...phases };
  return { outcome: "succeeded", phases_ms, took_ms: Object.values(phases_ms).reduce((a, b) => a + b), wait_reason: "", ...more };
};

test("the headline names the longest part and what caused it", () => {
  const waited = call({ queue: 1674, run: 226 }, { wait_reason: "no_token" });
  assert.equal(plain(headline(waited)), "It took 1.90 s, 1.67 s of it waiting, because every GPU ran as many calls as it may at once.");
  assert.equal(plain(causeSentence(waited)), "1.67 s of 1.90 s waiting: every GPU ran as many calls as it may at once");
  assert.equal(plain(headline(call({ run: 12 }))), "It took 12.0 ms, all of it running the function's own code.");
  assert.equal(plain(headline(call({ init: 280, sandbox: 6, run: 26 }))), "It took 312 ms, 280 ms of it loading the code in a new sandbox.");
});

test("settings have units, and one that says nothing is left out", () => {
  assert.equal(settingText("async_max_age_seconds", 0), "–");
  assert.equal(plain(settingText("async_max_age_seconds", 3600)), "1 h");
  assert.equal(settingText("async_retries", -1), "as the worker says");
  assert.equal(settingText("keep_alive_seconds", -1), "as the worker says");
  assert.equal(settingText("slo_ms", 0), "–");
  assert.equal(plain(settingText("slo_ms", 200)), "200 ms");
  assert.equal(plain(settingText("timeout_seconds", 30)), "30.0 s");
  assert.equal(settingText("mounts", []), "–");
  assert.equal(settingText("mounts", [{ at: "/mnt/model", volume: "weights" }, { host: "/srv", at: "/data" }]), "weights at /mnt/model, /srv at /data");
  assert.equal(settingText("cpus", 0), "–");
  assert.equal(settingText("cpus", 2), "2");
  assert.equal(settingText("checkpoint", false), "no");
});

test("a model is called a model, and each kind as it is called", () => {
  globalThis.location = { origin: "http://127.0.0.1:8980" };
  const model = kindWords({ kind: "http", serves_model: true });
  assert.equal(model, "model");
  assert.equal(kindWords({ kind: "http", serves_model: false }), "http");
  assert.equal(kindWords({ kind: "handler" }), "handler");
  assert.equal(callWords("mood", model), "POST /v2/models/mood/infer");
  assert.equal(callWords("web", "http"), "curl http://127.0.0.1:8980/f/web/");
  assert.equal(callWords("hello", "handler"), "lambent invoke hello");
});

test("of several reasons the longest counts", () => {
  assert.equal(mainReason({ at_work: 15, own_queue: 6190, none: 9000 }, "at_work"), "own_queue");
  assert.equal(mainReason({}, "at_work"), "at_work");
  assert.equal(mainReason(undefined, "at_work"), "at_work");
});

test("a wait behind calls of its own function says what held those", () => {
  const reasons = waitReasons({ own_queue: 13_300, at_work: 402 }, "at_work");
  assert.equal(reasons.wait_reason, "own_queue");
  assert.equal(reasons.front_reason, "at_work");
  const waited = call({ queue: 13_702, run: 312 }, { ...reasons, gpu: "0" });
  const [queue] = findings(waited);
  assert.equal(plain(queue.text), "It stood behind other calls of its function (13.3 s); its sandboxes were at work or starting (402 ms).");
  assert.match(queue.advice, /^Another one is started.*if the GPUs have room.*come faster than they end/);
  assert.match(headline(waited), /because it stood behind other calls of its function, and its sandboxes were at work or starting\.$/);
  assert.equal(waitReasons({ own_queue: 5 }, "own_queue").front_reason, "");
  assert.equal(waitReasons({ no_token: 5 }, "no_token").front_reason, "");
});

const host = { gpu: "cpu", spec: { gpu_memory_bytes: 0, max_concurrency: 1 } };
const onGpu = { gpu: "0", spec: { gpu_memory_bytes: 1 << 30, max_concurrency: 4 } };
const adviceOf = (waits_ms, last, more) => findings(call({ queue: 2000, run: 100 }, { ...waitReasons(waits_ms, last), ...more }))[0].advice;

test("a function without a GPU at its own limit is told of that limit, and of no GPU", () => {
  const waited = call({ queue: 2810, run: 1500 }, { ...waitReasons({ own_queue: 1300, concurrency_limit: 1510 }, "concurrency_limit"), ...host });
  assert.match(plain(headline(waited)), /waiting, because its function ran as many calls as it may at once\.$/);
  const [queue, run] = findings(waited);
  assert.equal(plain(queue.text), "Its function ran as many calls as it may at once (1.51 s); it stood behind other calls of its function (1.30 s).");
  assert.match(queue.advice, /^Raise the function's max_concurrency \(now 1\).*more GPUs would change nothing/);
  assert.doesNotMatch(queue.advice, /another GPU|where that is/i);
  assert.match(run.text, /on the host's processors: no GPU was used/);
  // The longer part is the queue: what holds its front is said as well, and first in the advice.
  const longer = adviceOf({ own_queue: 9000, concurrency_limit: 1510 }, "concurrency_limit", host);
  assert.match(longer, /^Raise the function's max_concurrency/);
});

test("advice about GPUs is for functions that use one", () => {
  assert.match(adviceOf({ no_token: 2000 }, "no_token", onGpu), /More GPUs or a higher concurrency \(D\)/);
  assert.match(adviceOf({ concurrency_limit: 2000 }, "concurrency_limit", onGpu), /max_concurrency \(now 4\), or call it less often at once\.$/);
  assert.match(adviceOf({ no_memory: 2000 }, "no_memory", onGpu), /gpu memory/);
  for (const reason of ["own_queue", "concurrency_limit", "no_memory", "no_sandbox", "at_work", "host_busy", "behind_others", "tenant_concurrency", "tenant_host_memory"]) {
    assert.doesNotMatch(adviceOf({ [reason]: 2000 }, reason, host).replace("more GPUs would change nothing", ""), /GPU/, reason);
  }
  const started = more => findings(call({ sandbox: 900, run: 5 }, more))[0].text;
  assert.match(started(onGpu), /until the GPU has the memory/);
  assert.equal(started(host), "No sandbox of the function was free.");
  assert.match(findings(call({ run: 50 }, onGpu))[0].text, /beside it on the same GPU/);
});

test("every reason that is worth it has its advice, once", () => {
  const advice = adviceOf({ tenant_concurrency: 1000, behind_others: 800, own_queue: 150, no_token: 40 }, "behind_others", onGpu);
  assert.match(advice, /^A quota of the tenant.*--concurrency N.*A higher weight, or another policy.*come faster than they end/);
  assert.doesNotMatch(advice, /More GPUs/);  // 40 ms of 2 s are no cause
  // The worker's own word counts, however short, and where there is no journal it is all that is known.
  assert.match(adviceOf({ own_queue: 1990, concurrency_limit: 10 }, "concurrency_limit", host), /max_concurrency/);
  assert.match(adviceOf(undefined, "host_busy", host), /host_concurrency/);
  assert.equal(adviceOf(undefined, "", host), "");
});

test("the place is where it ran, else where its function runs", () => {
  assert.equal(placeOf({ gpu: "cpu" }), "host");
  assert.equal(placeOf({ gpu: "1:2" }), "gpu");
  assert.equal(placeOf({ gpu: null, spec: { gpu_memory_bytes: 0 } }), "host");
  assert.equal(placeOf({ gpu: null, spec: { gpu_memory_bytes: 5 } }), "gpu");
  assert.equal(placeOf({ gpu: null }), "");
});

test("a refused call says why it never ran", () => {
  const refused = call({}, { outcome: "rejected", error: "the queue is full" });
  assert.equal(causeSentence(refused), "refused: the queue is full");
  assert.equal(findings(refused)[0].text, "the queue is full");
});

test("findings come longest first, and what took nearly nothing is left out", () => {
  const keys = findings(call({ queue: 50, init: 300, memory: 0.01, run: 100 })).map(each => each.key);
  assert.deepEqual(keys, ["init", "run", "queue"]);
});

const namesIn = (path, pattern) => [...readFileSync(new URL(path, import.meta.url), "utf8").matchAll(pattern)].map(match => match[1]).filter(name => name !== "none");

test("every reason that the scheduler gives has words and advice here, and words in the command", () => {
  const command = namesIn("../../cli/wait_words.cc", /\{"(\w+)",/g);
  const given = [...namesIn("../../../decide/scheduling/wait_reason.cc", /return "(\w+)"/g),
    ...namesIn("../../../decide/slice_scheduling/slice_wait.cc", /return "(\w+)"/g)];
  assert.ok(given.length > 25 && command.length > 25);
  for (const reason of new Set([...command, ...given])) {
    assert.notEqual(reasonWords(reason), reason.replaceAll("_", " "), reason);
    assert.notEqual(reasonAdvice(reason), "", reason);
    assert.ok(command.includes(reason), `${reason} has no words in wait_words.cc`);
  }
  assert.equal(reasonWords("none"), "");
  assert.equal(reasonWords("something_new"), "something new");
});

test("settings that say nothing of a function are left out", () => {
  const spec = { name: "f", kind: "handler", memory_bytes: 1 << 20, gpu_memory_bytes: 0, memory_mode: "vmm", weight: 1, http_port: 8080, slo_ms: 200 };
  const keys = (more, isolation) => settingRows({ ...spec, ...more }, isolation).map(([key]) => key);
  assert.deepEqual(keys({}), ["kind", "memory_bytes", "weight", "slo_ms"]);
  assert.deepEqual(keys({ gpu_memory_bytes: 1 << 30 }), ["kind", "memory_bytes", "gpu_memory_bytes", "memory_mode", "weight", "slo_ms"]);
  const pipeline = { kind: "pipeline", gpu_memory_bytes: 1 << 30, slo_ms: 0 };
  assert.deepEqual(keys(pipeline, "slices"), ["kind", "memory_bytes"]);
  assert.deepEqual(keys(pipeline, "shared"), ["kind", "memory_bytes", "gpu_memory_bytes", "memory_mode"]);
});
