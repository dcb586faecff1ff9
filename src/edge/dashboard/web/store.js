// What the page knows of the worker: rows of functions, invocations that ended, and the state of the moment. Fed by the
// snapshot and by events. Pure.

export const MOST_ENDED = 4096;
/** Functions that the page asks for when it opens, by name; of others it learns when they are called. */
export const MOST_FUNCTIONS = 5000;

/** Of a cluster, where GPUs of several nodes have the same name, with the node's: "b/0". */
function placed(row) {
  if (!row.node || !row.gpu || row.gpu === "cpu") return row;
  const named = { ...row, gpu: `${row.node}/${row.gpu}` };
  return row.gpus ? { ...named, gpus: row.gpus.map(gpu => `${row.node}/${gpu}`) } : named;
}

/** The GPUs that a sandbox or a call has, the first one first. */
export function gpusOf(row) {
  return row.gpus?.length ? row.gpus : [row.gpu];
}

const keyOf = call => `${call.invocation} ${call.node ?? ""} ${call.sequence}`;

export class Store {
  constructor() {
    /** @type {Map<string, any>} */
    this.functions = new Map();
    /** Invocations that ended, the newest first. @type {any[]} */
    this.ended = [];
    this.known = new Set();
    this.told = new Set();  // functions that an event was about: it is newer than the snapshot
    this.missed = 0;
    /** @type {any} */
    this.state = { at: 0, live: [], gpu_runs: [], sandboxes: [], all_sandboxes: 0, devices: [], slices: [], silent_nodes: [] };
    this.complete = false;
    /** There are more functions than these. */
    this.cut = false;
    /** Utilisation by GPU: [at, share], the newest last. @type {Map<string, [number, number][]>} */
    this.utilisation = new Map();
    this.clockOffset = 0;
  }

  /** @param {string} name @param {any} data @param {number} localNow in seconds */
  apply(name, data, localNow) {
    if (name === "state") this.#setState(data, localNow);
    if (name === "snapshot") {
      for (const row of data.functions) if (!this.told.has(row.name)) this.functions.set(row.name, row);
      this.cut = Boolean(data.next) && this.functions.size >= MOST_FUNCTIONS;
    }
    if (name === "functions") {
      for (const row of data.functions) {
        this.functions.set(row.name, row);
        this.told.add(row.name);
      }
      for (const gone of data.removed ?? []) this.functions.delete(gone);
    }
    if (name === "ended") {
      this.addEnded(data.invocations);
      this.missed += data.missed ?? 0;
    }
  }

  #setState(data, localNow) {
    this.state = { ...this.state, ...data };
    for (const key of ["gpu_runs", "sandboxes", "devices"]) this.state[key] = (this.state[key] ?? []).map(placed);
    this.clockOffset = data.at - localNow;
    for (const device of this.state.devices) {
      if (device.utilization === null || device.utilization === undefined) continue;
      const samples = this.utilisation.get(device.gpu) ?? [];
      samples.push([data.at, device.utilization]);
      while (samples.length > 0 && samples[0][0] < data.at - 900) samples.shift();
      this.utilisation.set(device.gpu, samples);
    }
  }

  /** @param {any[]} invocations in any order; those that are known are passed over */
  addEnded(invocations) {
    const fresh = invocations.filter(each => !this.known.has(keyOf(each))).map(placed);
    if (fresh.length === 0) return;
    for (const each of fresh) this.known.add(keyOf(each));
    // Numbers of several nodes say nothing of each other.
    this.ended = [...fresh, ...this.ended].sort((a, b) => (a.node || b.node ? b.ended - a.ended : 0) || b.sequence - a.sequence);
    for (const gone of this.ended.splice(MOST_ENDED)) this.known.delete(keyOf(gone));
  }

  /**
   * Adds page by page what ended before, until there is no more or as much as is kept.
   * @param {(before: string) => Promise<any>} ask @param {() => void} added
   */
  async addPages(ask, added) {
    for (let before = "", taken = 0; taken < MOST_ENDED;) {
      const { invocations, next } = await ask(before);
      this.addEnded(invocations);
      added();
      if (!next || invocations.length === 0) return;
      before = next;
      taken += invocations.length;
    }
  }

  /** After a restart of the worker its counts begin again. */
  clear() {
    const { clockOffset } = this;
    Object.assign(this, new Store(), { clockOffset });
  }

  /** The worker's time. @param {number} localNow in seconds */
  now(localNow) {
    return localNow + this.clockOffset;
  }
}

/** When a call came. */
export function arrival(call) {
  return call.ended - call.took_ms / 1000;
}

/** Sums over the calls that ended within the last `seconds`. */
export function summary(ended, now, seconds) {
  const recent = ended.filter(call => call.ended >= now - seconds);
  const ran = recent.filter(call => call.outcome !== "rejected");
  const took = ran.map(call => call.took_ms).sort((a, b) => a - b);
  return {
    calls: recent.length,
    failed: recent.filter(call => call.outcome === "function_error").length,
    refused: recent.length - ran.length,
    cold: ran.filter(call => call.start === "cold").length,
    ran: ran.length,
    p50: percentile(took, 0.5),
    p95: percentile(took, 0.95),
  };
}

/** @param {number[]} sorted @param {number} share */
export function percentile(sorted, share) {
  if (sorted.length === 0) return NaN;
  return sorted[Math.min(sorted.length - 1, Math.ceil(share * sorted.length) - 1)];
}

/** The slowest calls of the last `seconds`, the slowest first. */
export function slowest(ended, now, seconds, most) {
  return ended.filter(call => call.ended >= now - seconds && call.outcome !== "rejected")
    .sort((a, b) => b.took_ms - a.took_ms).slice(0, most);
}

/**
 * How much GPU memory each function has on a GPU: [{name, bytes, moving, onHost}], the most first. Of a sandbox with several GPUs the
 * sum is known: each counts as an equal part of it.
 */
export function memoryMap(sandboxes, gpu) {
  const byFunction = new Map();
  for (const sandbox of sandboxes) {
    const gpus = gpusOf(sandbox);
    if (!gpus.includes(gpu) || !(sandbox.device_memory_bytes > 0)) continue;
    const row = byFunction.get(sandbox.function) ?? { name: sandbox.function, bytes: 0, moving: 0, onHost: 0 };
    const place = sandbox.device_memory_place;
    const part = place.startsWith("moving") ? "moving" : place.startsWith("out") ? "onHost" : "bytes";
    row[part] += sandbox.device_memory_bytes / gpus.length;
    byFunction.set(sandbox.function, row);
  }
  return [...byFunction.values()].sort((a, b) => b.bytes + b.moving - a.bytes - a.moving || (a.name < b.name ? -1 : 1));
}
