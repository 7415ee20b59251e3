// A run of an agent as the gateway returns it, and what its events tell since then.
import { useLayoutEffect, useRef, useState } from "../vendor/preact-hooks.js";
import { encode, get } from "../api.js";
import { onEvent } from "../store.js";
import { useData } from "./use_data.js";

/** The statuses of runs that have ended. */
export const END_STATUSES = new Set(["done", "stopped", "failed"]);
const DELTAS = new Set(["TextDelta", "ToolInputDelta", "CallProgress"]);
const QUESTION_EVENTS = new Set(["CallPending", "CallSettled", "CallEnded"]);
/**
 * What is not stored yet: the texts that the model has written, the last of which it still writes, the calls by id, the
 * calls of which it still writes the arguments, and why it is asked again.
 */
const NOTHING = { texts: [""], calls: new Map(), drafts: new Map(), retry: "" };

/** `{run, live, failure}`: the run with its steps, null before it is known, and what happened since. */
export function useRun(runId, isNew) {
  const [live, setLive] = useState(NOTHING);
  const stepCount = useRef(0);
  // The gateway may not know a run that was just sent: its first event, or the answer to the request, loads it.
  const isKnown = useRef(!isNew);
  const mayBeMissed = useRef(false);
  const isOver = useRef(false);
  useLayoutEffect(
    () =>
      onEvent((event) => {
        if (event.type === "Reconnected") mayBeMissed.current = true;
        if (!isOfRun(event, runId)) return;
        isKnown.current = true;
        setLive((before) => applyEvent(before, event));
      }),
    [runId],
  );
  const load = async () => {
    if (!isKnown.current && !mayBeMissed.current) return null;
    const found = await (isKnown.current ? get(runPath(runId)) : findRun(runId));
    if (!found) return null;
    isKnown.current = true;
    isOver.current = END_STATUSES.has(found.status);
    const added = found.steps.slice(stepCount.current);
    if (added.length) setLive((before) => ({ ...before, texts: withoutStored(before.texts, added) }));
    stepCount.current = Math.max(stepCount.current, found.steps.length);
    return found;
  };
  const isNews = (event) => {
    if (isOfRun(event, runId)) return !DELTAS.has(event.type);
    // What an agent below asks, and that it was answered, are events of other runs.
    return !isOver.current && Boolean(event.turn) && QUESTION_EVENTS.has(event.type);
  };
  const { data, problem, reload } = useData(load, [runId], { isNews });
  useLayoutEffect(() => {
    if (isNew || isKnown.current) return;
    isKnown.current = true;
    reload();
  }, [isNew]);
  return { run: data, live, failure: problem };
}

function runPath(runId) {
  return `/api/runs/${encode(runId)}`;
}

/** A run whose first event may have been missed; null if the gateway does not know it. */
async function findRun(runId) {
  try {
    return await get(runPath(runId));
  } catch (error) {
    if (error.status === 404) return null;
    throw error;
  }
}

function isOfRun(event, runId) {
  return event.run_id === runId || event.turn === runId;
}

/** The texts without those of steps that are stored now. */
function withoutStored(texts, steps) {
  let rest = texts;
  for (const { text } of steps.filter((each) => each.text)) {
    const isBeginning = rest[0].startsWith(text);
    // A text whose beginning was missed is not repeated: the step has all of it.
    rest = isBeginning && rest[0].length > text.length ? [rest[0].slice(text.length), ...rest.slice(1)] : rest.slice(1);
    if (!rest.length) rest = [""];
  }
  return rest;
}

function applyEvent(live, event) {
  const { texts } = live;
  if (event.type === "TextDelta") return { ...live, texts: [...texts.slice(0, -1), texts.at(-1) + event.text], retry: "" };
  if (event.type === "ToolInputDelta") return { ...live, drafts: withDraft(live.drafts, event), retry: "" };
  // What the model has written is void, and is written again.
  if (event.type === "ModelRetried") return { ...live, texts: [...texts.slice(0, -1), ""], drafts: new Map(), retry: event.reason };
  if (event.type === "RunEnded") return { ...live, drafts: new Map(), retry: "" };
  if (!event.call_id || !event.type.startsWith("Call")) return live;
  const begins = event.type === "CallStarted" && texts.at(-1) !== "";
  return {
    texts: begins ? [...texts, ""] : texts,
    calls: applyCallEvent(live.calls, event),
    drafts: withoutDraft(live.drafts, event.call_id),
    retry: "",
  };
}

function withDraft(drafts, event) {
  const id = event.call_id ?? `draft-${event.position}`;
  const written = (drafts.get(id)?.written ?? "") + event.text;
  const draft = { call_id: id, tool: event.tool, isDraft: true, written };
  return new Map(drafts).set(id, draft);
}

// Without a store, a call gets its id when it is made: all that were written then are made.
function withoutDraft(drafts, callId) {
  const kept = [...drafts].filter(([id]) => id !== callId && !id.startsWith("draft-"));
  return kept.length === drafts.size ? drafts : new Map(kept);
}

function applyCallEvent(calls, event) {
  const known = calls.get(event.call_id) ?? { call_id: event.call_id, tool: event.tool };
  return new Map(calls).set(event.call_id, { ...known, ...fieldsOf(event) });
}

/** What an event tells of its call. */
function fieldsOf(event) {
  switch (event.type) {
    case "CallStarted":
      return { arguments: event.arguments, isRunning: true, isQueued: false, outcome: undefined, isEnded: false };
    case "CallQueued":
      return { isQueued: true, isRunning: true, queue: event.queue, position: event.position };
    case "CallProgress":
      return { progress: event, isQueued: false };
    case "CallPending":
      return { isRunning: false, isQueued: false, outcome: { status: "pending", waiting_for: event.waiting_for } };
    case "CallSettled":
    case "CallResumed":
      return { isRunning: true, isQueued: false };
    case "CallEnded":
      return { outcome: event.outcome, isRunning: false, isQueued: false, isEnded: event.outcome.status !== "pending" };
    default:
      return {};
  }
}
