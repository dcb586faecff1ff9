// Why a call took as long as it did, in words that need no other page. Pure; the reasons are those of docs/scheduling.md.
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

// [what held it back, what can be done about it]
const REASONS = {
  own_queue: ["it stood behind other calls of its function", "Its calls come faster than they end. Shorter runs or another GPU help, and a higher max_concurrency where that is its limit."],
  concurrency_limit: ["its function ran as many calls as it may at once", "Raise the function's max_concurrency, or call it less often at once."],
  throttled: ["its function had used more than its share, so others went first", "That is fair sharing. A higher weight gives the function a larger share."],
  behind_others: ["calls of other functions came first", "That is the policy's order. A higher weight, or another policy, changes it: try it under What if."],
  no_token: ["every GPU ran as many calls as it may at once", "More GPUs or a higher concurrency (D) would shorten the queue: try both under What if."],
  no_memory: ["no GPU had enough free memory beside the other functions", "Lower the functions' gpu memory, or let --host-memory take what is idle."],
  no_sandbox: ["all sandboxes of the pool were at work", "Raise --pool, as far as the machine's memory goes."],
  no_device: ["no GPU was healthy", "'lambent devices' says what is wrong with them."],
  memory_moving: ["GPU memory was being moved", "Fewer functions than fit the GPU's memory at once, or more GPU memory, avoids the moves."],
  own_pool: ["the GPUs of its function were at work, and no function had more", "More GPUs would help."],
  pool_handover: ["another function had to finish on the GPU that it was given", "It passes by itself."],
  at_work: ["its sandboxes were at work or starting", "Another one is started once a call has waited for as long as a cold start takes, if the GPUs have room. A higher min_instances keeps more of them ready."],
  warm_elsewhere: ["its sandbox is on a busy GPU, and a cold start would have taken longer", "It passes by itself; it is shorter than a cold start."],
  no_slice: ["no free slice could hold it", "More slices (--pipeline-slices), or smaller stages, would help."],
  slice_shared: ["another function had its turn on the slice that both share", "More slices would help."],
  start_paused: ["a start had failed, and was tried again after a pause", "The function's log says why the start failed."],
  starting: ["its instance was being started", "Later calls find it started."],
  host_busy: ["the host's processors ran as many calls as they may", "Raise host_concurrency (--set host_concurrency=N) if the machine has processors to spare."],
  files_coming: ["files that it mounts came from another node of the cluster", "It passes when they are here; later calls find them. Call the function once on each node before it is needed."],
  draining: ["the worker was about to stop", "The next worker takes it."],
};

/** What held a call back: "every GPU ran ..."; "" if nothing did. @param {string} reason */
export function reasonWords(reason) {
  if (!reason || reason === "none") return "";
  return REASONS[reason]?.[0] ?? reason.replaceAll("_", " ");
}

/** @param {string} reason */
export function reasonAdvice(reason) {
  return REASONS[reason]?.[1] ?? "";
}

/** Of several reasons the one that took the most; the worker itself remembers the longest stretch. @param {Record<string, number>} waits_ms */
export function mainReason(waits_ms, otherwise) {
  const known = Object.entries(waits_ms ?? {}).filter(([reason, ms]) => ms > 0 && reasonWords(reason));
  return known.length ? known.reduce((most, each) => (each[1] > most[1] ? each : most))[0] : otherwise;
}

/**
 * The main reason of a wait, and what held back the calls in front where that was its own queue: the worker remembers what held the call
 * when it had become the first, which held those before it too.
 * @param {Record<string, number>} waits_ms @param {string} last
 */
export function waitReasons(waits_ms, last) {
  const wait_reason = mainReason(waits_ms, last);
  return { wait_reason, front_reason: wait_reason === "own_queue" && last !== wait_reason && reasonWords(last) ? last : "" };
}

/** The phase that took the most. @param {Record<string, number>} phases */
export function longestPhase(phases) {
  return PHASES.map(([key]) => key).reduce((longest, key) => ((phases[key] ?? 0) > (phases[longest] ?? 0) ? key : longest), "queue");
}

const CAUSES = {
  queue: call => "waiting" + (reasonWords(call.wait_reason) ? `: ${reasonWords(call.wait_reason)}` : " in the queue"),
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
    text: reasonWords(call.wait_reason) ? `${capital(reasonWords(call.wait_reason))}.${call.front_reason ? ` At the front of them: ${reasonWords(call.front_reason)}.` : ""}`
      : "It was dispatched as soon as there was a place.",
    advice: [reasonAdvice(call.wait_reason), reasonAdvice(call.front_reason)].filter(Boolean).join(" "),
  }),
  sandbox: call => ({
    title: `A sandbox was started in ${duration(call.phases_ms.sandbox)}`,
    text: "No sandbox of the function was free. A start also waits until the GPU has the memory: what others have there may have to move first.",
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
    text: "That is its own code, with the GPU shared by what ran beside it.",
    advice: "",
  }),
};

/** What to know of a call, the longest phase first; phases below a hundredth of it are left out. @param {any} call */
export function findings(call) {
  if (call.outcome === "rejected") {
    return [{ key: "refused", title: "It was refused and never ran", text: call.error, advice: reasonAdvice(call.wait_reason) }];
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
  if (key === "async_max_age_seconds" && value === 0) return "–";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (key.endsWith("_seconds")) return value < 0 ? "as the worker says" : duration(value * 1000);
  if (typeof value === "object") return Array.isArray(value) && value.length === 0 ? "–" : JSON.stringify(value);
  return String(value);
}

function capital(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
