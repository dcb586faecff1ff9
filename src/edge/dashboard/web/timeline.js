// The recent minutes of a GPU: how many calls waited, and what ran in its slots. One SVG; a click on a bar opens its call.
import { duration, plural } from "./format.js";
import { h, s } from "./dom.js";
import { assignRows, bars } from "./runs.js";
import { startWords } from "./words.js";

const WIDTH = 900, ROW = 16, MOST_ROWS = 12;

/** @param {{ended: any[], runs: any[], gpu: string, from: number, now: number, slots: number}} view */
export function timeline({ ended, runs, gpu, from, now, slots }) {
  const all = bars(ended, runs, gpu, from, now);
  const rows = Math.min(MOST_ROWS, Math.max(slots || 1, assignRows(all, (now - from) / WIDTH / 4)));
  const height = rows * ROW;
  const x = at => Math.round(((Math.max(at, from) - from) / (now - from)) * WIDTH * 10) / 10;
  const shown = all.filter(bar => bar.row < MOST_ROWS).slice(-600).map(bar => barShapes(bar, x));
  const label = `What ran on ${gpu === "cpu" ? "the host's processors" : `GPU ${gpu}`} in the last ${duration((now - from) * 1000)}: ${plural(all.length, "call")}`;
  return s("svg", { class: "timeline", viewBox: `0 0 ${WIDTH} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": label,
    style: { height: `${height}px` }, onclick: open },
  Array.from({ length: rows }, (_, row) => s("rect", { class: "row", x: 0, y: row * ROW + 1, width: WIDTH, height: ROW - 2 })),
  shown);
}

function barShapes(bar, x) {
  const y = bar.row * ROW + 2, height = ROW - 4;
  const part = (name, begin, end) => (x(end) - x(begin) > 0.05 || name === "run"
    ? s("rect", { class: `f-${name}${bar.goesOn ? " goes-on" : ""}`, x: x(begin), y, width: Math.max(1.2, x(end) - x(begin)), height }) : null);
  const what = bar.function ?? "another tenant's function";
  const text = bar.goesOn ? `${what}: runs for ${duration(bar.took_ms)}` : `${what}: ${duration((bar.end - bar.begin) * 1000)}, ${startWords(bar.start)}`;
  return s("g", { "data-invocation": bar.invocation ?? "", class: "call" }, s("title", null, text),
    part("init", bar.begin, bar.ready), part("memory", bar.ready, bar.run), part("run", bar.run, bar.end));
}

function open(event) {
  const id = event.target.closest("[data-invocation]")?.getAttribute("data-invocation");
  if (id) location.hash = `#/invocations/${id}`;
}

/** How many calls waited, as an area over the same time. @param {[number, number][]} steps */
export function waitingArea(steps, from, now) {
  const most = Math.max(1, ...steps.map(([, waiting]) => waiting));
  const height = 36;
  const x = at => (((at - from) / (now - from)) * WIDTH).toFixed(1);
  const y = waiting => (height - (waiting / most) * (height - 4)).toFixed(1);
  let path = `M0 ${height}`;
  let last = 0;
  for (const [at, waiting] of steps) {
    path += `L${x(at)} ${y(last)}L${x(at)} ${y(waiting)}`;
    last = waiting;
  }
  path += `L${WIDTH} ${y(last)}L${WIDTH} ${height}Z`;
  return s("svg", { class: "timeline waiting-area", viewBox: `0 0 ${WIDTH} ${height}`, preserveAspectRatio: "none", role: "img",
    "aria-label": `Calls that waited: ${last} now, ${most} at most`,
    style: { height: `${height}px` } }, s("path", { class: "f-queue", d: path }));
}

/** What NVML told of a GPU's utilisation, as a line; nothing where it told of none. @param {[number, number][]} samples at, share */
export function utilisationLine(samples, from, now) {
  const shown = samples.filter(([at]) => at >= from);
  if (!shown.some(([, share]) => share > 0)) return null;
  const height = 30;
  const points = shown.map(([at, share]) => `${(((at - from) / (now - from)) * WIDTH).toFixed(1)},${(height - 1 - share * (height - 2)).toFixed(1)}`);
  return h("div", null, s("svg", { class: "timeline waiting-area", viewBox: `0 0 ${WIDTH} ${height}`, preserveAspectRatio: "none", role: "img",
    "aria-label": `Utilisation, ${Math.round(shown.at(-1)[1] * 100)} % now`, style: { height: `${height}px` } }, s("polyline", { class: "line", points: points.join(" ") })),
  h("small", { class: "quiet" }, "utilisation, as NVML tells it"));
}

/** The times below, as HTML: a stretched picture has no text. */
export function timeAxis(seconds) {
  return h("div", { class: "axis-times", "aria-hidden": "true" }, h("span", null, `${duration(seconds * 1000)} ago`),
    h("span", null, duration(seconds * 500) + " ago"), h("span", null, "now"));
}
