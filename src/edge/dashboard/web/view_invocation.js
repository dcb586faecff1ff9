// One call: where its time went, why, and the scheduler's own story of it.
import { get, getWithStatus } from "./api.js";
import { phaseBar } from "./charts.js";
import { h } from "./dom.js";
import { ago, bytes, clock, duration, percent, plural } from "./format.js";
import { graphPicture, workflowGraph } from "./graph.js";
import { placeOf, reasonWords, waitReasons } from "./advice.js";
import { PHASES, findings, headline, outcomeWords, startWords } from "./words.js";

/** @param {string} id @param {() => void} redraw @param {(name: string) => string | undefined} kindOf */
export function invocationPage(id, redraw, kindOf) {
  const page = { call: null, live: null, error: null, story: null, storyError: null, asked: false, trace: null, graph: null };
  const abort = new AbortController();
  const path = encodeURIComponent(id);

  const ask = async () => {
    try {
      page.call = await get(`/v1/activity/invocations/${path}`, abort.signal);
      page.live = null;
      page.error = null;
    } catch (error) {
      if (abort.signal.aborted) return;
      await askLive(error);
    }
    if (page.call && !page.asked) {
      page.asked = true;
      await askSettings();
      askStory();
    }
    redraw();
  };
  const askLive = async error => {
    try {
      const { status, body } = await getWithStatus(`/v1/invocations/${path}`, abort.signal);
      page.live = status === 202 ? body : null;
      page.error = page.live ? null : error.message;
    } catch {
      page.live = null;
      page.error = error.message;
      if (!page.asked) {
        page.asked = true;
        askStory();
      }
    }
  };
  // What advice depends on: whether it uses a GPU, and how many of its calls may run at once.
  const askSettings = async () => {
    try {
      const told = await get(`/v1/activity/functions/${encodeURIComponent(page.call.function)}`, abort.signal);
      if (page.call) page.call = { ...page.call, spec: told.function };
      redraw();
    } catch { /* the function is gone, or its settings are not for this reader */ }
  };
  const askStory = async () => {
    // The page that opens here has no functions yet: their settings say it then.
    const kind = page.call ? (page.call.spec?.kind ?? kindOf(page.call.function)) : undefined;
    if (kind === "workflow" || kind === "pipeline" || !page.call) await askTrace();
    redraw();
    if (page.trace) return;  // that is the story: the journal has none of these
    try {
      page.story = await get(`/v1/invocations/${path}/why`, abort.signal);
      if (page.call) page.call = { ...page.call, ...waitReasons(page.story.waits_ms, page.call.wait_reason) };
    } catch (error) {
      if (abort.signal.aborted) return;
      page.storyError = error;
    }
    redraw();
  };
  const askTrace = async () => {
    try {
      page.trace = await get(`/v1/invocations/${path}/trace`, abort.signal);
      if (page.trace.calls) page.graph = (await get(`/v1/activity/functions/${encodeURIComponent(page.trace.function)}`, abort.signal)).graph;
    } catch { /* the worker has forgotten it */ }
  };
  ask();
  const timer = setInterval(() => { if (!page.call) ask(); }, 1000);
  return {
    draw: context => draw(id, page, context),
    close: () => {
      clearInterval(timer);
      abort.abort();
    },
  };
}

function draw(id, page, { now }) {
  const head = h("p", { class: "quiet id" }, id);
  if (page.live) return [h("h1", null, "A call that is not over"), head, liveCard(page.live)];
  if (!page.call) {
    if (page.error === null) return [h("h1", null, "Call"), head, h("p", { class: "quiet" }, "Asks the worker …")];
    return [h("h1", null, "Call"), head, h("p", { class: "note" }, `${page.error}.`), trace(page), storySection(page)];
  }
  const { call } = page;
  return [
    h("div", { class: "head" }, h("h1", null, "A call of ", h("a", { href: `#/functions/${encodeURIComponent(call.function)}` }, call.function)),
      h("span", { class: `badge ${call.outcome === "succeeded" ? "good" : "bad"}` }, outcomeWords(call))),
    head,
    h("p", { class: "headline" }, headline(call)),
    call.outcome === "rejected" ? null : phases(call),
    call.error ? h("p", { class: "note bad" }, call.error) : null,
    h("section", { "aria-labelledby": "why" }, h("h2", { id: "why" }, "Why it took that long"),
      h("ol", { class: "findings" }, findings(call).map(each => h("li", { class: `finding b-${each.key}` },
        h("h3", null, each.title, each.share ? h("span", { class: "quiet" }, ` ${each.share}`) : null),
        h("p", null, each.text), each.advice ? h("p", { class: "quiet" }, each.advice) : null)))),
    h("dl", { class: "tiles" },
      tile("Came", clock(call.ended - call.took_ms / 1000), ago(call.ended, now)),
      tile("Start", startWords(call.start), "how warm its place was"),
      tile("Place", call.gpu === null ? "–" : call.gpu === "cpu" ? "no GPU" : call.gpus?.length > 1 ? `GPUs ${call.gpus.join(", ")}` : `GPU ${call.gpu}`, `version ${call.version}${call.node ? `, node ${call.node}` : ""}`),
      tile("GPU memory", bytes(call.device_memory_peak_bytes), "at most"),
      tile("Host memory", bytes(call.host_memory_peak_bytes), "at most"),
      call.in_time === null ? null : tile("Its SLO", call.in_time ? "kept" : "missed", "", call.in_time ? "" : "bad")),
    trace(page),
    storySection(page),
  ];
}

function tile(name, value, note, kind = "") {
  return h("div", { class: `tile ${kind}` }, h("dt", null, name), h("dd", null, value, h("small", null, note)));
}

function phases(call) {
  return h("section", { class: "card", "aria-labelledby": "parts" }, h("h2", { id: "parts" }, "Where the time went"),
    phaseBar(call), h("table", { class: "phases-table" }, h("thead", null, h("tr", null, h("th", { scope: "col" }, "Part"),
      h("th", { scope: "col", class: "number" }, "Time"), h("th", { scope: "col", class: "number" }, "Share"), h("th", { scope: "col" }, "What happened"))),
    h("tbody", null, PHASES.map(([key, name, meaning]) => h("tr", { class: call.phases_ms[key] > 0 ? "" : "quiet" },
      h("th", { scope: "row" }, h("span", { class: `swatch c-${key}` }), name), h("td", { class: "number" }, duration(call.phases_ms[key])),
      h("td", { class: "number" }, call.took_ms > 0 ? percent(call.phases_ms[key] / call.took_ms) : "–"),
      h("td", null, call.phases_ms[key] > 0 ? meaning : "nothing to do"))))));
}

function liveCard(live) {
  const words = reasonWords(live.wait_reason, placeOf(live));
  return h("section", { class: "card" },
    h("p", { class: "headline" }, live.phase === "queued" ? `It waits for its turn, for ${duration((live.waited_seconds ?? 0) * 1000)} by now${words ? `: ${words}` : ""}.`
      : live.phase === "waiting" ? `Run ${live.run} is due in ${duration((live.due_in_seconds ?? 0) * 1000)}: the last one failed with ${live.last_failure}`
      : live.phase === "starting" ? "Its sandbox is being started." : "It runs."),
    live.token_holders?.length ? [h("h2", null, "Who has the GPUs meanwhile"), h("ul", { class: "reasons" }, live.token_holders.map(holder => h("li", null,
      `GPU ${holder.gpu}: `, h("b", null, holder.function ?? "another tenant's function"), ` for ${duration(holder.held_seconds * 1000)}`,
      holder.most_left_seconds === null || holder.most_left_seconds === undefined ? "" : `, at most ${duration(holder.most_left_seconds * 1000)} more`)))] : null);
}

function trace(page) {
  const found = page.trace;
  if (!found) return null;
  if (found.calls) {
    const graph = page.graph ? workflowGraph(page.graph, found.calls) : null;
    return h("section", { "aria-labelledby": "run" }, h("h2", { id: "run" }, "The run of the workflow"),
      graph ? graphPicture(graph.nodes, graph.edges, "Workflow") : null, spans(found.calls.map(call => ({
        name: call.component, at: call.at_ms, ms: call.took_ms, note: call.function, href: `#/invocations/${call.invocation}` })), found.took_ms));
  }
  return h("section", { "aria-labelledby": "run" }, h("h2", { id: "run" }, "What the pipeline did"),
    found.waits?.length ? h("ul", { class: "reasons" }, found.waits.map(wait => h("li", null, h("b", null, duration(wait.ms)), ` ${reasonWords(wait.reason)}`,
      wait.other ? `; most of it with ${wait.other}` : ""))) : null,
    spans((found.stages ?? []).map(stage => ({ name: `Stage ${stage.stage}`, note: `slice ${stage.slice}: ${(stage.components ?? []).map(each => each.component).join(", ")}`,
      at: stage.at_ms, ms: stage.queue_ms + stage.wait_ms + stage.receive_ms + stage.work_ms + stage.send_ms })), found.took_ms));
}

/** Rows with a bar from when to when. */
function spans(rows, total) {
  const all = Math.max(total, 0.001, ...rows.map(row => row.at + row.ms));
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Parts of the run" }, h("table", { class: "spans" },
    h("thead", null, h("tr", null, h("th", { scope: "col" }, "Part"), h("th", { scope: "col", class: "number" }, "Began after"), h("th", { scope: "col", class: "number" }, "Took"), h("th", { scope: "col", class: "wide" }, "When"))),
    h("tbody", null, rows.map(row => h("tr", null, h("th", { scope: "row" }, row.href ? h("a", { href: row.href }, row.name) : row.name, h("small", null, row.note)),
      h("td", { class: "number" }, duration(row.at)), h("td", { class: "number" }, duration(row.ms)),
      h("td", { class: "wide" }, h("div", { class: "span-line" }, h("span", { class: "c-run", style: {
        "margin-left": `${(100 * row.at) / all}%`, width: `${Math.max(0.5, (100 * row.ms) / all)}%` } }))))))));
}

function storySection(page) {
  if (page.trace) return null;
  if (page.story) return story(page.story, page.call ? placeOf(page.call) : "");
  if (!page.storyError) {
    return page.asked ? h("section", null, h("h2", null, "What the scheduler did"), h("p", { class: "quiet", role: "status" }, "Reads the journal …")) : null;
  }
  const forbidden = page.storyError.status === 403;
  return h("section", null, h("h2", null, "What the scheduler did"), h("p", { class: "quiet" }, forbidden
    ? "The whole story names functions of all tenants: a token with the scope admin shows it."
    : `The journal does not tell: ${page.storyError.message}.`));
}

function story(found, place) {
  const waits = Object.entries(found.waits_ms ?? {}).filter(([, ms]) => ms > 0).sort((a, b) => b[1] - a[1]);
  const first = found.went_first ?? [];
  return h("section", { "aria-labelledby": "story" }, h("h2", { id: "story" }, "What the scheduler did"),
    waits.length ? [h("h3", null, "It waited because"), h("ul", { class: "reasons" }, waits.map(([reason, ms]) => h("li", null, h("b", null, duration(ms)), ` ${reasonWords(reason, place) || reason}`)))] : null,
    first.length ? [h("h3", null, "Meanwhile others were dispatched"), h("ul", { class: "reasons" }, first.map(other => h("li", null,
      h("b", null, plural(other.count, "call")), ` of ${other.function}`,
      other.virtual_time_ms < other.own_virtual_time_ms ? `, which had used ${duration(other.own_virtual_time_ms - other.virtual_time_ms)} less of its share of the GPUs`
        : other.due_before_ms > 0 ? ", which the policy put first" : "")))] : null,
    found.evicted?.length ? [h("h3", null, "For it was evicted"), h("p", null, found.evicted.join(", "))] : null,
    h("h3", null, "Step by step"), h("ol", { class: "story" }, (found.story ?? []).map(moment => h("li", null, h("span", { class: "at" }, duration(moment.at_ms)), h("span", null, moment.what)))));
}
