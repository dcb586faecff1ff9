// One function: how its calls went, its settings, its versions, its graph, its last calls and its log.
import { get } from "./api.js";
import { histogram, legend, startBar } from "./charts.js";
import { h } from "./dom.js";
import { ago, bytes, count, duration, percent } from "./format.js";
import { graphPicture, pipelineGraph, workflowGraph } from "./graph.js";
import { logView } from "./log_view.js";
import { callTable } from "./view_invocations.js";
import { PHASES, STARTS, nowWords, settingText, callWords, kindWords } from "./words.js";

const MOST_CALLS = 20;

/** A page that asks for what it shows, and again every few seconds. @param {string} name @param {() => void} redraw */
export function functionPage(name, redraw) {
  const path = encodeURIComponent(name);
  const page = { detail: null, versions: null, aliases: null, revisions: null, pipeline: null, error: null, log: logView(name) };
  const abort = new AbortController();
  const ask = async (key, address) => {
    try {
      page[key] = await get(address, abort.signal);
    } catch (error) {
      if (abort.signal.aborted) return;
      if (key === "detail") page.error = error.message;
    }
    redraw();
  };
  const refresh = async () => {
    page.error = null;
    await ask("detail", `/v1/activity/functions/${path}`);
    if (page.detail?.function.kind === "pipeline") await ask("pipeline", `/v1/functions/${path}/pipeline`);
  };
  refresh();
  for (const key of ["versions", "aliases", "revisions"]) ask(key, `/v1/functions/${path}/${key}`);
  const timer = setInterval(refresh, 5000);
  return {
    draw: context => draw(name, page, context),
    close: () => {
      clearInterval(timer);
      abort.abort();
      page.log.stop();
    },
  };
}

/** @param {import("./app.js").Context} context */
function draw(name, page, { store, now }) {
  const row = store.functions.get(name) ?? page.detail?.activity;
  if (!row) {
    return [h("h1", null, name), h("p", { class: page.error ? "note bad" : "quiet" }, page.error ?? "Asks the worker …")];
  }
  const ended = store.ended.filter(call => call.function === name);
  const calls = row.cold + row.gpu_cold + row.warm;
  const kind = kindWords(row);
  return [
    h("div", { class: "head" }, h("h1", null, name, h("span", { class: "badge" }, kind)), h("p", { class: "quiet" }, nowWords(row))),
    h("dl", { class: "tiles" },
      tile("Calls", count(calls), `${count(row.failed)} failed, ${count(row.refused)} refused`),
      tile("p50", calls ? duration(row.p50_ms) : "–", "half took at most this"),
      tile("p95", calls ? duration(row.p95_ms) : "–", "95 % took at most this"),
      tile("p99", calls ? duration(row.p99_ms) : "–", "99 % took at most this"),
      tile("Ahead of its share", duration(row.ahead_ms), "of the function that had least"),
      row.in_time + row.late > 0 ? tile("In time", percent(row.in_time / (row.in_time + row.late)), `${count(row.late)} late${sloWords(page)}`) : null),
    h("div", { class: "cards" },
      h("section", { class: "card", "aria-labelledby": "latency" }, h("h2", { id: "latency" }, "How long calls took"),
        histogram(page.detail?.latency_buckets_ms ?? [], [["p50", row.p50_ms], ["p95", row.p95_ms], ["p99", row.p99_ms]])),
      h("section", { class: "card", "aria-labelledby": "starts" }, h("h2", { id: "starts" }, "How calls started"), startBar(row),
        legend(STARTS.map(([key, title, meaning]) => [key, `${title}: ${meaning}`, count(row[key])])))),
    graphSection(page),
    h("section", { "aria-labelledby": "last-calls" }, h("h2", { id: "last-calls" }, "Last calls"),
      ended.length === 0 ? h("p", { class: "quiet" }, "None is remembered: ", h("code", null, callWords(name, kind)))
        : [callTable(ended.slice(0, MOST_CALLS), now, { hidesFunction: true }), legend(PHASES.map(([key, title]) => [key, title]))]),
    h("section", { "aria-labelledby": "log" }, h("h2", { id: "log" }, "Log"), page.log.element),
    h("div", { class: "cards" }, settings(page.detail?.function, page.pipeline?.isolation?.chosen), versions(page, now)),
  ];
}

function sloWords(page) {
  const slo = page.detail?.function?.slo_ms || page.pipeline?.slo?.ms;
  return slo ? `, its SLO is ${duration(slo)}` : "";
}

function tile(name, value, note) {
  return h("div", { class: "tile" }, h("dt", null, name), h("dd", null, value, h("small", null, note)));
}

function graphSection(page) {
  const graph = page.detail?.graph ? workflowGraph(page.detail.graph) : page.pipeline ? pipelineGraph(page.pipeline) : null;
  if (!graph || graph.nodes.length === 0) return null;
  const title = page.detail.graph ? "Workflow" : "Pipeline";
  return h("section", { "aria-labelledby": "graph" }, h("h2", { id: "graph" }, title), graphPicture(graph.nodes, graph.edges, title),
    page.pipeline ? pipelineFacts(page.pipeline) : null);
}

function pipelineFacts(described) {
  const instances = described.instances ?? [];
  if (instances.length === 0) return h("p", { class: "quiet" }, "It has no instance now; one is made when a request comes.");
  return h("ul", { class: "reasons" }, instances.map(each => h("li", null, h("b", null, `Instance ${each.instance}`), ` ${each.allocation_mode}, ${each.state}: `,
    (each.stages ?? []).flat().map(stage => `${(stage.components ?? []).join(" + ")} on ${stage.slice}`).join(", then "),
    `; ${duration(each.latency_ms)} for a request, ${percent(each.utilisation)} used`)));
}

const COUNTED = new Set(["name", "queued", "running", "completed", "sandboxes"]);

// The slices that it has follow from its SLO.
const NOT_OF_PIPELINES = new Set(["weight", "max_concurrency", "max_queue_time_seconds", "min_instances", "keep_alive_seconds", "warm_up", "handler"]);
const GPU_ONLY = new Set(["gpu_memory_bytes", "gpu_count", "gpu_runtime", "gpu_share", "memory_mode", "working_set", "checkpoint", "launch_mode", "gpu_domain"]);

/** What says nothing of this function is left out. @param {any} spec @param {string} [isolation] of a pipeline: where its requests run */
export function settingRows(spec, isolation) {
  const onSlices = spec.kind === "pipeline" && isolation !== "shared";
  return Object.entries(spec).filter(([key, value]) => !COUNTED.has(key) && settingText(key, value) !== "–" &&
    (spec.kind === "http" ? !key.startsWith("async_") : !key.startsWith("http_")) &&
    (spec.gpu_memory_bytes > 0 && !onSlices || !GPU_ONLY.has(key)) && (spec.kind !== "pipeline" || !NOT_OF_PIPELINES.has(key)));
}

function settings(spec, isolation) {
  if (!spec) return null;
  const rows = settingRows(spec, isolation);
  return h("section", { class: "card", "aria-labelledby": "settings" }, h("h2", { id: "settings" }, "Settings"),
    h("dl", { class: "settings" }, rows.map(([key, value]) => h("div", null,
      h("dt", null, key.replace(/_(bytes|seconds|ms)$/, "").replaceAll("_", " ")), h("dd", null, settingText(key, value))))));
}

function versions(page, now) {
  const list = (rows, empty, show) => (rows?.length ? h("ul", { class: "reasons" }, rows.slice(-10).reverse().map(row => h("li", null, show(row)))) : h("p", { class: "quiet" }, empty));
  return h("section", { class: "card", "aria-labelledby": "versions" }, h("h2", { id: "versions" }, "Versions, aliases, revisions"),
    h("h3", null, "Aliases"), list(page.aliases?.aliases, "None.", row => [h("b", null, row.name), ` is version ${row.version}`,
      row.second ? `, and ${percent(row.second_share)} of the calls go to ${row.second}` : ""]),
    h("h3", null, "Versions"), list(page.versions?.versions, "None is published.", row => [h("b", null, row.version), ` of ${ago(row.published_at, now)}, ${bytes(row.code_bytes)} ${row.description ?? ""}`]),
    h("h3", null, "Revisions"), list(page.revisions?.revisions, "None.", row => [h("b", null, String(row.revision)), ` of ${ago(row.deployed_at, now)}`, row.current ? ", the current one" : ""]));
}
