// Server-sent events over `fetch`: `EventSource` cannot send the token in a header.
import { authorization, apiUrl, reportRefusedToken, token } from "./api.js";

const FIRST_DELAY_MS = 500;
const MAX_DELAY_MS = 15_000;
// The server sends a comment every 15 seconds; silence much longer than that is a dead connection.
const SILENCE_MS = 45_000;

/**
 * Follow a stream until `stop()` is called. It reconnects by itself, with the id of the last event.
 * `onState` hears "connecting", "live" and "down"; `onEvent` hears each event.
 */
export function followStream(path, { onEvent, onState = () => {} }) {
  let lastId = null;
  let delay = FIRST_DELAY_MS;
  let timer = 0;
  // The connection that counts. Of any other one nothing is heard, however late its last bytes arrive.
  let current = null;

  async function connect() {
    const controller = new AbortController();
    const isCurrent = () => current === controller;
    current = controller;
    onState("connecting");
    try {
      const body = await openBody(controller);
      if (isCurrent()) await readEvents(body, controller, (event) => isCurrent() && handle(event));
    } catch {
      // Every reason for a lost stream has the same remedy: connect again.
    }
    if (!isCurrent()) return;
    onState("down");
    timer = setTimeout(connect, delay);
    delay = Math.min(delay * 2, MAX_DELAY_MS);
  }

  async function openBody(controller) {
    const sentToken = token.value;
    const headers = { Accept: "text/event-stream", ...authorization() };
    if (lastId !== null) headers["Last-Event-ID"] = lastId;
    const response = await fetch(apiUrl(path), { headers, signal: controller.signal, cache: "no-store" });
    if (response.status === 401) reportRefusedToken(sentToken);
    if (response.status === 400) lastId = null; // an id that the gateway does not know: begin with new events
    if (!response.ok) throw new Error(`status ${response.status}`);
    return response.body;
  }

  function handle(event) {
    if (event.isFirst) {
      delay = FIRST_DELAY_MS;
      onState("live");
      return;
    }
    if (event.id) lastId = event.id;
    if (event.data) onEvent(JSON.parse(event.data));
  }

  function stop() {
    clearTimeout(timer);
    current?.abort();
    current = null;
  }

  connect();
  return {
    stop,
    /** Begin again with new events, for example when a token was given: those of an earlier one do not count. */
    restart() {
      stop();
      lastId = null;
      delay = FIRST_DELAY_MS;
      connect();
    },
  };
}

/** Read the events of a response body; the first thing that arrives is reported as `{isFirst: true}`. */
export async function readEvents(body, controller, onEvent) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = "";
  let isFirst = true;
  let silence = setTimeout(() => controller.abort(), SILENCE_MS);
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      clearTimeout(silence);
      silence = setTimeout(() => controller.abort(), SILENCE_MS);
      if (isFirst) onEvent({ isFirst });
      isFirst = false;
      buffer += value;
      const blocks = buffer.split(/\r?\n\r?\n/);
      buffer = blocks.pop();
      for (const block of blocks) onEvent(parseEvent(block));
    }
  } finally {
    clearTimeout(silence);
  }
}

function parseEvent(block) {
  const event = { name: "", id: "", data: "" };
  for (const line of block.split(/\r?\n/)) {
    const [, field, value] = /^([^:]*): ?(.*)$/s.exec(line) ?? [];
    if (field === "data") event.data += (event.data && "\n") + value;
    if (field === "event") event.name = value;
    if (field === "id") event.id = value;
  }
  return event;
}
