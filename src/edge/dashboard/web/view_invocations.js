// Calls as a table: which function, how long, in which parts, and why; and the page of all that are remembered.
import { legend, phaseBar } from "./charts.js";
import { h } from "./dom.js";
import { ago, clock, count, duration } from "./format.js";
import { PHASES, causeSentence, outcomeWords, startWords } from "./words.js";

const PAGE = 50;
const filters = { text: "", outcome: "", start: "", page: 0, order: "newest" };

/** @param {any[]} calls @param {number} now @param {{scale?: number, hidesFunction?: boolean}} options */
export function callTable(calls, now, { scale, hidesFunction = false } = {}) {
  const longest = scale ?? Math.max(1, ...calls.map(call => call.took_ms));
  const hasNodes = calls.some(call => call.node);
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Calls" }, h("table", { class: "calls" },
    h("thead", null, h("tr", null, hidesFunction ? null : h("th", { scope: "col" }, "Function"), h("th", { scope: "col" }, "Ended"),
      h("th", { scope: "col", class: "number" }, "Took"), h("th", { scope: "col", class: "wide" }, "In parts"), h("th", { scope: "col" }, "Start"), hasNodes ? h("th", { scope: "col" }, "Node") : null,
      h("th", { scope: "col" }, "Why so long"))),
    h("tbody", null, calls.map(call => h("tr", { "data-key": call.invocation },
      hidesFunction ? null : h("th", { scope: "row" }, h("a", { href: `#/functions/${encodeURIComponent(call.function)}` }, call.function)),
      h("td", { class: "quiet", title: clock(call.ended) }, ago(call.ended, now)),
      h("td", { class: "number" }, h("a", { href: `#/invocations/${call.invocation}`, "aria-label": `${duration(call.took_ms)}: the call's page` }, duration(call.took_ms))),
      h("td", { class: "wide" }, call.outcome === "rejected" ? null : phaseBar(call, longest)),
      h("td", null, call.outcome === "rejected" ? "–" : startWords(call.start)),
      hasNodes ? h("td", null, call.node ?? "") : null,
      h("td", { class: "why" }, call.outcome === "succeeded" ? null : h("span", { class: "badge bad" }, outcomeWords(call)), " ", causeSentence(call)))))));
}

/** @param {import("./app.js").Context} context */
export function invocations({ store, now, redraw }) {
  const found = store.ended.filter(matches);
  if (filters.order === "slowest") found.sort((a, b) => b.took_ms - a.took_ms);
  const pages = Math.max(1, Math.ceil(found.length / PAGE));
  filters.page = Math.min(filters.page, pages - 1);
  const change = name => event => {
    filters[name] = event.target.value;
    filters.page = 0;
    redraw();
  };
  return [
    h("h1", null, "Calls"),
    h("form", { class: "filters", onsubmit: event => event.preventDefault() },
      field("Function or id", h("input", { type: "search", id: "call-filter", value: filters.text, oninput: change("text") })),
      choice("Outcome", "call-outcome", filters.outcome, [["", "all"], ["succeeded", "succeeded"], ["function_error", "failed"], ["rejected", "refused"]], change("outcome")),
      choice("Start", "call-start", filters.start, [["", "all"], ["cold", "cold"], ["gpu_cold", "GPU-cold"], ["warm", "warm"]], change("start")),
      choice("Order", "call-order", filters.order, [["newest", "newest first"], ["slowest", "slowest first"]], change("order"))),
    store.missed > 0 ? h("p", { class: "note" }, `${count(store.missed)} calls came faster than this page was told of them; the functions' counts have them.`) : null,
    found.length === 0 ? h("p", { class: "quiet" }, store.ended.length === 0 ? "No call has ended yet." : "No call matches.")
      : callTable(found.slice(filters.page * PAGE, (filters.page + 1) * PAGE), now),
    legend(PHASES.map(([key, name]) => [key, name])),
    pager(filters, pages, found.length, "call", redraw),
  ];
}

function matches(call) {
  const text = filters.text.trim().toLowerCase();
  return (!text || call.function.toLowerCase().includes(text) || call.invocation.startsWith(text)) &&
    (!filters.outcome || call.outcome === filters.outcome) && (!filters.start || (call.start === filters.start && call.outcome !== "rejected"));
}

export function field(name, control) {
  return h("label", null, h("span", null, name), control);
}

export function choice(name, id, value, options, onchange) {
  return field(name, h("select", { id, onchange }, options.map(([key, text]) => h("option", { value: key, selected: key === value }, text))));
}

/** @param {{page: number}} state */
export function pager(state, pages, all, what, redraw) {
  if (pages <= 1) return h("p", { class: "quiet" }, `${count(all)} ${what}${all === 1 ? "" : "s"}`);
  const turn = by => () => {
    state.page += by;
    redraw();
  };
  return h("nav", { class: "pager", "aria-label": "Pages" },
    h("button", { type: "button", disabled: state.page === 0, onclick: turn(-1) }, "Earlier page"),
    h("span", null, `page ${state.page + 1} of ${pages}, ${count(all)} ${what}s`),
    h("button", { type: "button", disabled: state.page >= pages - 1, onclick: turn(1) }, "Next page"));
}
