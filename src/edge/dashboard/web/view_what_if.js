// What would have been: the last minutes' calls under other settings, in the worker's own scheduler in virtual time.
import { get, post } from "./api.js";
import { h } from "./dom.js";
import { count, duration, percent } from "./format.js";
import { choice, field } from "./view_invocations.js";

const form = { D: "", policy: "", gpus: "", pool: "", minutes: "10" };
let policies = null;  // asked for once
const result = { rows: null, wrong: [], error: null, asked: "", running: false };

/** @param {import("./app.js").Context} context */
export function whatIf({ facts, redraw }) {
  const set = key => event => {
    form[key] = event.target.value;
    redraw();
  };
  const number = (key, name, note) => field(name, h("input", { type: "number", id: `what-if-${key}`, min: 1, max: 1024, step: 1, value: form[key], placeholder: note, oninput: set(key) }));
  const changes = chosen();
  if (policies === null) {
    policies = [];
    get("/v1/settings").then(answer => { policies = answer.policies; }, () => {}).finally(redraw);
  }
  return [
    h("h1", null, "What if"),
    h("p", null, "The calls of the last minutes are taken from the worker's journal, with the times that they took, and scheduled again under other settings. Nothing is run, and the worker stays as it is."),
    h("form", { class: "filters", onsubmit: event => {
      event.preventDefault();
      run(redraw);
    } },
    number("D", "Calls at once on a GPU (D)", `now ${facts.concurrency ?? "?"}`), number("gpus", "GPUs", `now ${facts.devices ?? "?"}`), number("pool", "Sandboxes (pool)", "as now"),
    choice("Policy", "what-if-policy", form.policy, [["", `as now (${facts.policy ?? "?"})`], ...policies.filter(each => each !== facts.policy).map(each => [each, each])], set("policy")),
    choice("Calls of the last", "what-if-minutes", form.minutes, [["1", "minute"], ["10", "10 minutes"], ["60", "hour"]], set("minutes")),
    h("button", { type: "submit", class: "primary", disabled: result.running || Object.keys(changes).length === 0 }, result.running ? "Simulates …" : "Simulate")),
    Object.keys(changes).length === 0 ? h("p", { class: "quiet" }, "Change at least one of the first four to simulate.") : null,
    h("div", { "aria-live": "polite" }, result.error ? h("p", { class: "note bad" }, result.error) : null, result.rows ? comparison(result.rows, result.wrong) : null),
  ];
}

function chosen() {
  return Object.fromEntries(["D", "gpus", "pool", "policy"].filter(key => form[key] !== "").map(key => [key, key === "policy" ? form[key] : Number(form[key])]));
}

async function run(redraw) {
  if (result.running) return;
  Object.assign(result, { running: true, error: null, rows: null });
  redraw();
  try {
    const answer = await post("/v1/what-if", { last_seconds: Number(form.minutes) * 60, changes: chosen() });
    result.rows = answer.rows;
    result.wrong = answer.model_error?.functions ?? [];
  } catch (error) {
    result.error = error.status === 403 ? "A journal has the calls of all tenants: this needs a token with the scope admin." : `It could not be told: ${error.message}.`;
  }
  result.running = false;
  redraw();
}

const FIGURES = [["mean_s", "Mean"], ["p50_s", "p50"], ["p99_s", "p99"], ["queue_mean_s", "Mean wait"]];

/** Which functions the model gets wrong: [name, share, the part of their time that differs most]. */
function wrongFunctions(wrong) {
  return h("ul", { class: "reasons" }, wrong.slice(0, 3).map(each => h("li", null, h("b", null, each.function), `, ${percent(each.share)} of the difference: `,
    each.differs.map(part => `${part.part} ${duration(part.recorded_mean_s * 1000)} recorded, ${duration(part.simulated_mean_s * 1000)} simulated`).join("; "))));
}

function comparison(rows, wrong) {
  const [recorded, same, changed] = rows;
  const name = changed.run.replace(/^simulated /, "");
  const most = Math.max(...rows.map(row => row.p99_s), 1e-9);
  const change = same.mean_s > 0 ? changed.mean_s / same.mean_s - 1 : 0;
  const error = recorded.mean_s > 0 ? Math.abs(same.mean_s / recorded.mean_s - 1) : 0;
  return h("section", { class: "card", "aria-labelledby": "compared" }, h("h2", { id: "compared" }, verdict(name, change)),
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Comparison" }, h("table", null, h("thead", null, h("tr", null, h("th", { scope: "col" }, "Run"), h("th", { scope: "col", class: "number" }, "Calls"),
      FIGURES.map(([, title]) => h("th", { scope: "col", class: "number" }, title)), h("th", { scope: "col", class: "number" }, "Cold"), h("th", { scope: "col", class: "wide" }, "Mean and p99"))),
    h("tbody", null, rows.map((row, index) => h("tr", null, h("th", { scope: "row" }, ["As it was", "Simulated, as it was", `Simulated, ${name}`][index]),
      h("td", { class: "number" }, count(row.ran)), FIGURES.map(([key]) => h("td", { class: "number" }, duration(row[key] * 1000))),
      h("td", { class: "number" }, percent(row.cold_ratio)),
      h("td", { class: "wide" }, h("div", { class: "range" }, h("span", { class: "c-other", style: { width: `${(100 * row.p99_s) / most}%` } }),
        h("span", { class: "c-init", style: { width: `${(100 * row.mean_s) / most}%` } })))))))),
    h("p", { class: "quiet" }, `Compare the two simulated rows with each other: the model's own mean is ${percent(error)} from what was recorded. It begins with no sandbox started.`),
    error > 0.3 ? h("p", { class: "note" }, "The model is far from what these functions did, so take it as a direction only.") : null,
    error > 0.05 && wrong?.length ? [h("h3", null, "What the model gets wrong"), wrongFunctions(wrong)] : null);
}

function verdict(name, change) {
  if (Math.abs(change) < 0.02) return `With ${name} calls would have taken as long`;
  return `With ${name} calls would have taken ${percent(Math.abs(change))} ${change < 0 ? "less" : "more"} on average`;
}
