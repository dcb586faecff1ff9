// The pictures that several views have: bars of phases and starts, a histogram, a map of memory. Each has its facts as text, too.
import { bytes, count, duration, percent } from "./format.js";
import { h, s } from "./dom.js";
import { PHASES, STARTS } from "./words.js";

function segments(kind, parts, total, describe) {
  const shown = parts.filter(([, amount]) => amount > 0);
  return h("div", { class: `bar ${kind}` }, shown.map(([key, amount, name]) =>
    h("span", { class: `seg c-${key}`, "data-key": key, title: `${name}: ${describe(amount)}`,
      style: { "flex-grow": String(amount / total) } })));
}

/** The phases of a call as one bar; `scale` is the time that the full width stands for. */
export function phaseBar(call, scale = call.took_ms) {
  const parts = PHASES.map(([key, name]) => [key, call.phases_ms[key] ?? 0, name]);
  const total = call.took_ms || 1;
  const bar = segments("phases", parts, total, duration);
  bar.style.setProperty("width", `${Math.max(1, Math.min(100, (100 * total) / (scale || total)))}%`);
  bar.setAttribute("role", "img");
  bar.setAttribute("aria-label", parts.filter(([, ms]) => ms > 0).map(([, ms, name]) => `${name} ${duration(ms)}`).join(", "));
  return bar;
}

/** How many calls of a function were cold, GPU-cold and warm. */
export function startBar(row) {
  const parts = STARTS.map(([key, name]) => [key, row[key] ?? 0, name]);
  const total = parts.reduce((sum, [, amount]) => sum + amount, 0);
  if (total === 0) return h("span", { class: "quiet" }, "–");
  const bar = segments("starts", parts, total, amount => `${count(amount)} (${percent(amount / total)})`);
  bar.setAttribute("role", "img");
  bar.setAttribute("aria-label", parts.map(([, amount, name]) => `${name} ${count(amount)}`).join(", "));
  return bar;
}

/** @param {[string, string, string?][]} entries key, name, amount */
export function legend(entries) {
  return h("ul", { class: "legend" }, entries.map(([key, name, amount]) =>
    h("li", null, h("span", { class: `swatch c-${key}` }), name, amount ? h("b", null, amount) : null)));
}

/** A histogram of latencies with equal ratios along the axis. @param {[number, number][]} buckets upper bound in ms, count */
export function histogram(buckets, marks) {
  if (buckets.length === 0) return h("p", { class: "quiet" }, "No call has ended yet.");
  const step = Math.log2(2 ** 0.25);
  const at = ms => Math.log2(ms) / step;
  const first = Math.floor(at(buckets[0][0])) - 2;
  const last = Math.ceil(at(buckets.at(-1)[0])) + 1;
  const width = 640, height = 150, base = 120, slot = width / Math.max(8, last - first);
  const most = Math.max(...buckets.map(([, amount]) => amount));
  const x = ms => (at(ms) - first) * slot;
  const columns = buckets.map(([bound, amount]) => {
    const tall = Math.max(2, (amount / most) * 88);
    return s("rect", { class: "f-run", x: x(bound) - slot + 0.5, y: base - tall, width: Math.max(1, slot - 1), height: tall, rx: 1 },
      s("title", null, `up to ${duration(bound)}: ${count(amount)}`));
  });
  const ticks = [];
  for (let power = -2; power <= 6; power += 1) {
    const ms = 10 ** power;
    if (x(ms) < 8 || x(ms) > width - 8) continue;
    ticks.push(s("line", { class: "axis", x1: x(ms), x2: x(ms), y1: base, y2: base + 4 }),
      s("text", { class: "tick", x: x(ms), y: base + 17, "text-anchor": "middle" }, duration(ms)));
  }
  // Marks at nearly one place share a label.
  const joined = [];
  for (const [name, ms] of marks) {
    if (!(ms > 0)) continue;
    if (joined.length > 0 && x(ms) - joined.at(-1).x < 40) joined.at(-1).names.push(name);
    else joined.push({ x: x(ms), names: [name] });
  }
  const lines = joined.map(mark => s("g", null, s("line", { class: "mark", x1: mark.x, x2: mark.x, y1: 18, y2: base }),
    s("text", { class: "tick strong", x: Math.min(width - 30, Math.max(20, mark.x)), y: 13, "text-anchor": "middle" }, mark.names.join(", "))));
  return s("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": "Latencies: " + marks.map(([name, ms]) => `${name} ${duration(ms)}`).join(", ") },
  s("line", { class: "axis", x1: 0, x2: width, y1: base, y2: base }), columns, lines, ticks);
}

/** @param {{name: string, bytes: number, moving: number, onHost: number}[]} rows @param {number} total bytes of the GPU */
export function memoryBar(rows, total, used) {
  const here = rows.filter(row => row.bytes + row.moving > 0);
  const known = here.reduce((sum, row) => sum + row.bytes + row.moving, 0);
  const other = Math.max(0, Math.min(total, used) - known);
  const scale = Math.max(total, known + other) || 1;
  const segment = (row, index) => h("span", { class: `seg f${index % 6}${row.moving > row.bytes ? " moving" : ""}`, "data-key": row.name,
    title: `${row.name}: ${bytes(row.bytes + row.moving)}`, style: { "flex-basis": `${(100 * (row.bytes + row.moving)) / scale}%` } });
  const label = here.map(row => `${row.name} ${bytes(row.bytes + row.moving)}`).join(", ");
  return [
    h("div", { class: "bar memory", role: "img", "aria-label": `GPU memory: ${label || "no function has any"}; ${bytes(total)} in all` },
      here.map(segment), other > total / 500 ? h("span", { class: "seg other", title: `contexts and others: ${bytes(other)}`,
        style: { "flex-basis": `${(100 * other) / scale}%` } }) : null),
    h("ul", { class: "legend" },
      here.slice(0, 6).map((row, index) => h("li", null, h("span", { class: `swatch f${index % 6}` }), row.name, h("b", null, bytes(row.bytes + row.moving)))),
      here.length > 6 ? h("li", null, `and ${here.length - 6} more`) : null,
      other > total / 500 ? h("li", null, h("span", { class: "swatch other" }), "contexts and others", h("b", null, bytes(other))) : null,
      rows.filter(row => row.onHost > 0).slice(0, 4).map(row =>
        h("li", null, h("span", { class: "swatch host" }), `${row.name} on the host`, h("b", null, bytes(row.onHost))))),
  ];
}
