// The nodes of the worker's cluster: how they are, what they have to do, and what is wrong with them.
import { get } from "./api.js";
import { h } from "./dom.js";
import { bytes, count, plural } from "./format.js";

const PERIOD_MS = 2000;
const STATES = { up: "takes work", draining: "takes no more work", lost: "does not answer", unknown: "has not answered yet" };

/** @param {() => void} redraw */
export function nodesPage(redraw) {
  const page = { cluster: null, alone: false, error: null };
  const abort = new AbortController();
  let timer = 0;
  const look = async () => {
    try {
      page.cluster = await get("/v1/cluster", abort.signal);
      page.error = null;
    } catch (error) {
      if (abort.signal.aborted) return;
      page.error = error.message;
    }
    redraw();
    timer = setTimeout(look, PERIOD_MS);
  };
  // A worker without a cluster is not asked for one: browsers note each refusal.
  get("/v1/settings", abort.signal).then(answer => {
    page.alone = !inCluster(answer.settings);
    if (page.alone) redraw();
    else look();
  }, error => {
    page.error = error.message;
    redraw();
  });
  return { draw: () => draw(page), close: () => {
    abort.abort();
    clearTimeout(timer);
  } };
}

/** Whether a worker with these settings is a node. @param {{name: string, value: string}[]} settings */
export function inCluster(settings) {
  return settings.some(each => each.name === "--cluster-key" && each.value !== "");
}

/** What stands out of a node, in words. */
export function notesOf(node) {
  const notes = [];
  if (node.self) notes.push("this one");
  if (node.home) notes.push("has the catalog");
  if (node.problem) notes.push(node.problem);
  return notes.join(", ");
}

/** "2 × T4, 1 × V100". @param {{name: string}[]} gpus */
export function gpusOf(gpus) {
  const counts = new Map();
  for (const { name } of gpus) counts.set(name, (counts.get(name) ?? 0) + 1);
  return [...counts].map(([name, many]) => `${many} × ${name}`).join(", ") || "none";
}

/** Sums over the nodes that answer. */
export function totals(members) {
  const there = members.filter(node => node.state === "up" || node.state === "draining");
  const sum = key => there.reduce((all, node) => all + node[key], 0);
  return { there: there.length, all: members.length, load: sum("load"), slots: sum("slots"), gpus: there.reduce((all, node) => all + node.gpus.length, 0) };
}

function draw(page) {
  if (page.alone) {
    return [h("h1", null, "Nodes"), h("p", null, "This worker is in no cluster. Workers that are started with ", h("code", null, "--cluster-key"), " answer for each other.")];
  }
  const members = page.cluster?.members ?? [];
  const sums = totals(members);
  return [
    h("h1", null, "Nodes"),
    page.error ? h("p", { class: "note bad" }, page.error) : null,
    page.cluster ? h("p", null, h("b", null, `${sums.there} of ${plural(sums.all, "node")}`), ` answer: ${count(sums.load)} calls run or wait there on ${plural(sums.slots, "slot")} and ${plural(sums.gpus, "GPU")}.`) : null,
    page.cluster ? table(members) : null,
  ];
}

function table(members) {
  const column = (name, number) => h("th", { scope: "col", class: number ? "number" : null }, name);
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Nodes" }, h("table", null,
    h("thead", null, h("tr", null, column("Node"), column("State"), column("Calls", true), column("Slots", true), column("GPUs"), column("Free GPU memory", true),
      column("Warm functions", true), column("Version"), column("Notes"))),
    h("tbody", null, members.map(node => h("tr", { "data-key": node.node },
      h("th", { scope: "row" }, node.node),
      h("td", null, h("span", { class: node.state === "up" ? null : "badge bad" }, node.state), h("span", { class: "quiet" }, ` ${STATES[node.state] ?? ""}`)),
      h("td", { class: "number" }, count(node.load)), h("td", { class: "number" }, count(node.slots)), h("td", null, gpusOf(node.gpus)),
      h("td", { class: "number" }, node.gpus.length ? bytes(node.gpu_memory_free_bytes) : "–"), h("td", { class: "number" }, count(node.warm_functions)),
      h("td", null, node.version || "–"), h("td", null, notesOf(node)))))));
}
