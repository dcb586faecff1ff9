import assert from "node:assert/strict";
import { test } from "node:test";
import { EventParser } from "../web/sse.js";

function parse(pieces) {
  const events = [];
  const parser = new EventParser((name, data) => events.push([name, data]));
  for (const piece of pieces) parser.push(piece);
  return events;
}

test("events are the same however the stream was cut", () => {
  const text = "event: state\ndata: {\"at\": 1}\n\n: a comment\n\nevent: ended\r\ndata: a\r\ndata: b\r\n\r\ndata: plain\n\nevent: cut off";
  const whole = parse([text]);
  assert.deepEqual(whole, [["state", "{\"at\": 1}"], ["ended", "a\nb"], ["message", "plain"]]);
  assert.deepEqual(parse([...text]), whole);
});

test("an event that never ends is an error, not all memory", () => {
  assert.throws(() => parse(["data: ", "x".repeat(9 * 1024 * 1024)]), /too long/);
});
