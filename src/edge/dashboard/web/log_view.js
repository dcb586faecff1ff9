// A function's log as it grows. Text only, of which the page keeps the last part.
import { ApiError, follow } from "./api.js";
import { h } from "./dom.js";

const MOST = 200_000;  // characters

/** @param {string} name @returns {{element: HTMLElement, stop: () => void}} */
export function logView(name) {
  const text = document.createTextNode("");
  const status = h("span", { class: "quiet", role: "status" }, "");
  const pre = h("pre", { class: "log", tabindex: "0", role: "region", "aria-label": `Log of ${name}` }, text);
  const abort = new AbortController();
  const element = h("div", { "data-keep": true, "data-key": `log-${name}` }, pre, status);
  append(name, text, pre, status, abort.signal);
  return { element, stop: () => abort.abort() };
}

async function append(name, text, pre, status, signal) {
  const path = `/v1/functions/${encodeURIComponent(name)}/log?follow=1`;
  while (!signal.aborted) {
    text.data = "";
    status.textContent = "Follows the log.";
    try {
      await follow(path, piece => {
        const atEnd = pre.scrollTop + pre.clientHeight >= pre.scrollHeight - 8;
        text.data = (text.data + piece).slice(-MOST);
        if (atEnd) pre.scrollTop = pre.scrollHeight;
      }, signal);
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof ApiError && error.status >= 400) {
        status.textContent = `The log cannot be read: ${error.message}`;
        return;
      }
    }
    if (signal.aborted) return;
    status.textContent = "The log ended; it is asked for again.";
    await new Promise(done => setTimeout(done, 2000));
  }
}
