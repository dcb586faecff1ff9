import assert from "node:assert/strict";
import { test } from "node:test";
import { MOST_ENDED, MOST_FUNCTIONS, Store, gpusOf, memoryMap, percentile, slowest, summary } from "../web/store.js";

const call = (sequence, more = {}) => ({ sequence, invocation: `id-${sequence}`, function: "f", ended: 1000 + sequence, took_ms: 100, outcome: "succeeded", start: "warm",
  gpu: "0", phases_ms: { queue: 0, sandbox: 0, init: 0, memory: 0, run: 100 }, ...more });

test("the snapshot does not undo what an event told after it", () => {
  const store = new Store();
  store.apply("functions", { functions: [{ name: "a", queued: 5 }] }, 0);
  store.apply("snapshot", { functions: [{ name: "a", queued: 1 }, { name: "b", queued: 2 }] }, 0);
  assert.equal(store.functions.get("a").queued, 5);
  assert.equal(store.functions.get("b").queued, 2);
  store.apply("functions", { functions: [], removed: ["a"] }, 0);
  assert.deepEqual([...store.functions.keys()], ["b"]);
});

test("of very many functions the first are asked for, and one that is called joins them", () => {
  const store = new Store();
  const page = (from, next) => ({ functions: Array.from({ length: 500 }, (_, index) => ({ name: `f${100000 + from + index}` })), next });
  let asked = 0;
  for (; !store.cut; asked += 500) store.apply("snapshot", page(asked, `f${100000 + asked + 499}`), 0);
  assert.equal(asked, MOST_FUNCTIONS);
  store.apply("functions", { functions: [{ name: "z", warm: 1 }] }, 0);
  assert.equal(store.functions.size, MOST_FUNCTIONS + 1);
  const few = new Store();
  few.apply("snapshot", page(0, undefined), 0);
  assert.equal(few.cut, false);
});

test("of what ended before no more is asked for than is kept", async () => {
  const store = new Store();
  let asked = 0;
  await store.addPages(before => {
    assert.equal(before, asked === 0 ? "" : `a:${asked}`);
    asked += 1;
    const page = Array.from({ length: 500 }, (_, index) => call(100000 - asked * 500 - index, { node: "a" }));
    return Promise.resolve({ invocations: page, next: `a:${asked}` });
  }, () => {});
  assert.equal(asked, Math.ceil(MOST_ENDED / 500));
  assert.equal(store.ended.length, MOST_ENDED);
  const few = new Store();
  await few.addPages(() => Promise.resolve({ invocations: [call(1)] }), () => {});
  assert.equal(few.ended.length, 1);
});

test("calls and GPUs of several nodes are told apart", () => {
  const store = new Store();
  store.addEnded([call(7, { node: "a", ended: 50 }), call(3, { node: "b", ended: 60 })]);
  store.addEnded([call(3, { node: "b", ended: 60 }), call(7, { node: "b", ended: 70 })]);
  assert.deepEqual(store.ended.map(each => `${each.node}${each.sequence} on ${each.gpu}`), ["b7 on b/0", "b3 on b/0", "a7 on a/0"]);
  store.apply("state", { at: 1, devices: [{ node: "a", gpu: "0", utilization: 0.5 }, { node: "b", gpu: "0", utilization: 0.7 }],
    gpu_runs: [{ node: "b", gpu: "0" }], sandboxes: [{ node: "a", gpu: null }, { node: "a", gpu: "cpu" }], silent_nodes: ["c"] }, 0);
  assert.deepEqual([...store.utilisation.keys()], ["a/0", "b/0"]);
  assert.equal(store.state.gpu_runs[0].gpu, "b/0");
  assert.deepEqual(store.state.sandboxes.map(each => each.gpu), [null, "cpu"]);
});

test("calls are kept once each, the newest first, and not without end", () => {
  const store = new Store();
  store.apply("ended", { invocations: [call(2), call(1)], missed: 3 }, 0);
  store.addEnded([call(3), call(2)]);
  assert.deepEqual(store.ended.map(each => each.sequence), [3, 2, 1]);
  assert.equal(store.missed, 3);
  store.addEnded(Array.from({ length: MOST_ENDED + 10 }, (_, index) => call(index + 10)));
  assert.equal(store.ended.length, MOST_ENDED);
  assert.equal(store.known.size, MOST_ENDED);
  assert.equal(store.ended[0].sequence, MOST_ENDED + 19);
});

test("the worker's clock counts, not the page's", () => {
  const store = new Store();
  store.apply("state", { at: 5000, devices: [{ gpu: "0", utilization: 0.5 }, { gpu: "1", utilization: null }] }, 100);
  assert.equal(store.now(101), 5001);
  assert.deepEqual([...store.utilisation.keys()], ["0"]);
});

test("sums are of what ended in time; refused calls have no latency", () => {
  const ended = [call(3, { outcome: "rejected", took_ms: 1 }), call(2, { start: "cold", took_ms: 300 }), call(1, { outcome: "function_error" }), call(-500)];
  const sums = summary(ended, 1004, 60);
  assert.deepEqual([sums.calls, sums.failed, sums.refused, sums.cold, sums.ran], [3, 1, 1, 1, 2]);
  assert.equal(sums.p95, 300);
  assert.deepEqual(slowest(ended, 1004, 60, 1).map(each => each.sequence), [2]);
  assert.ok(Number.isNaN(percentile([], 0.5)));
});

test("a sandbox with several GPUs has a part of its memory on each", () => {
  const pair = { function: "pair", device_memory_bytes: 10, device_memory_place: "in", gpu: "0", gpus: ["0", "1"] };
  for (const gpu of ["0", "1"]) assert.deepEqual(memoryMap([pair], gpu), [{ name: "pair", bytes: 5, moving: 0, onHost: 0 }], gpu);
  assert.deepEqual(memoryMap([pair], "2"), []);
});

test("a call that ended has all GPUs of its row, with their node's name in a cluster", () => {
  const store = new Store();
  const ended = (sequence, invocation, gpu, gpus, more) => ({ ...call(sequence), invocation, gpu, gpus, ...more });
  store.addEnded([ended(1, "pair", "2", ["2", "3"], { node: "b" }), ended(2, "one", "0", ["0"]), ended(3, "host", "cpu", []), ended(4, "none", null, [])]);
  assert.deepEqual(Object.fromEntries(store.ended.map(each => [each.invocation, gpusOf(each)])),
    { pair: ["b/2", "b/3"], one: ["0"], host: ["cpu"], none: [null] });
});

test("memory is summed by function, and what is on the host apart", () => {
  const sandbox = (name, bytes, place, gpu = "0") => ({ function: name, device_memory_bytes: bytes, device_memory_place: place, gpu });
  const rows = memoryMap([sandbox("a", 10, "in"), sandbox("a", 5, "moving in"), sandbox("b", 40, "in"), sandbox("a", 7, "out with context"), sandbox("c", 9, "in", "1"), sandbox("d", 0, "in")], "0");
  assert.deepEqual(rows, [{ name: "b", bytes: 40, moving: 0, onHost: 0 }, { name: "a", bytes: 10, moving: 5, onHost: 7 }]);
});
