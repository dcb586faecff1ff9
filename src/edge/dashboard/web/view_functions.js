// All functions in a table that is sorted by any column, fifty a page.
import { legend, startBar } from "./charts.js";
import { h } from "./dom.js";
import { count, duration, percent } from "./format.js";
import { field, pager } from "./view_invocations.js";
import { MOST_FUNCTIONS } from "./store.js";
import { STARTS, kindWords } from "./words.js";

const PAGE = 50;
const state = { text: "", page: 0, by: "calls", down: true };

const calls = row => row.cold + row.gpu_cold + row.warm;
const COLUMNS = [
  ["name", "Function", row => row.name, row => h("a", { href: `#/functions/${encodeURIComponent(row.name)}` }, row.name)],
  ["kind", "Kind", kindWords, kindWords],
  ["queued", "Waiting", row => row.queued, row => count(row.queued), true],
  ["running", "Running", row => row.running, row => count(row.running), true],
  ["calls", "Calls", calls, row => count(calls(row)), true],
  ["starts", "Starts", row => row.cold / Math.max(1, calls(row)), startBar],
  ["p50", "p50", row => row.p50_ms, row => ms(row, row.p50_ms), true],
  ["p95", "p95", row => row.p95_ms, row => ms(row, row.p95_ms), true],
  ["p99", "p99", row => row.p99_ms, row => ms(row, row.p99_ms), true],
  ["failed", "Failed or refused", row => row.failed + row.refused, row => (row.failed + row.refused ? h("b", { class: "bad" }, count(row.failed + row.refused)) : "0"), true],
  ["ahead", "Ahead", row => row.ahead_ms, row => (row.ahead_ms > 0 ? duration(row.ahead_ms) : "–"), true],
  ["slo", "In time", row => inTime(row), row => (Number.isNaN(inTime(row)) ? "–" : percent(inTime(row))), true],
];

const HINTS = {
  calls: "Calls that ran, since the worker began", starts: "How many were cold, GPU-cold and warm",
  p50: "Half of the calls took at most this long, waiting included", p95: "95 of 100 took at most this long", p99: "99 of 100 took at most this long",
  failed: "Failed in the function, or were refused before they ran; a function's page has both", ahead: "How much more GPU time it had than the function that had the least, by their weights; the policy lets others go first",
  slo: "Of the calls of functions with an SLO",
};

function ms(row, value) {
  return calls(row) ? duration(value) : "–";
}

function inTime(row) {
  return row.in_time + row.late > 0 ? row.in_time / (row.in_time + row.late) : NaN;
}

/** @param {import("./app.js").Context} context */
export function functions({ store, redraw }) {
  const text = state.text.trim().toLowerCase();
  const rows = [...store.functions.values()].filter(row => !text || row.name.toLowerCase().includes(text));
  const column = COLUMNS.find(([key]) => key === state.by);
  const value = row => {
    const found = column[2](row);
    return Number.isNaN(found) ? -1 : found;
  };
  rows.sort((a, b) => {
    const [x, y] = [value(a), value(b)];
    const order = x < y ? -1 : x > y ? 1 : 0;
    return (state.down ? -order : order) || (a.name < b.name ? -1 : 1);
  });
  const pages = Math.max(1, Math.ceil(rows.length / PAGE));
  state.page = Math.min(state.page, pages - 1);
  return [
    h("h1", null, "Functions"),
    h("form", { class: "filters", onsubmit: event => event.preventDefault() },
      field("Name", h("input", { type: "search", id: "function-filter", value: state.text, oninput: event => {
        state.text = event.target.value;
        state.page = 0;
        redraw();
      } }))),
    rows.length === 0 ? h("p", { class: "quiet" }, store.functions.size ? "No function has this in its name." : [
      "No function is deployed yet: ", h("code", null, "lambent deploy FOLDER"), "."]) : table(rows.slice(state.page * PAGE, (state.page + 1) * PAGE), redraw, rows.some(row => row.in_time + row.late > 0)),
    store.cut ? h("p", { class: "quiet" }, `More functions are deployed: these are the first ${count(MOST_FUNCTIONS)} by name, and those that were called.`) : null,
    legend(STARTS.map(([key, name, meaning]) => [key, `${name}: ${meaning}`])),
    pager(state, pages, rows.length, "function", redraw),
  ];
}

function table(rows, redraw, hasSlo) {
  const columns = hasSlo ? COLUMNS : COLUMNS.filter(([key]) => key !== "slo");
  const sort = key => () => {
    state.down = state.by === key ? !state.down : key !== "name" && key !== "kind";
    state.by = key;
    state.page = 0;
    redraw();
  };
  const head = columns.map(([key, name, , , isNumber]) => h("th", { scope: "col", class: isNumber ? "number" : "",
    "aria-sort": state.by === key ? (state.down ? "descending" : "ascending") : "none" },
  h("button", { type: "button", title: HINTS[key] ?? "", onclick: sort(key) }, name, h("span", { "aria-hidden": "true" }, state.by === key ? (state.down ? " ▾" : " ▴") : ""))));
  const cell = (row, [key, , , show, isNumber]) => (key === "name" ? h("th", { scope: "row" }, show(row))
    : h("td", { class: key === "starts" ? "wide" : isNumber ? "number" : "" }, show(row)));
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Functions" }, h("table", null, h("thead", null, h("tr", null, head)),
    h("tbody", null, rows.map(row => h("tr", { "data-key": row.name }, columns.map(column => cell(row, column)))))));
}
