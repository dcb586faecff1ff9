// The worker's API from the page: requests with the reader's token, and streams. The token is kept for this tab only, and is
// never part of an address.
import { EventParser } from "./sse.js";

const TOKEN = "lambent-token";
const TENANT = "lambent-tenant";

export const session = {
  get token() { return sessionStorage.getItem(TOKEN) ?? ""; },
  set token(value) { keep(TOKEN, value); },
  get tenant() { return sessionStorage.getItem(TENANT) ?? ""; },
  set tenant(value) { keep(TENANT, value); },
};

function keep(key, value) {
  if (value) sessionStorage.setItem(key, value);
  else sessionStorage.removeItem(key);
}

export class ApiError extends Error {
  /** @param {number} status @param {string} code @param {string} message */
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

function headers() {
  return {
    ...(session.token ? { Authorization: `Bearer ${session.token}` } : {}),
    ...(session.tenant ? { "X-Lambent-Tenant": session.tenant } : {}),
  };
}

async function good(path, options) {
  let response;
  try {
    response = await fetch(path, { cache: "no-store", credentials: "omit", redirect: "error", ...options, headers: headers() });
  } catch (reason) {
    if (reason?.name === "AbortError") throw reason;
    throw new ApiError(0, "UNAVAILABLE", "the worker does not answer");
  }
  if (response.ok) return response;
  const body = await response.text();
  let error;
  try {
    error = JSON.parse(body).error;
  } catch {
    error = null;
  }
  throw new ApiError(response.status, error?.code ?? "", error?.message ?? `HTTP ${response.status}`);
}

/** @param {string} path @param {AbortSignal} [signal] */
export async function get(path, signal) {
  return (await good(path, { signal })).json();
}

/** The status and the body, JSON; of an answer that may also say "not yet". */
export async function getWithStatus(path, signal) {
  const response = await good(path, { signal });
  return { status: response.status, body: await response.json() };
}

/** @param {string} path @param {any} body @param {AbortSignal} [signal] */
export async function post(path, body, signal) {
  return (await good(path, { method: "POST", body: JSON.stringify(body), signal })).json();
}

/** Text as it comes, until the other side ends it or `signal` does. */
export async function follow(path, onText, signal) {
  const response = await good(path, { signal });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    onText(value);
  }
}

/** Events of the worker, again and again after a pause when they end; `onStatus` gets "live", "lost" or an ApiError that
 * waiting does not cure. */
export async function followEvents({ onEvent, onOpen, onStatus, signal }) {
  const silence = 10_000;
  for (let failures = 0; !signal.aborted;) {
    const attempt = new AbortController();
    const abort = () => attempt.abort();
    signal.addEventListener("abort", abort);
    let timer = setTimeout(abort, silence);
    let opened = false;
    try {
      const parser = new EventParser((name, data) => onEvent(name, JSON.parse(data)));
      await follow("/v1/activity/events", text => {
        clearTimeout(timer);
        timer = setTimeout(abort, silence);
        if (!opened) {
          opened = true;
          failures = 0;
          onOpen();
        }
        parser.push(text);
      }, attempt.signal);
    } catch (error) {
      if (error instanceof ApiError && [401, 403].includes(error.status)) {
        onStatus(error);
        return;
      }
    } finally {
      clearTimeout(timer);
      signal.removeEventListener("abort", abort);
    }
    if (signal.aborted) return;
    onStatus("lost");
    failures += 1;
    await new Promise(done => setTimeout(done, Math.min(8000, 250 * 2 ** failures)));
  }
}
