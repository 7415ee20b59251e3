// Numbers, times and values as people read them.

export function formatAge(at, now) {
  const seconds = Math.max(0, now - at);
  if (seconds < 5) return "just now";
  if (seconds < 60) return `${Math.floor(seconds)} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h ago`;
  return `${Math.floor(seconds / 86_400)} d ago`;
}

export function formatRest(until, now) {
  const seconds = until - now;
  if (seconds <= 0) return "expired";
  if (seconds < 60) return `${Math.ceil(seconds)} s left`;
  if (seconds < 3600) return `${Math.ceil(seconds / 60)} min left`;
  if (seconds < 86_400) return `${Math.round(seconds / 3600)} h left`;
  return `${Math.round(seconds / 86_400)} d left`;
}

export function formatTime(at) {
  return new Date(at * 1000).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
}

export function formatDuration(ms) {
  if (ms < 1) return `${ms.toFixed(2)} ms`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 1)} s`;
  return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1000)} s`;
}

export function formatNumber(value) {
  return value.toLocaleString("en");
}

export function countOf(count, noun) {
  return `${formatNumber(count)} ${noun}${count === 1 ? "" : "s"}`;
}

export function toJson(value) {
  return JSON.stringify(value, null, 2) ?? "null";
}

export function shorten(text, length = 160) {
  return text.length > length ? `${text.slice(0, length)}…` : text;
}

export function firstLine(text) {
  return shorten(text.split("\n", 1)[0]);
}

export function sentenceCase(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

export function isEqual(one, other) {
  return JSON.stringify(sortKeys(one)) === JSON.stringify(sortKeys(other));
}

function sortKeys(value) {
  if (Array.isArray(value)) return value.map(sortKeys);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.keys(value).sort().map((key) => [key, sortKeys(value[key])]));
}

// Characters that a reader does not see, or that turn the direction of the text around them.
// They are those of `surehand.core.sanitize`; a test compares both.
const INVISIBLE = new RegExp(
  "[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u00ad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f" +
    "\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\u2800\\u3164\\ud800-\\udfff\\ufe00-\\ufe0f\\ufeff\\uffa0\\ufff0-\\ufffb" +
    "\\u{1bca0}-\\u{1bca3}\\u{1d159}\\u{1d173}-\\u{1d17a}\\u{e0000}-\\u{e0fff}]",
  "gu",
);

/** The text with invisible characters as escapes, so that what is approved is what is seen. */
export function visible(text) {
  return String(text).replace(INVISIBLE, (character) => `\\u{${character.codePointAt(0).toString(16)}}`);
}
