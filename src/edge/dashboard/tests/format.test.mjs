import assert from "node:assert/strict";
import { test } from "node:test";
import { ago, bytes, count, duration, percent, plural } from "../web/format.js";

const plain = text => text.replaceAll("\u00a0", " ");

test("a duration has three digits and its unit", () => {
  const cases = { 0: "0 ms", 0.004: "<0.01 ms", 0.4217: "0.422 ms", 3.14159: "3.14 ms", 312.4: "312 ms", 999.6: "1.00 s", 1900: "1.90 s", 59_940: "59.9 s",
    59_960: "1 min", 125_000: "2 min 5 s", 3_600_000: "1 h", 5_400_000: "1 h 30 min", 90_000_000: "1 d 1 h" };
  for (const [ms, text] of Object.entries(cases)) assert.equal(plain(duration(Number(ms))), text);
  assert.equal(duration(NaN), "–");
});

test("bytes are counted in powers of 1024", () => {
  const cases = { 0: "0 B", 1023: "1023 B", 1024: "1.00 KiB", 12_288: "12.0 KiB", [2 ** 34]: "16.0 GiB", [2 ** 20 - 1]: "1.00 MiB" };
  for (const [amount, text] of Object.entries(cases)) assert.equal(plain(bytes(Number(amount))), text);
});

test("counts, shares and words", () => {
  assert.equal(count(1234567), "1,234,567");
  assert.deepEqual([0, 0.004, 0.5, 1, NaN].map(percent).map(plain), ["0 %", "<1 %", "50 %", "100 %", "–"]);
  assert.equal(plain(plural(1, "call")), "1 call");
  assert.equal(plain(plural(2, "sandbox", "sandboxes")), "2 sandboxes");
  assert.equal(ago(100, 100.4), "now");
  assert.equal(plain(ago(100, 165)), "1 min 5 s ago");
});
