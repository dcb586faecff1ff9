// Where a worker wants a token: it is asked for, and kept for this tab.
import { session } from "./api.js";
import { h } from "./dom.js";

/** @param {string} message @param {() => void} onSignedIn */
export function signIn(message, onSignedIn) {
  const submit = event => {
    event.preventDefault();
    const token = event.target.querySelector("input").value.trim();
    if (!token) return;
    session.token = token;
    onSignedIn();
  };
  return [h("section", { class: "empty sign-in" }, h("h1", null, "Sign in"),
    h("form", { onsubmit: submit, autocomplete: "off" },
      h("label", null, h("span", null, "Token"), h("input", { type: "password", id: "token", autocomplete: "off", spellcheck: "false", required: true, "aria-describedby": "token-note" })),
      h("button", { type: "submit", class: "primary" }, "Sign in")),
    h("p", { id: "token-note", class: "quiet" }, "It stays in this tab until you close it or sign out. An operator makes one that may look: ",
      h("code", null, "lambent tokens create TENANT --scopes read")),
    h("p", { class: session.token ? "note bad" : "quiet", role: "status" }, session.token ? message : ""))];
}
