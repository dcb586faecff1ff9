// Why a call took as long as it did, in words that need no other page. Pure.
import { phaseText, reasonAdvice, waitAdvice, waitText, waitWords } from "./advice.js";
import { bytes, duration, percent, plural } from "./format.js";

/** The phases of an invocation, in their order: [key, name, what happens in it]. */
export const PHASES = [
  ["queue", "Queue", "it waited for its turn"],
  ["sandbox", "Sandbox", "a sandbox was started"],
  ["init", "Init", "the runtime started and the code was loaded"],
  ["memory", "GPU memory", "its GPU memory came back from the host"],
  ["run", "Run", "the function's own code ran"],
];

export const STARTS = [
  ["cold", "Cold", "a sandbox was started for the call"],
  ["gpu_cold", "GPU-cold", "a sandbox was there, its GPU memory had to be brought in"],
  ["warm", "Warm", "everything was in place"],
];

/** The phase that took the most. @param {Record<string, number>} phases */
export function longestPhase(phases) {
  return PHASES.map(([key]) => key).reduce((longest, key) => ((phases[key] ?? 0) > (phases[longest] ?? 0) ? key : longest), "queue");
}

const CAUSES = {
  queue: call => "waiting" + (waitWords(call) ? `: ${waitWords(call)}` : " in the queue"),
  sandbox: () => "starting a sandbox: none was free",
  init: () => "loading the code in a new sandbox",
  memory: () => "bringing GPU memory back from the host",
  run: () => "running the function's own code",
};

/** "1.67 s of 1.90 s waiting: every GPU ran as many calls as it may at once". @param {any} call */
export function causeSentence(call) {
  if (call.outcome === "rejected") return `refused: ${call.error || "it never ran"}`;
  const longest = longestPhase(call.phases_ms);
  if (call.phases_ms[longest] > 0.95 * call.took_ms) return capital(CAUSES[longest](call));
  return `${duration(call.phases_ms[longest])} of ${duration(call.took_ms)} ${CAUSES[longest](call)}`;
}

const FINDINGS = {
  queue: call => ({
    title: `It waited ${duration(call.phases_ms.queue)} for its turn`,
    text: waitText(call) || "It was dispatched as soon as there was a place.",
    advice: waitAdvice(call),
  }),
  sandbox: call => ({
    title: `A sandbox was started in ${duration(call.phases_ms.sandbox)}`,
    text: phaseText("sandbox", call),
    advice: "Sandboxes stay for --keep-alive; a larger --pool keeps more of them.",
  }),
  init: call => ({
    title: `The runtime started and the code was loaded in ${duration(call.phases_ms.init)}`,
    text: "That happens once for each sandbox: the next call finds it warm.",
    advice: "Imports and models are loaded here: fewer or smaller ones start sooner.",
  }),
  memory: call => ({
    title: `Its GPU memory came back from the host in ${duration(call.phases_ms.memory)}`,
    text: "While the function rested, other functions needed the GPU's memory.",
    advice: "Fewer functions than fit the GPU's memory at once, or a larger GPU, avoids the move.",
  }),
  run: call => ({
    title: `The function ran for ${duration(call.phases_ms.run)}`,
    text: phaseText("run", call),
    advice: "",
  }),
};

/** What to know of a call, the longest phase first; phases below a hundredth of it are left out. @param {any} call */
export function findings(call) {
  if (call.outcome === "rejected") {
    return [{ key: "refused", title: "It was refused and never ran", text: call.error, advice: reasonAdvice(call.wait_reason, call) }];
  }
  return PHASES.map(([key]) => key)
    .filter(key => call.phases_ms[key] > Math.max(0.05, call.took_ms / 100))
    .sort((a, b) => call.phases_ms[b] - call.phases_ms[a])
    .map(key => ({ key, share: percent(call.phases_ms[key] / call.took_ms), ...FINDINGS[key](call) }));
}

/** The one sentence at the head of a call's page. @param {any} call */
export function headline(call) {
  if (call.outcome === "rejected") return "It was refused and never ran.";
  const longest = longestPhase(call.phases_ms);
  const share = call.took_ms > 0 ? call.phases_ms[longest] / call.took_ms : 1;
  const because = CAUSES[longest](call).replace(/^waiting: /, "waiting, because ");
  const most = share > 0.995 ? "all of it" : `${duration(call.phases_ms[longest])} of it`;
  return `It took ${duration(call.took_ms)}, ${most} ${because}.`;
}

/** "3 calls wait; 2 run" of a function. */
export function nowWords(row) {
  const parts = [];
  if (row.queued) parts.push(`${plural(row.queued, "call")} ${row.queued === 1 ? "waits" : "wait"}`);
  if (row.running) parts.push(`${plural(row.running, "call")} ${row.running === 1 ? "runs" : "run"}`);
  return parts.join("; ") || "nothing waits or runs";
}

export function outcomeWords(call) {
  if (call.outcome === "succeeded") return "succeeded";
  if (call.outcome === "rejected") return "refused";
  return call.error_type ? `failed: ${call.error_type}` : "failed";
}

export function startWords(start) {
  return STARTS.find(([key]) => key === start)?.[1] ?? start;
}

/** A setting as its reader has it in mind: sizes and times with units. "–": it says nothing. */
export function settingText(key, value) {
  if (value === null || value === "") return "–";
  if (key.endsWith("_bytes")) return bytes(value);
  if (key === "last_modified_seconds") return new Date(value * 1000).toLocaleString();
  if (key === "async_retries" && value < 0) return "as the worker says";
  if ((key === "async_max_age_seconds" || key === "slo_ms") && value === 0) return "–";
  if (key === "slo_ms") return duration(value);
  if (key === "cpus" && value === 0) return "–";
  if (key === "mounts") return value.map(mount => `${mount.volume ?? mount.host} at ${mount.at}`).join(", ") || "–";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (key.endsWith("_seconds")) return value < 0 ? "as the worker says" : duration(value * 1000);
  if (typeof value === "object") return Array.isArray(value) && value.length === 0 ? "–" : JSON.stringify(value);
  return String(value);
}

/** What a function is to its user: one that serves a model is no other HTTP program. */
export function kindWords(row) {
  return row.serves_model ? "model" : row.kind;
}

/** How it is called. */
export function callWords(name, kind) {
  if (kind === "model") return `POST /v2/models/${name}/infer`;
  return kind === "http" ? `curl ${location.origin}/f/${name}/` : `lambent invoke ${name}`;
}

function capital(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
