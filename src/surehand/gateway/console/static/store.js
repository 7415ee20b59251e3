// What several pages share: the waits, the state of the event stream, and who listens to events.
import { computed, effect, signal } from "./vendor/signals.js";
import { getAll, needsToken, onForget } from "./api.js";
import { followStream } from "./stream.js";

export const streamState = signal("connecting");
export const waits = signal([]);
export const waitsState = signal({ isLoaded: false, problem: "" });
/** Verdicts of waits that were answered while the page was open, by call id. */
export const verdicts = signal({});
export const waitCount = computed(() => waits.value.length);
export const now = signal(Date.now() / 1000);

const MAX_WAITS = 2000;
const MANY_WAITS = 200;
const RELOAD_MS = 50;
const SLOW_RELOAD_MS = 1000;
const listeners = new Set();
let stream = null;

/**
 * Hear every event; returns the function that ends this. `{type: "Reconnected"}` says that events may be missing, after a
 * reconnection or because there were too many: what is shown has to be loaded again.
 */
export function onEvent(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function start() {
  setInterval(() => (now.value = Date.now() / 1000), 5000);
  stream = followStream("/api/events", { onEvent: handleEvent, onState: handleState });
  loadWaits();
  // Without a token nothing of an earlier one may be seen, not even how many calls wait.
  onForget(() => {
    stream.stop();
    clearTimeout(reloadTimer);
    waits.value = [];
    waitsState.value = { isLoaded: false, problem: "" };
    verdicts.value = {};
    streamState.value = "down";
  });
  effect(() => {
    document.title = `${waitCount.value ? `(${waitCount.value}) ` : ""}${pageTitle.value} · surehand`;
  });
}

export const pageTitle = signal("Inbox");

/** Load everything again, after a token was given. */
export function restart() {
  streamState.value = "connecting";
  stream.restart();
  reloadAll(); // not only once the stream is live: it may not get through
}

function handleState(state) {
  const wasDown = streamState.value === "down" || streamState.value === "connecting";
  streamState.value = state === "connecting" && streamState.value === "down" ? "down" : state;
  if (state === "live" && wasDown) reloadAll();
}

function reloadAll() {
  loadWaits();
  notifyListeners({ type: "Reconnected" });
}

function handleEvent(event) {
  if (event.type === "CallPending") loadWaitsSoon();
  if (event.type === "CallSettled") settleWait(event);
  if (event.type === "CallEnded" && event.outcome.status !== "pending") removeWait(event.call_id);
  if (event.type === "Missed") reloadAll();
  else notifyListeners(event);
}

function notifyListeners(event) {
  for (const listener of listeners) listener(event);
}

let loadNumber = 0;
let shownNumber = 0;
/** The questions that were answered, by their call, with the number of the last load before: its list may still have them. */
const removals = new Map();

/** Load all waits. An answer that is older than the shown one is dropped, and so are calls that were answered meanwhile. */
export async function loadWaits() {
  if (needsToken.value) return;
  const number = ++loadNumber;
  try {
    const items = await getAll("/api/pending", {}, { maxItems: MAX_WAITS });
    if (number < shownNumber) return;
    shownNumber = number;
    waits.value = items.filter((each) => !isRemoved(each, number));
    waitsState.value = { isLoaded: true, problem: "" };
    for (const [callId, last] of removals) if (last.number <= number) removals.delete(callId);
  } catch (error) {
    if (number >= shownNumber) waitsState.value = { isLoaded: waitsState.value.isLoaded, problem: error.message };
  }
}

function isRemoved(wait, number) {
  const last = removals.get(wait.call_id);
  return last !== undefined && last.number >= number && (last.round === undefined || wait.round <= last.round);
}

// The whole list, not the one call: a call that was answered meanwhile is then no error. Many events make one request.
let reloadTimer = 0;
function loadWaitsSoon() {
  clearTimeout(reloadTimer);
  reloadTimer = setTimeout(loadWaits, waits.value.length > MANY_WAITS ? SLOW_RELOAD_MS : RELOAD_MS);
}

function settleWait(event) {
  const { call_id: callId, verdict, by, reason, at } = event;
  const wait = waits.value.find((each) => each.call_id === callId);
  // The event does not say which question was answered. One that is newer than the answer is open still.
  if (wait && wait.created_at > at) {
    loadWaitsSoon();
    return;
  }
  verdicts.value = { ...verdicts.value, [callId]: { verdict, by, reason, at, round: wait?.round } };
  removeWait(callId, wait?.round);
}

/** Remove a wait that is over; with `round` only that question of the call, because the next one may be open already. */
export function removeWait(callId, round) {
  removals.set(callId, { number: loadNumber, round });
  const isOver = (each) => each.call_id === callId && (round === undefined || each.round === round);
  if (waits.value.some(isOver)) waits.value = waits.value.filter((each) => !isOver(each));
}
