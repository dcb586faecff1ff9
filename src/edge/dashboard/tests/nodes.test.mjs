import assert from "node:assert/strict";
import { test } from "node:test";
import { gpusOf, inCluster, notesOf, totals } from "../web/view_nodes.js";

const node = more => ({ node: "a", state: "up", self: false, home: false, problem: "", load: 3, slots: 4, gpus: [{ name: "T4" }], ...more });

test("a worker with a key of a cluster is a node", () => {
  assert.equal(inCluster([{ name: "--cluster-key", value: "" }, { name: "--listen", value: "x" }]), false);
  assert.equal(inCluster([{ name: "--cluster-key", value: "/etc/key" }]), true);
});

test("equal GPUs are counted", () => {
  assert.equal(gpusOf([{ name: "T4" }, { name: "V100" }, { name: "T4" }]), "2 × T4, 1 × V100");
  assert.equal(gpusOf([]), "none");
});

test("notes say which node is asked, which has the catalog, and what is wrong", () => {
  assert.equal(notesOf(node()), "");
  assert.equal(notesOf(node({ self: true, home: true, problem: "another key" })), "this one, has the catalog, another key");
});

test("nodes that do not answer are not summed", () => {
  const members = [node(), node({ state: "draining" }), node({ state: "lost", load: 99, slots: 99 })];
  assert.deepEqual(totals(members), { there: 2, all: 3, load: 6, slots: 8, gpus: 2 });
});
