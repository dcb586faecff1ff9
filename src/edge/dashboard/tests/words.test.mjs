import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { causeSentence, findings, headline, mainReason, reasonAdvice, reasonWords, settingText, waitReasons } from "../web/words.js";

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
  assert.equal(plain(settingText("timeout_seconds", 30)), "30.0 s");
  assert.equal(settingText("mounts", []), "–");
  assert.equal(settingText("checkpoint", false), "no");
});

test("of several reasons the longest counts", () => {
  assert.equal(mainReason({ at_work: 15, own_queue: 6190, none: 9000 }, "at_work"), "own_queue");
  assert.equal(mainReason({}, "at_work"), "at_work");
  assert.equal(mainReason(undefined, "at_work"), "at_work");
});

test("a wait behind calls of its own function says what held those", () => {
  const reasons = waitReasons({ own_queue: 13_300, at_work: 402 }, "at_work");
  assert.deepEqual(reasons, { wait_reason: "own_queue", front_reason: "at_work" });
  const [queue] = findings(call({ queue: 13_700, run: 312 }, reasons));
  assert.match(queue.text, /^It stood behind other calls of its function\. At the front of them: its sandboxes were at work or starting/);
  assert.match(queue.advice, /Its calls come faster.*Another one is started/);
  assert.deepEqual(waitReasons({ own_queue: 5 }, "own_queue"), { wait_reason: "own_queue", front_reason: "" });
  assert.deepEqual(waitReasons({ no_token: 5 }, "no_token"), { wait_reason: "no_token", front_reason: "" });
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

test("every reason that the command has words for has some here, with advice", () => {
  const source = readFileSync(new URL("../../cli/wait_words.cc", import.meta.url), "utf8");
  const reasons = [...source.matchAll(/\{"(\w+)",/g)].map(match => match[1]);
  assert.ok(reasons.length > 10);
  for (const reason of reasons) {
    assert.notEqual(reasonWords(reason), reason.replaceAll("_", " "), reason);
    assert.notEqual(reasonAdvice(reason), "", reason);
  }
  assert.equal(reasonWords("none"), "");
  assert.equal(reasonWords("something_new"), "something new");
});
