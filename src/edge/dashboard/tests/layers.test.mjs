import assert from "node:assert/strict";
import { test } from "node:test";
import { layOut } from "../web/layers.js";

test("a node stands behind all that it waits for", () => {
  const { layer } = layOut(5, [[0, 1], [0, 2], [1, 3], [2, 3], [0, 3], [3, 4]]);
  assert.deepEqual(layer, [0, 1, 1, 2, 3]);
});

test("neighbours are put side by side, so that lines do not cross", () => {
  // 0 and 1 lead to 3 and 2, crosswise by their numbers.
  const { place } = layOut(4, [[0, 3], [1, 2]]);
  assert.equal(place[0] < place[1], place[3] < place[2]);
});

test("edges that name no node, loops and circles do not hang it", () => {
  assert.deepEqual(layOut(0, []).layers, []);
  assert.deepEqual(layOut(2, [[0, 7], [-1, 1], [1, 1]]).layer, [0, 0]);
  assert.equal(layOut(2, [[0, 1], [1, 0]]).layer.length, 2);
});
