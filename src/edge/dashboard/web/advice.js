// Why a call waited, and what to do about it: a function of where the call runs and of every reason that it waited for. Pure.
// The reasons are those of docs/reference/scheduling.md.
import { duration } from "./format.js";

/** Of a wait the share from which a reason is worth a sentence. */
const LEAST_SHARE = 0.05;

/**
 * Where a call runs: "host" (the host's processors), "gpu", or "" while that is not known. A function without GPU memory runs on the host.
 * @param {{gpu?: string | null, spec?: any}} call `spec`: the function's settings, if they are known
 */
export function placeOf(call) {
  if (call.gpu === "cpu") return "host";
  if (call.gpu !== null && call.gpu !== undefined && call.gpu !== "") return "gpu";
  if (!call.spec || call.spec.gpu_memory_bytes === undefined) return "";
  return call.spec.gpu_memory_bytes > 0 ? "gpu" : "host";
}

const asText = (value, place, call) => (typeof value === "function" ? value(place, call) : value);

const limitOf = call => (call?.spec?.max_concurrency ? ` (now ${call.spec.max_concurrency})` : "");
const quota = (flag, other) => `A quota of the tenant. An operator can raise it: lambent tenants set TENANT ${flag}. ${other}`;

// [what held it back, what can be done about it]; a function of the place and the call where it depends on them.
const REASONS = {
  own_queue: ["it stood behind other calls of its function", "Calls of this function come faster than they end: shorter runs, or fewer calls at once, shorten its queue."],
  concurrency_limit: ["its function ran as many calls as it may at once", (place, call) => `Raise the function's max_concurrency${limitOf(call)}, or call it less often at once.${
    place === "host" ? " It runs on the host's processors: more GPUs would change nothing." : ""}`],
  throttled: ["its function had used more than its share, so others went first", "That is fair sharing. A higher weight gives the function a larger share."],
  behind_others: ["calls of other functions came first", "That is the policy's order. A higher weight, or another policy, changes it: try it under What if."],
  no_token: ["every GPU ran as many calls as it may at once", "More GPUs or a higher concurrency (D) would shorten the queue: try both under What if."],
  no_memory: [place => (place === "host" ? "the machine had not enough free memory beside the other functions" : "no GPU had enough free memory beside the other functions"),
    place => (place === "host" ? "Lower the functions' memory, or take a machine with more of it." : "Lower the functions' gpu memory, or let --host-memory take what is idle.")],
  no_sandbox: ["all sandboxes of the pool were at work", "Raise --pool, as far as the machine's memory goes."],
  no_device: ["no GPU was healthy", "'lambent devices' says what is wrong with them."],
  memory_moving: ["GPU memory was being moved", "Fewer functions than fit the GPU's memory at once, or more GPU memory, avoids the moves."],
  own_pool: ["the GPUs of its function were at work, and no function had more", "More GPUs would help."],
  pool_handover: ["another function had to finish on the GPU that it was given", "It passes by itself."],
  at_work: ["its sandboxes were at work or starting", place => `Another one is started once a call has waited for as long as a cold start takes${
    place === "host" ? "" : ", if the GPUs have room"}. A higher min_instances keeps more of them ready.`],
  warm_elsewhere: ["its sandbox is on a busy GPU, and a cold start would have taken longer", "It passes by itself; it is shorter than a cold start."],
  slows_others: ["beside the calls at work it would have slowed them more than it waited", "That is the policy's choice. More GPUs would help, or another policy: try both under What if."],
  gpus_not_together: ["as many GPUs as its function takes together were not free at once", "More GPUs, or a function that takes fewer of them, would help."],
  gpu_reserved: ["GPUs were kept for a function that takes several and had waited for them", "It passes by itself; more GPUs would help."],
  tenant_concurrency: ["its tenant had as many calls at work as its quota allows", quota("--concurrency N", "Or make fewer calls at once.")],
  tenant_gpu_memory: ["its tenant's sandboxes at work had the GPU memory that its quota allows", quota("--gpu-memory AMOUNT", "Or lower the functions' gpu memory.")],
  tenant_host_memory: ["its tenant's sandboxes at work had the host memory that its quota allows", quota("--host-memory AMOUNT", "Or lower the functions' memory.")],
  tenant_gpu_time: ["its tenant had used the GPU time that its quota allows in an hour", quota("--gpu-time-per-hour TIME", "It passes as the hour goes on.")],
  tenant_ahead: ["its tenant had used more than its share, so other tenants went first", "That is fair sharing between tenants. A higher weight gives the tenant a larger share."],
  no_slice: ["no free slice could hold it", "More slices (--pipeline-slices), or smaller stages, would help."],
  slice_shared: ["another function had its turn on the slice that both share", "More slices would help."],
  start_paused: ["a start had failed, and was tried again after a pause", "The function's log says why the start failed."],
  starting: ["its instance was being started", "Later calls find it started."],
  host_busy: ["the host's processors ran as many calls as they may", "Raise host_concurrency (--set host_concurrency=N) if the machine has processors to spare."],
  files_coming: ["files that it mounts came from another node of the cluster", "It passes when they are here; later calls find them. Call the function once on each node before it is needed."],
  draining: ["the worker was about to stop", "The next worker takes it."],
};

/** What held a call back: "every GPU ran ..."; "" if nothing did. @param {string} reason @param {string} place as placeOf() has it */
export function reasonWords(reason, place = "") {
  if (!reason || reason === "none") return "";
  return asText(REASONS[reason]?.[0], place) ?? reason.replaceAll("_", " ");
}

/** @param {string} reason @param {any} call whose place and settings count; without one, what is true of any */
export function reasonAdvice(reason, call = {}) {
  return asText(REASONS[reason]?.[1], placeOf(call), call) ?? "";
}

/** Of several reasons the one that took the most; the worker itself remembers the longest stretch. @param {Record<string, number>} waits_ms */
export function mainReason(waits_ms, otherwise) {
  return reasonsByTime(waits_ms)[0]?.[0] ?? otherwise;
}

function reasonsByTime(waits_ms) {
  return Object.entries(waits_ms ?? {}).filter(([reason, ms]) => ms > 0 && reasonWords(reason)).sort((a, b) => b[1] - a[1]);
}

/**
 * Every reason of a call's wait as [reason, ms], the longest first; ms is undefined where only the worker's own word is known. What held
 * a call when it had become the first of its queue held those before it too: `last` is among them, however short.
 * @param {Record<string, number> | undefined} waits_ms of the journal @param {string} last of the worker
 */
export function allReasons(waits_ms, last) {
  const known = reasonsByTime(waits_ms);
  if (known.length === 0) return reasonWords(last) ? [[last, undefined]] : [];
  const all = known.reduce((sum, [, ms]) => sum + ms, 0);
  const worth = known.filter(([reason, ms]) => ms >= LEAST_SHARE * all || reason === last);
  if (reasonWords(last) && !worth.some(([reason]) => reason === last)) worth.push([last, undefined]);
  return worth;
}

/**
 * What the journal adds to a call: all its reasons, the main one, and where that is its own queue, what held the calls in front.
 * @param {Record<string, number>} waits_ms @param {string} last
 */
export function waitReasons(waits_ms, last) {
  const wait_reasons = allReasons(waits_ms, last);
  const wait_reason = mainReason(waits_ms, last);
  const front = wait_reason === "own_queue" ? wait_reasons.find(([reason]) => reason !== "own_queue") : undefined;
  return { wait_reason, wait_reasons, front_reason: front?.[0] ?? "" };
}

/** "it stood behind other calls of its function, and its function ran as many calls as it may at once"; "" if nothing held it. */
export function waitWords(call) {
  const place = placeOf(call);
  return [call.wait_reason, call.front_reason].map(reason => reasonWords(reason, place)).filter(Boolean).join(", and ");
}

/** Each reason with its time: "It stood behind other calls of its function for 1.30 s; its function ran ... for 1.51 s." */
export function waitText(call) {
  const place = placeOf(call);
  const reasons = call.wait_reasons ?? allReasons(call.waits_ms, call.wait_reason);
  if (reasons.length === 0) return "";
  const text = reasons.map(([reason, ms]) => reasonWords(reason, place) + (ms === undefined || reasons.length === 1 ? "" : ` (${duration(ms)})`)).join("; ");
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}

/** What can be done about each of them, what holds the queue before the queue itself. @param {any} call */
export function waitAdvice(call) {
  const reasons = (call.wait_reasons ?? allReasons(call.waits_ms, call.wait_reason)).map(([reason]) => reason);
  const causes = reasons.filter(reason => reason !== "own_queue");
  if (causes.length < reasons.length) causes.push("own_queue");
  return [...new Set(causes.map(reason => reasonAdvice(reason, call)))].filter(Boolean).join(" ");
}

// What is true of a phase where the call ran.
const PHASE_TEXTS = {
  sandbox: place => "No sandbox of the function was free." +
    (place === "gpu" ? " A start also waits until the GPU has the memory: what others have there may have to move first." : ""),
  run: place => ({
    gpu: "That is its own code. Calls beside it on the same GPU slow it down where the GPU runs several at once (D).",
    host: "That is its own code, on the host's processors: no GPU was used.",
  }[place] ?? "That is its own code."),
};

/** @param {"sandbox" | "run"} phase @param {any} call */
export function phaseText(phase, call) {
  return PHASE_TEXTS[phase](placeOf(call));
}
