// A coloured word for the state of a call, a server or a run.
import { html } from "../html.js";

const GOOD = new Set(["ok", "done", "up", "completed"]);
const WAITING = new Set(["approval", "result", "input", "pending", "waiting", "paused"]);
const BUSY = new Set(["running", "writing", "starting", "queued", "ready", "taken", "connecting"]);
const WAIT_WORDS = { result: "an answer", input: "an answer" };
const NEUTRAL = new Set(["idle", "off", ""]);

export function Status({ status, kind = "" }) {
  return html`<span class=${`status ${tone(status, kind)}`}>${words(status, kind)}</span>`;
}

function tone(status, kind) {
  if (kind === "pending" || WAITING.has(status)) return "waiting";
  if (GOOD.has(status)) return "good";
  if (BUSY.has(status)) return "busy";
  if (NEUTRAL.has(status)) return "neutral";
  return "bad";
}

function words(status, kind) {
  const isWaiting = kind === "pending" || ["approval", "result", "input"].includes(status);
  return isWaiting ? `waits for ${WAIT_WORDS[status] ?? status}` : status.replaceAll("_", " ");
}

const EFFECT_TONES = { read: "neutral", write: "waiting", destructive: "bad" };

export function Effects({ effects }) {
  return html`${effects.map((each) => html`<span class=${`status ${EFFECT_TONES[each] ?? "busy"}`}>${each}</span> `)}`;
}
