// The worker as it runs: version, settings, and who its reader is to it.
import { get, session } from "./api.js";
import { h } from "./dom.js";
import { bytes, count } from "./format.js";

/** @param {() => void} redraw */
export function settingsPage(redraw) {
  const page = { settings: null, tenants: null, error: null };
  const abort = new AbortController();
  get("/v1/settings", abort.signal).then(answer => { page.settings = answer.settings; }, error => { page.error = error.message; }).finally(redraw);
  get("/v1/tenants", abort.signal).then(answer => { page.tenants = answer.tenants; }, () => {}).finally(redraw);
  return { draw: context => draw(page, context), close: () => abort.abort() };
}

/** @param {import("./app.js").Context} context */
function draw(page, { facts, who, restart }) {
  return [
    h("h1", null, "Settings"),
    h("div", { class: "cards" },
      h("section", { class: "card", "aria-labelledby": "worker" }, h("h2", { id: "worker" }, "Worker"), rows([
        ["Version", facts.version], ["GPUs", facts.devices ? `${count(facts.devices)} × ${facts.gpu}${facts.emulated ? ", emulated" : ""}` : "none"],
        ["Memory of a GPU", bytes(facts.device_memory_bytes)], ["Time scale", facts.emulated ? `${facts.time_scale} modelled seconds a second` : null]])),
      h("section", { class: "card", "aria-labelledby": "you" }, h("h2", { id: "you" }, "You"), rows([
        ["Tenant", who?.tenant], ["Scopes", who?.scopes?.join(", ")], ["Token", who?.token ?? "none is needed"]]),
      quotas(who), tenantChoice(page.tenants, who, restart),
      session.token ? h("button", { type: "button", onclick: () => {
        session.token = "";
        session.tenant = "";
        restart();
      } }, "Sign out") : null)),
    h("section", { "aria-labelledby": "flags" }, h("h2", { id: "flags" }, "As it was started"),
      page.error ? h("p", { class: "note bad" }, page.error) : null,
      page.settings ? h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Settings" }, h("table", null, h("thead", null, h("tr", null, h("th", { scope: "col" }, "Setting"), h("th", { scope: "col" }, "Value"), h("th", { scope: "col" }, "What it is"))),
        h("tbody", null, page.settings.filter(each => each.value !== "").map(each => h("tr", null, h("th", { scope: "row" }, h("code", null, each.name)), h("td", null, each.value), h("td", { class: "quiet" }, each.meaning)))))) : null),
  ];
}

function rows(pairs) {
  return h("dl", { class: "settings" }, pairs.filter(([, value]) => value).map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value))));
}

function quotas(who) {
  const set = Object.entries(who?.quotas ?? {}).filter(([, value]) => value !== null);
  if (set.length === 0) return null;
  const text = (key, value) => (key.endsWith("_bytes") ? bytes(value) : String(value));
  return [h("h3", null, "Quotas"), rows(set.map(([key, value]) => [key.replace(/_bytes$/, "").replaceAll("_", " "), text(key, value)]))];
}

function tenantChoice(tenants, who, restart) {
  if (!tenants || tenants.length < 2) return null;
  return h("label", null, h("span", null, "Show the tenant"), h("select", { id: "tenant", onchange: event => {
    session.tenant = event.target.value;
    restart();
  } }, tenants.map(each => h("option", { value: each.name, selected: each.name === who?.tenant }, each.name))));
}
