// The first page: what the GPUs do now and did recently, who waits and why, and the slowest calls with their causes.
import { memoryBar, legend } from "./charts.js";
import { h } from "./dom.js";
import { count, duration, percent, plural } from "./format.js";
import { bars, busyShare, waitingSteps } from "./runs.js";
import { memoryMap, slowest, summary } from "./store.js";
import { timeAxis, timeline, utilisationLine, waitingArea } from "./timeline.js";
import { callTable } from "./view_invocations.js";
import { reasonWords } from "./advice.js";

const WINDOWS = [[60, "1 min"], [300, "5 min"], [900, "15 min"]];
let chosenWindow = 300;

/** @param {import("./app.js").Context} context */
export function overview({ store, now, redraw }) {
  if (store.complete && store.functions.size === 0) return emptyState();
  const from = now - chosenWindow;
  return [
    h("div", { class: "head" }, h("h1", null, "Overview"), windowChoice(redraw)),
    silentNodes(store),
    tiles(store, now),
    h("section", { "aria-labelledby": "gpus" }, h("h2", { id: "gpus" }, "GPUs"), waitingCard(store, from, now),
      placeCards(store, from, now),
      legend([["init", "sandbox and init, which hold no slot"], ["memory", "GPU memory moves"], ["run", "runs"], ["queue", "waits"]])),
    slices(store.state.slices),
    h("section", { "aria-labelledby": "slow" }, h("h2", { id: "slow" }, `Slowest calls of the last ${duration(chosenWindow * 1000)}`),
      slowCalls(store, now)),
  ];
}

/** Whose calls and figures are missing. */
export function silentNodes(store) {
  const names = store.state.silent_nodes;
  if (names.length === 0) return null;
  return h("p", { class: "note bad" }, names.length === 1 ? `Node ${names[0]} does not answer: its calls are missing.` : `Nodes ${names.join(", ")} do not answer: their calls are missing.`);
}

function emptyState() {
  return [h("h1", null, "Overview"), h("section", { class: "empty" },
    h("h2", null, "No function is deployed yet"),
    h("p", null, "Deploy one from a folder; it shows here within a second:"),
    h("pre", null, h("code", null, "lambent init hello\nlambent deploy hello\nlambent invoke hello")),
    h("p", null, "Then this page shows where it ran, how long each part of the call took, and what it waited for."))];
}

function windowChoice(redraw) {
  return h("div", { class: "choice", role: "group", "aria-label": "Time shown" }, WINDOWS.map(([seconds, name]) =>
    h("button", { type: "button", "aria-pressed": String(seconds === chosenWindow), onclick: () => {
      chosenWindow = seconds;
      redraw();
    } }, name)));
}

function tile(name, value, note, kind = "") {
  return h("div", { class: `tile ${kind}` }, h("dt", null, name), h("dd", null, value, h("small", null, note)));
}

function tiles(store, now) {
  const sums = summary(store.ended, now, chosenWindow);
  const rows = [...store.functions.values()];
  const waiting = rows.reduce((sum, row) => sum + row.queued, 0);
  const running = rows.reduce((sum, row) => sum + row.running, 0);
  const failed = sums.failed + sums.refused;
  return h("dl", { class: "tiles" },
    tile("Waiting now", count(waiting), waiting ? `${plural(rows.filter(row => row.queued).length, "function")}` : "nothing waits"),
    tile("Running now", count(running), `in ${plural(store.state.all_sandboxes, "sandbox", "sandboxes")}`),
    tile("Calls ended", count(sums.calls), `${percent(sums.ran ? sums.cold / sums.ran : 0)} cold`),
    tile("Half took at most", duration(sums.p50), `95 % at most ${duration(sums.p95)}`),
    tile("Failed or refused", count(failed), `${count(sums.failed)} failed, ${count(sums.refused)} refused`, failed ? "bad" : ""));
}

function waitingCard(store, from, now) {
  const queued = store.state.live.filter(call => call.phase === "queued");
  const byReason = new Map();
  for (const call of queued) {
    const key = `${call.function}\n${call.wait_reason}`;
    const row = byReason.get(key) ?? { function: call.function, reason: call.wait_reason, calls: 0, longest: 0 };
    row.calls += 1;
    row.longest = Math.max(row.longest, call.waited_seconds);
    byReason.set(key, row);
  }
  const rows = [...byReason.values()].sort((a, b) => b.longest - a.longest).slice(0, 6);
  return h("div", { class: "card" },
    h("h3", null, "Waiting", h("span", { class: "quiet" }, queued.length === 0 ? " nothing waits now" : "")),
    waitingArea(waitingSteps(store.ended, store.state.live, from, now), from, now), timeAxis(now - from),
    rows.length === 0 ? null : h("ul", { class: "reasons" }, rows.map(row => h("li", null,
      h("a", { href: functionLink(row.function) }, row.function), ` ${plural(row.calls, "call")}, the longest for `,
      h("b", null, duration(row.longest * 1000)), reasonWords(row.reason) ? `: ${reasonWords(row.reason)}` : ""))));
}

function places(store) {
  const devices = store.state.devices.filter(device => device.serves !== "pipelines");
  const onHost = store.ended.some(call => call.gpu === "cpu");
  return onHost ? [...devices, { gpu: "cpu", name: "the host's processors", state: "healthy" }] : devices;
}

function placeCards(store, from, now) {
  const shown = places(store);
  if (shown.length > 0) return h("div", { class: "cards" }, shown.map(place => placeCard(store, place, from, now)));
  return h("p", { class: "quiet" }, store.state.devices.length === 0
    ? "This worker has no GPU: functions run on the host's processors."
    : "Pipelines have all that this worker has of GPUs: the slices are below.");
}

function placeCard(store, device, from, now) {
  const runs = store.state.gpu_runs.filter(run => run.gpu === device.gpu);
  const isGpu = device.gpu !== "cpu";
  const share = busyShare(bars(store.ended, runs, device.gpu, from, now), device.tokens ?? 1, from, now);
  return h("article", { class: "card", "data-key": device.gpu },
    h("h3", null, isGpu ? `GPU ${device.gpu}` : "No GPU", h("span", { class: "quiet" }, ` ${device.name}`),
      device.state === "healthy" ? null : h("span", { class: "badge bad" }, `${device.state}${device.reason ? `: ${device.reason}` : ""}`)),
    isGpu ? h("p", { class: "facts" }, h("b", null, `${device.tokens_held ?? 0} of ${device.tokens ?? 0}`), " slots in use now; ",
      h("b", null, percent(share)), ` of their time in the last ${duration((now - from) * 1000)}`,
      device.utilization === null || device.utilization === undefined ? null : [", utilisation ", h("b", null, percent(device.utilization)), " now"]) : null,
    isGpu ? slotList(runs, device.tokens ?? 0) : null,
    timeline({ ended: store.ended, runs, gpu: device.gpu, from, now, slots: device.tokens }), timeAxis(now - from),
    utilisationLine(store.utilisation.get(device.gpu) ?? [], from, now),
    isGpu ? memoryBar(memoryMap(store.state.sandboxes, device.gpu), device.memory_total_bytes, Math.max(device.memory_used_bytes, device.memory_taken_bytes ?? 0)) : null);
}

function slotList(runs, slots) {
  const names = runs.map(run => (run.function
    ? h("li", { class: "slot busy" }, h("a", { href: run.invocation ? `#/invocations/${run.invocation}` : functionLink(run.function) }, run.function), ` ${duration(run.held_seconds * 1000)}`)
    : h("li", { class: "slot busy" }, `another tenant's function, ${duration(run.held_seconds * 1000)}`)));
  const free = Math.max(0, slots - runs.length);
  return h("ul", { class: "slots", "aria-label": "Concurrency slots" }, names, Array.from({ length: Math.min(free, 8) }, () => h("li", { class: "slot" }, "free")));
}

function slices(rows) {
  if (!rows || rows.length === 0) return null;
  return h("section", { "aria-labelledby": "slices" }, h("h2", { id: "slices" }, "Slices of pipelines"),
    h("div", { class: "slices" }, rows.map(slice => {
      const holders = (slice.holders ?? []).map(holder => (typeof holder === "string" ? holder : holder?.function ?? "another tenant's"));
      return h("div", { class: `slice${holders.length ? " busy" : ""}`, "data-key": slice.slice ?? slice.gpu },
        h("b", null, slice.slice ?? slice.gpu ?? ""), " ", slice.shape ?? "", h("small", null, holders.join(", ") || "free"));
    })));
}

function slowCalls(store, now) {
  const calls = slowest(store.ended, now, chosenWindow, 8);
  if (calls.length === 0) return h("p", { class: "quiet" }, "No call has ended in this time. Make one: ", h("code", null, "lambent invoke NAME"));
  return callTable(calls, now, { scale: calls[0].took_ms });
}

export function functionLink(name) {
  return `#/functions/${encodeURIComponent(name)}`;
}
