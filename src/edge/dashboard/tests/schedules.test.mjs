import assert from "node:assert/strict";
import { test } from "node:test";
import { ahead, outcome, rule } from "../web/schedules.js";

test("when a schedule is due, in words", () => {
  const now = Date.parse("2026-11-29T10:00:00Z") / 1000;
  assert.equal(ahead("2026-11-29T11:00:00Z", now).replaceAll("\u00a0", " "), "in 1 h");
  assert.equal(ahead("2026-11-29T10:00:00Z", now), "now");
  assert.equal(rule({ rate: "1 hour", cron: "", timezone: "UTC" }), "every hour");
  assert.equal(rule({ rate: "5 minutes", cron: "", timezone: "UTC" }), "every 5 minutes");
  assert.equal(rule({ rate: "", cron: "30 2 * * *", timezone: "UTC" }), "30 2 * * *");
  assert.equal(rule({ rate: "", cron: "30 2 * * *", timezone: "Europe/Zurich" }), "30 2 * * * Europe/Zurich");
});

test("how the last time of a schedule ended, in words", () => {
  const row = { last: "2026-11-29T10:00:00Z", last_outcome: "succeeded", error: "" };
  assert.deepEqual(outcome(row), ["succeeded", false]);
  assert.deepEqual(outcome({ ...row, last_outcome: "pending" }), ["pending", false]);
  assert.deepEqual(outcome({ ...row, last_outcome: "function_error" }), ["function error", true]);
  assert.deepEqual(outcome({ ...row, last_outcome: null }), ["forgotten", false]);
  assert.deepEqual(outcome({ ...row, error: "the queue is full" }), ["the queue is full", true]);
  assert.deepEqual(outcome({ last: null, last_outcome: null, error: "" }), ["–", false]);
});
