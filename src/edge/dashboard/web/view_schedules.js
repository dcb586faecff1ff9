// When functions are invoked by themselves: what is due next, how the last times ended, and what was missed.
import { get } from "./api.js";
import { h } from "./dom.js";
import { ago, count } from "./format.js";
import { ahead, outcome, rule } from "./schedules.js";

const PERIOD = 5000;  // milliseconds between two looks

/** @param {() => void} redraw */
export function schedulesPage(redraw) {
  const page = { rows: null, silent: [], error: null };
  const abort = new AbortController();
  let timer = 0;
  const look = async () => {
    try {
      const told = await get("/v1/schedules", abort.signal);
      page.rows = told.schedules;
      page.silent = told.silent_nodes ?? [];
      page.error = null;
    } catch (error) {
      page.error = error.message;
    }
    if (abort.signal.aborted) return;
    redraw();
    timer = setTimeout(look, PERIOD);
  };
  look();
  return { draw: context => draw(page, context), close: () => {
    abort.abort();
    clearTimeout(timer);
  } };
}

/** @param {any} page @param {import("./app.js").Context} context */
function draw(page, { now }) {
  return [
    h("h1", null, "Schedules"),
    page.error ? h("p", { class: "note bad" }, page.error) : null,
    page.silent.length ? h("p", { class: "note bad" }, `No answer from ${page.silent.join(", ")}: what was begun there is missing`) : null,
    page.rows === null ? null : page.rows.length === 0 ? h("p", { class: "quiet" }, "No function has a schedule: ", h("code", null, "[[schedules]]"), " in ",
      h("code", null, "lambent.toml"), " gives it one.") : table(page.rows, now),
  ];
}

function table(rows, now) {
  const hasNodes = rows.some(row => "node" in row);  // of a cluster
  const head = ["Function", "Schedule", "When", ...(hasNodes ? ["Node"] : []), "Next", "Last", "Ended", "Begun", "Missed"];
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Schedules" }, h("table", null,
    h("thead", null, h("tr", null, head.map((name, at) => h("th", { scope: "col", class: at >= head.length - 2 ? "number" : "" }, name)))),
    h("tbody", null, rows.map(row => line(row, now, hasNodes)))));
}

function line(row, now, hasNodes) {
  const [ended, isBad] = outcome(row);
  const told = isBad ? h("b", { class: "bad" }, ended) : ended;
  return h("tr", { "data-key": `${row.function} ${row.name}` },
    h("th", { scope: "row" }, h("a", { href: `#/functions/${encodeURIComponent(row.function)}` }, row.function)),
    h("td", null, row.name), h("td", null, rule(row)),
    hasNodes ? h("td", null, row.node ?? "–") : null,
    h("td", { title: row.next ?? "" }, row.next ? ahead(row.next, now) : row.enabled ? "never" : "disabled"),
    h("td", { title: row.last ?? "" }, row.last ? ago(Date.parse(row.last) / 1000, now) : "–"),
    h("td", null, row.last_invocation ? h("a", { href: `#/invocations/${row.last_invocation}` }, told) : told),
    h("td", { class: "number" }, count(row.begun)),
    h("td", { class: "number" }, row.missed ? h("b", { class: "bad" }, count(row.missed)) : "0"));
}
