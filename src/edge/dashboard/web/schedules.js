// A schedule in words. Pure.
import { duration } from "./format.js";

/** "in 5 min" of an instant that comes, in seconds since 1970. @param {string} instant @param {number} now */
export function ahead(instant, now) {
  const seconds = Date.parse(instant) / 1000 - now;
  return seconds > 0 ? `in ${duration(seconds * 1000)}` : "now";
}

/** What begins it, in words. @param {any} row */
export function rule(row) {
  if (row.rate) return `every ${row.rate.replace(/^1 /, "")}`;
  return row.timezone === "UTC" ? row.cron : `${row.cron} ${row.timezone}`;
}

/** "succeeded", "pending" and the like, and whether that is bad. @param {any} row @returns {[string, boolean]} */
export function outcome(row) {
  if (row.error) return [row.error, true];
  if (!row.last_outcome) return [row.last ? "forgotten" : "–", false];
  return [row.last_outcome.replaceAll("_", " "), !["succeeded", "pending"].includes(row.last_outcome)];
}
