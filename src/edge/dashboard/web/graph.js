// A workflow or a pipeline as a picture: nodes in layers from left to right, lines for what waits for what.
import { h, s } from "./dom.js";
import { layOut } from "./layers.js";

const NODE_WIDTH = 132, NODE_HEIGHT = 40, GAP_X = 48, GAP_Y = 14, PAD = 4;

/**
 * @param {{name: string, note?: string, kind?: string, href?: string, title?: string}[]} nodes
 * @param {[number, number][]} edges
 * @param {string} label
 */
export function graphPicture(nodes, edges, label) {
  if (nodes.length === 0) return null;
  const { layer, place, layers } = layOut(nodes.length, edges);
  const tallest = Math.max(...layers.map(each => each.length));
  const width = layers.length * (NODE_WIDTH + GAP_X) - GAP_X + 2 * PAD;
  const height = tallest * (NODE_HEIGHT + GAP_Y) - GAP_Y + 2 * PAD;
  const x = node => PAD + layer[node] * (NODE_WIDTH + GAP_X);
  const y = node => PAD + ((tallest - layers[layer[node]].length) / 2 + place[node]) * (NODE_HEIGHT + GAP_Y);
  const lines = edges.filter(([from, to]) => layer[from] < layer[to]).map(([from, to]) => {
    const [x1, y1, x2, y2] = [x(from) + NODE_WIDTH, y(from) + NODE_HEIGHT / 2, x(to), y(to) + NODE_HEIGHT / 2];
    const bend = Math.max(24, (x2 - x1) / 2);
    return s("path", { class: "edge", d: `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}` });
  });
  const boxes = nodes.map((node, index) => s("g", { class: `node ${node.kind ?? ""}`, transform: `translate(${x(index)} ${y(index)})` },
    s("title", null, node.title ?? `${node.name} ${node.note ?? ""}`),
    s("rect", { width: NODE_WIDTH, height: NODE_HEIGHT, rx: 5 }),
    s("text", { x: 9, y: node.note ? 17 : 25, class: "strong" }, clip(node.name, 18)),
    node.note ? s("text", { x: 9, y: 32, class: "tick" }, clip(node.note, 22)) : null));
  const text = nodes.map((node, index) => {
    const before = edges.filter(([, to]) => to === index).map(([from]) => nodes[from].name);
    return `${node.name}${before.length ? ` after ${before.join(" and ")}` : ""}`;
  }).join("; ");
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label },
    s("svg", { class: "graph", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${label}: ${text}` }, lines, boxes));
}

function clip(text, most) {
  return text.length > most ? text.slice(0, most - 1) + "…" : text;
}

/** The graph of a pipeline's definition: its inputs name components, or its own inputs as $NAME. */
export function pipelineGraph(described) {
  const components = described?.pipeline?.components ?? [];
  const names = components.map(each => each.name);
  const sliceOf = new Map();
  for (const instance of described?.instances ?? []) {
    for (const stage of (instance.stages ?? []).flat()) {
      for (const name of stage.components ?? []) sliceOf.set(name, stage.slice);
    }
  }
  const edges = [];
  components.forEach((component, to) => {
    for (const input of component.inputs ?? []) {
      const from = names.indexOf(input);
      if (from >= 0) edges.push([from, to]);
    }
  });
  return { edges, nodes: components.map(each => ({ name: each.name, note: sliceOf.has(each.name) ? `on slice ${sliceOf.get(each.name)}` : "" })) };
}

/** The graph of a workflow, with what a run did if there is one. */
export function workflowGraph(graph, calls = []) {
  const ended = new Map();
  for (const call of calls) {
    const name = call.component.replace(/\[\d+\]$/, "");
    const row = ended.get(name) ?? { ms: 0, calls: 0, failed: false };
    ended.set(name, { ms: Math.max(row.ms, call.took_ms), calls: row.calls + 1, failed: row.failed || Boolean(call.failed) });
  }
  const nodes = graph.nodes.map(node => {
    const run = ended.get(node.name);
    const marks = [node.for_each ? "for each" : "", node.conditional ? "if" : ""].filter(Boolean).join(", ");
    const told = run ? `${run.calls > 1 ? `${run.calls} calls, ` : ""}${run.ms.toFixed(0)} ms` : "";
    return { name: node.name, note: told || [node.function, marks].filter(Boolean).join(", "), kind: run?.failed ? "failed" : run ? "ran" : "",
      title: `${node.name} calls ${node.function}${marks ? ` (${marks})` : ""}` };
  });
  return { nodes, edges: graph.edges };
}
