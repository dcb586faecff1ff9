import assert from "node:assert/strict";
import { test } from "node:test";
import { assignRows, bars, busyShare, waitingSteps } from "../web/runs.js";

const call = (ended, took, queue, more = {}) => ({ function: "f", invocation: `at-${ended}`, ended, took_ms: took, outcome: "succeeded", start: "warm", gpu: "0",
  phases_ms: { queue, sandbox: 0, init: 0, memory: 0, run: took - queue }, ...more });

test("a bar begins when the wait ends", () => {
  const [bar] = bars([call(100, 3000, 2000), call(100, 1000, 0, { gpu: "1" }), call(50, 10, 0)], [], "0", 60, 110);
  assert.equal(bar.begin, 99);
  assert.equal(bar.end, 100);
});

test("a call with several GPUs has a bar on each", () => {
  const pair = call(100, 1000, 0, { gpus: ["0", "1"] });
  assert.deepEqual(["0", "1", "2"].map(gpu => bars([pair], [], gpu, 60, 110).length), [1, 1, 0]);
});

test("what overlaps is in different rows, and a row is used again", () => {
  const found = bars([call(10, 5000, 0), call(12, 4000, 0), call(15, 3000, 0)], [{ gpu: "0", function: null, held_seconds: 4 }], "0", 0, 16);
  assert.equal(assignRows(found), 2);
  assert.deepEqual(found.map(bar => bar.row), [0, 1, 0, 1]);
  assert.equal(found.at(-1).goesOn, true);
});

test("calls that follow each other in a slot share a row, though the one is counted as ended a little later", () => {
  const found = bars([call(10.02, 1020, 0), call(11, 1000, 0)], [], "0", 0, 12);
  assert.equal(assignRows(found, 0.05), 1);
  assert.equal(assignRows(found), 2);
});

test("the busy share is of all slots", () => {
  const found = bars([call(10, 5000, 0)], [], "0", 0, 10);
  assert.equal(busyShare(found, 2, 0, 10), 0.25);
  assert.ok(Number.isNaN(busyShare(found, 0, 0, 10)));
});

test("waiting goes up when a call comes and down when it goes on", () => {
  const steps = waitingSteps([call(10, 6000, 4000), call(9, 6000, 5000)], [{ phase: "queued", waited_seconds: 2 }, { phase: "running", waited_seconds: 9 }], 0, 12);
  assert.deepEqual(steps, [[0, 0], [3, 1], [4, 2], [8, 0], [10, 1]]);
});
