// Drives the AG-UI client: one JSON command per line of stdin, and one JSON line of stdout about each.
// The events are those that the client has verified: it ends a run with an error if their order is wrong.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

// When a stream breaks off, the client reports it, and rejects a promise that no one can see; a browser only logs that.
process.on("unhandledRejection", () => {});

const [packages, threadId] = process.argv.slice(2);
const { HttpAgent } = createRequire(`${packages}/`)("@ag-ui/client");
const agent = new HttpAgent({ url: "http://127.0.0.1/", threadId });

async function run({ url, headers = {}, message, state, abortAt, parameters }) {
  agent.url = url;
  agent.headers = headers;
  if (message) agent.messages.push(message);
  if (state !== undefined) agent.state = state;
  const events = [];
  let error = null;
  let result = null;
  const subscriber = {
    onEvent({ event }) {
      events.push(event);
      if (event.type === abortAt) agent.abortRun();
    },
    onRunFailed(failed) {
      error = String(failed.error);
      return { stopPropagation: true };
    },
  };
  try {
    ({ result } = await agent.runAgent(parameters, subscriber));
  } catch (thrown) {
    error = String(thrown);
  }
  return {
    events,
    error,
    result: result ?? null,
    messages: agent.messages,
    state: agent.state,
    interrupts: agent.pendingInterrupts,
  };
}

for await (const line of createInterface({ input: process.stdin })) {
  process.stdout.write(`${JSON.stringify(await run(JSON.parse(line)))}\n`);
}
process.exit(0); // a stream that the client gave up may still be open
