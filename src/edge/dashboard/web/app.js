// The page: asks who its reader is, follows the worker's events, and draws the view that the address names.
import { ApiError, followEvents, get, session } from "./api.js";
import { h, morph } from "./dom.js";
import { signIn } from "./sign_in.js";
import { Store } from "./store.js";
import { nextTheme, readTheme, themeNames } from "./theme.js";
import { functionPage } from "./view_function.js";
import { functions } from "./view_functions.js";
import { invocationPage } from "./view_invocation.js";
import { invocations } from "./view_invocations.js";
import { overview } from "./view_overview.js";
import { nodesPage } from "./view_nodes.js";
import { schedulesPage } from "./view_schedules.js";
import { settingsPage } from "./view_settings.js";
import { whatIf } from "./view_what_if.js";

/** @typedef {{store: Store, now: number, facts: any, who: any, redraw: () => void, restart: () => void}} Context */

const VIEWS = [["", "Overview"], ["functions", "Functions"], ["invocations", "Calls"], ["schedules", "Schedules"], ["nodes", "Nodes"], ["what-if", "What if"], ["settings", "Settings"]];
// Of the operator only.
const OPERATORS = ["nodes"];

const store = new Store();
let facts = {};
let who = null;
/** "connecting", "live", "lost", or an ApiError. */
let status = "connecting";
let page = null;  // of the views that ask for things of their own
let following = new AbortController();
let scheduled = false;

const localNow = () => Date.now() / 1000;

function redraw() {
  if (scheduled) return;
  scheduled = true;
  requestAnimationFrame(() => {
    scheduled = false;
    draw();
  });
}

function route() {
  const [view = "", ...rest] = location.hash.replace(/^#\/?/, "").split("/");
  let argument = rest.join("/");
  try {
    argument = decodeURIComponent(argument);
  } catch { /* typed by hand */ }
  return { view, argument };
}

function isOperator() {
  return who?.scopes?.includes("admin") ?? false;
}

function openView() {
  page?.close();
  page = null;
  const { view, argument } = route();
  if (view === "functions" && argument) page = functionPage(argument, redraw);
  if (view === "invocations" && argument) page = invocationPage(argument, redraw, name => store.functions.get(name)?.kind);
  if (view === "schedules") page = schedulesPage(redraw);
  if (view === "settings") page = settingsPage(redraw);
  if (view === "nodes" && isOperator()) page = nodesPage(redraw);
  scrollTo(0, 0);
  redraw();
}

function content() {
  if (status instanceof ApiError && status.status === 401) return signIn(status.message, restart);
  if (status instanceof ApiError) {
    return [h("h1", null, "This token may not look"), h("p", { class: "note bad" }, status.message), h("button", { type: "button", onclick: () => {
      session.token = "";
      restart();
    } }, "Sign in with another")];
  }
  const context = { store, now: store.now(localNow()), facts, who, redraw, restart };
  if (page) return page.draw(context);
  const { view } = route();
  if (view === "functions") return functions(context);
  if (view === "invocations") return invocations(context);
  if (view === "what-if") return whatIf(context);
  if (view === "") return overview(context);
  return [h("h1", null, "There is no such page"), h("p", null, h("a", { href: "#/" }, "Overview"))];
}

function draw() {
  morph(document.getElementById("top"), header());
  morph(document.getElementById("main"), content());
  const name = VIEWS.find(([key]) => key === route().view)?.[1] ?? "";
  document.title = [route().argument || name, "Lambent"].filter(Boolean).join(" – ");
}

function header() {
  const { view } = route();
  const words = { live: "live", lost: "The worker does not answer. Trying again …", connecting: "connecting …" };
  const told = typeof status === "string" ? status : "refused";
  const theme = readTheme();
  return [
    h("a", { class: "brand", href: "#/" }, h("img", { src: "/dashboard/icon.svg", alt: "", width: 22, height: 22 }), "Lambent"),
    h("nav", { "aria-label": "Pages" }, VIEWS.filter(([key]) => isOperator() || !OPERATORS.includes(key)).map(([key, name]) => h("a", { href: `#/${key}`, "aria-current": key === view ? "page" : null }, name))),
    h("div", { class: "about" },
      facts.policy ? h("span", { class: "quiet facts-line" }, `${facts.policy}, D ${facts.concurrency}${facts.emulated ? ", emulated GPU" : ""}`) : null,
      h("span", { class: `connection ${told}`, role: "status" }, words[told] ?? "no access"),
      h("button", { type: "button", class: "theme", title: "Colours: light, dark, or as the system has them", onclick: () => {
        nextTheme();
        redraw();
      } }, themeNames[theme])),
  ];
}

/** What was before the first event: all functions, and the calls that are remembered. */
async function snapshot(signal) {
  for (let after = "", more = true; more;) {
    const answer = await get(`/v1/activity/functions?after=${encodeURIComponent(after)}`, signal);
    store.apply("snapshot", answer, localNow());
    after = answer.next ?? "";
    more = after !== "" && !store.cut;
  }
  facts = await get("/v1/version", signal);
  store.complete = true;
  redraw();
  await store.addPages(before => get(`/v1/activity/invocations?limit=500&before=${encodeURIComponent(before)}`, signal), redraw);
}

async function restart() {
  following.abort();
  following = new AbortController();
  const { signal } = following;
  store.clear();
  status = "connecting";
  redraw();
  try {
    who = await get("/v1/whoami", signal);
  } catch (error) {
    if (signal.aborted) return;
    if (error instanceof ApiError && [401, 403].includes(error.status)) {
      status = error;
      redraw();
      return;
    }
    status = "lost";
    redraw();
    setTimeout(() => { if (!signal.aborted) restart(); }, 1500);
    return;
  }
  openView();
  followEvents({
    signal,
    onOpen: () => {
      // Perhaps another worker answers now, whose counts began again.
      store.clear();
      snapshot(signal).catch(() => {});
    },
    onEvent: (name, data) => {
      status = "live";
      store.apply(name, data, localNow());
      redraw();
    },
    onStatus: told => {
      status = told;
      redraw();
    },
  });
}

addEventListener("hashchange", openView);
readTheme();
restart();
