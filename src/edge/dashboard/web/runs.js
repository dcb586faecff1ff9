// Which calls ran where and when, as bars in rows, and how many waited. Pure.
import { arrival, gpusOf } from "./store.js";

/**
 * Bars of one place since `from`: what ended there, and what runs there now.
 * @param {any[]} ended @param {any[]} runs `gpu_runs` of the state @param {string} gpu @param {number} from @param {number} now
 */
export function bars(ended, runs, gpu, from, now) {
  const found = [];
  for (const call of ended) {
    if (!gpusOf(call).includes(gpu) || call.ended < from || call.outcome === "rejected") continue;
    const phases = call.phases_ms;
    const begin = arrival(call) + phases.queue / 1000;
    found.push({
      function: call.function, invocation: call.invocation, start: call.start, begin, end: call.ended,
      ready: begin + (phases.sandbox + phases.init) / 1000,
      run: begin + (phases.sandbox + phases.init + phases.memory) / 1000, took_ms: call.took_ms, call,
    });
  }
  for (const run of runs) {
    if (run.gpu !== gpu) continue;
    const begin = now - run.held_seconds;
    found.push({
      function: run.function, invocation: run.invocation, start: "", begin, end: now, ready: begin, run: begin,
      took_ms: run.held_seconds * 1000, goesOn: true,
    });
  }
  return found.sort((a, b) => a.begin - b.begin);
}

/**
 * Gives each bar the first row that is free at its begin; returns how many rows there are. Bars that overlap by no more than `slack` share
 * a row: a call is counted as ended a little after the next one has its slot.
 */
export function assignRows(sortedBars, slack = 1e-4) {
  const ends = [];
  for (const bar of sortedBars) {
    let row = ends.findIndex(end => end <= bar.begin + slack);
    if (row < 0) row = ends.length;
    ends[row] = bar.end;
    bar.row = row;
  }
  return ends.length;
}

/** How much of the time of `slots` rows since `from` the bars fill. */
export function busyShare(someBars, slots, from, now) {
  if (now <= from || slots <= 0) return NaN;
  const busy = someBars.reduce((sum, bar) => sum + Math.max(0, Math.min(bar.end, now) - Math.max(bar.begin, from)), 0);
  return Math.min(1, busy / ((now - from) * slots));
}

/** Steps [[at, how many waited from then on], ...] of the calls that wait and waited since `from`. */
export function waitingSteps(ended, live, from, now) {
  const changes = [];
  const waited = (begin, end) => {
    if (end <= from || end - begin < 0.001) return;
    changes.push([Math.max(begin, from), 1], [Math.min(end, now), -1]);
  };
  for (const call of ended) {
    if (call.ended < from || call.outcome === "rejected") continue;
    waited(arrival(call), arrival(call) + call.phases_ms.queue / 1000);
  }
  let waiting = 0;
  for (const call of live) {
    if (call.phase !== "queued") continue;
    changes.push([Math.max(now - call.waited_seconds, from), 1]);
  }
  changes.sort((a, b) => a[0] - b[0] || b[1] - a[1]);
  const steps = [[from, 0]];
  for (const [at, change] of changes) {
    waiting += change;
    if (steps.at(-1)[0] === at) steps.at(-1)[1] = waiting;
    else steps.push([at, waiting]);
  }
  return steps;
}
