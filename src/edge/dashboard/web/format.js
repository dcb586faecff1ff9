// Numbers for readers: three significant digits at most, always with their unit. Pure.

const NO_BREAK = "\u00a0";

/** @param {number} value @param {number} digits */
function significant(value, digits = 3) {
  if (value === 0) return "0";
  // Rounded first: 0.9996 has the digits of 1.
  const rounded = Number(value.toPrecision(digits));
  const places = digits - 1 - Math.floor(Math.log10(Math.abs(rounded)));
  return rounded.toFixed(Math.max(0, Math.min(places, 3)));
}

/** Milliseconds, as "0.42 ms", "312 ms", "1.90 s", "2 min 5 s". @param {number} ms */
export function duration(ms) {
  if (!Number.isFinite(ms)) return "–";
  if (ms <= 0) return "0" + NO_BREAK + "ms";
  if (ms < 0.01) return "<0.01" + NO_BREAK + "ms";
  if (ms < 999.5) return significant(ms) + NO_BREAK + "ms";
  if (ms < 59_950) return significant(ms / 1000) + NO_BREAK + "s";
  const seconds = Math.round(ms / 1000);
  if (seconds < 3600) return whole(seconds, 60, "min", "s");
  if (seconds < 86_400) return whole(Math.round(seconds / 60), 60, "h", "min");
  return whole(Math.round(seconds / 3600), 24, "d", "h");
}

function whole(amount, base, big, small) {
  const rest = amount % base;
  return Math.floor(amount / base) + NO_BREAK + big + (rest ? NO_BREAK + rest + NO_BREAK + small : "");
}

/** @param {number} count */
export function bytes(count) {
  if (!Number.isFinite(count)) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (count >= 1023.5 && unit < units.length - 1) {
    count /= 1024;
    unit += 1;
  }
  return (unit === 0 ? String(count) : significant(count)) + NO_BREAK + units[unit];
}

/** 12345 as "12,345". @param {number} value */
export function count(value) {
  return Math.round(value).toString().replace(/\B(?=(\d{3})+$)/g, ",");
}

/** @param {number} share of 1 */
export function percent(share) {
  if (!Number.isFinite(share)) return "–";
  const value = share * 100;
  return (value > 0 && value < 1 ? "<1" : Math.round(value)) + NO_BREAK + "%";
}

/** The time of day of an instant in seconds since 1970. @param {number} seconds */
export function clock(seconds) {
  const at = new Date(seconds * 1000);
  return [at.getHours(), at.getMinutes(), at.getSeconds()].map(part => String(part).padStart(2, "0")).join(":");
}

/** @param {number} seconds @param {number} now of the same clock */
export function ago(seconds, now) {
  const passed = now - seconds;
  if (passed < 1.5) return "now";
  if (passed < 60) return Math.round(passed) + NO_BREAK + "s ago";
  return duration(Math.round(passed) * 1000) + " ago";
}

/** 1 call, 2 calls. */
export function plural(amount, one, many = one + "s") {
  return count(amount) + NO_BREAK + (amount === 1 ? one : many);
}
