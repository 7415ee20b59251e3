// Agents: chat with one, and look at its runs.
import { html } from "../html.js";
import { signal } from "../vendor/signals.js";
import { useEffect, useId, useRef, useState } from "../vendor/preact-hooks.js";
import { encode, get, getAll, post } from "../api.js";
import { formatAge, firstLine, visible } from "../format.js";
import { link } from "../router.js";
import { now, onEvent } from "../store.js";
import { DetailHeading, Empty, Facts, Notice, Panes } from "../components/layout.js";
import { RunView } from "../components/run_view.js";
import { Status } from "../components/status.js";

const RUN_PREFIX = "run:";
const RUN_EVENTS = new Set(["RunStarted", "RunEnded", "Reconnected", "Missed"]);
/** Runs whose events have arrived: the gateway may not know one that was just sent. */
const knownRuns = new Set();
/** The turns of the chats of this tab, by agent: `{prompt, runId, session}`. */
const chats = signal({});

export function Agents({ id }) {
  const [agents, setAgents] = useState(null);
  const [problem, setProblem] = useState("");
  const runs = useRuns();
  useEffect(() => {
    const load = () => getAll("/api/agents").then(setAgents, (error) => setProblem(error.message));
    load();
    return onEvent((event) => event.type === "Reconnected" && load());
  }, []);
  const list = html`
    ${problem && html`<${Notice} tone="bad">${problem}<//>`}
    ${agents?.length === 0 && html`<${Empty}>This gateway serves no agents.<//>`}
    <ul class="list">${(agents ?? []).map((each) => html`<li class="row-item" key=${each.id} aria-current=${each.id === id}>
      <a href=${link("agents", each.id)}><span class="row-title"><strong>${each.id}</strong></span>
        <span class="meta">${each.model}</span></a></li>`)}</ul>
    ${runs.length > 0 && html`<h2 class="list-heading">Runs</h2>`}
    <ul class="list">${runs.map((each) => html`<${RunRow} key=${each.run_id} run=${each} isCurrent=${id === RUN_PREFIX + each.run_id} />`)}</ul>`;
  return html`<${Panes} page="agents" id=${id} list=${list} detail=${html`<${Detail} key=${id} id=${id} />`} />`;
}

function RunRow({ run, isCurrent }) {
  return html`<li class="row-item" aria-current=${isCurrent}><a href=${link("agents", RUN_PREFIX + run.run_id)}>
    <span class="row-title"><span>${run.agent}</span><${Status} status=${run.status} /></span>
    <span class="row-text">${firstLine(visible(run.text || run.reason))}</span>
    <span class="meta">${run.user ? `${run.user} · ` : ""}${formatAge(run.started_at, now.value)}</span>
  </a></li>`;
}

function useRuns() {
  const [runs, setRuns] = useState([]);
  useEffect(() => {
    const load = () => get("/api/runs", { limit: 50 }).then((page) => setRuns(page.items), () => {});
    load();
    return onEvent((event) => RUN_EVENTS.has(event.type) && load());
  }, []);
  return runs;
}

function Detail({ id }) {
  if (!id) return html`<${Empty}>Select an agent to talk to it, or a run to see its steps.<//>`;
  if (!id.startsWith(RUN_PREFIX)) return html`<${Chat} agent=${id} />`;
  const runId = id.slice(RUN_PREFIX.length);
  return html`<article><${DetailHeading}>Run<//><${Facts} items=${[["Id", runId]]} /><${RunView} runId=${runId} /></article>`;
}

function Chat({ agent }) {
  const [details, setDetails] = useState(null);
  const [problem, setProblem] = useState("");
  const turns = chats.value[agent] ?? [];
  // The status and the last text of each run of the chat, as its view reports them.
  const [reports, setReports] = useState({});
  const end = useRef(null);
  useEffect(() => {
    get(`/api/agents/${encode(agent)}`).then(setDetails, (error) => setProblem(error.message));
  }, [agent]);
  const last = turns.at(-1);
  const lastReport = last && reports[last.runId];
  const isOpen = last !== undefined && !["done", "stopped", "failed"].includes(lastReport?.status);
  const handleReport = (runId, report) => {
    knownRuns.add(runId);
    setReports((before) => ({ ...before, [runId]: report }));
  };
  const send = async (text) => {
    setProblem("");
    try {
      if (isOpen) await post(`/api/runs/${encode(last.runId)}/steer`, { text });
      else await startRun(agent, turns, reports, text);
    } catch (error) {
      setProblem(error.message);
    }
  };
  useEffect(() => end.current?.scrollIntoView({ block: "nearest" }), [turns.length, lastReport?.status]);
  return html`<article class="chat">
    <${DetailHeading}>${agent}<//>
    ${details && html`<${Facts} items=${[["Model", details.model], ["Tools", details.tools.join(", ")]]} />`}
    ${turns.map((turn) => html`<div class="turn" key=${turn.runId}>
      <p class="bubble own prose">${visible(turn.prompt)}</p>
      <${RunView} runId=${turn.runId} isNew=${!knownRuns.has(turn.runId)} isChat=${true}
        problem=${turn.problem} onReport=${(report) => handleReport(turn.runId, report)} />
    </div>`)}
    ${problem && html`<${Notice} tone="bad">${problem}<//>`}
    <${MessageForm} send=${send} isSteering=${isOpen} />
    ${turns.length > 0 && !isOpen && html`<button type="button" class="quiet"
      onClick=${() => (chats.value = { ...chats.value, [agent]: [] })}>New conversation</button>`}
    <span ref=${end}></span>
  </article>`;
}

/** Begin a run with the whole conversation: an agent remembers nothing of earlier runs by itself. */
async function startRun(agent, turns, reports, text) {
  const session = turns[0]?.session ?? `console-${randomId()}`;
  const earlier = turns.flatMap((turn) => [
    { role: "user", content: turn.prompt },
    { role: "assistant", content: reports[turn.runId]?.text || "(no answer)" },
  ]);
  const turn = { prompt: text, runId: randomId(), session };
  chats.value = { ...chats.value, [agent]: [...turns, turn] };
  const prompt = earlier.length ? [...earlier, { role: "user", content: text }] : text;
  // Not awaited: the answer comes when the run ends, and the events tell what happens until then.
  post(`/api/agents/${encode(agent)}/run`, { prompt, session, run_id: turn.runId }).catch((error) => {
    if (error.status === 0 && knownRuns.has(turn.runId)) return; // the connection was lost, and the run goes on
    const all = chats.value[agent].map((each) => (each.runId === turn.runId ? { ...each, problem: error.message } : each));
    chats.value = { ...chats.value, [agent]: all };
  });
}

function randomId() {
  return Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function MessageForm({ send, isSteering }) {
  const [text, setText] = useState("");
  const [notice, setNotice] = useState("");
  const id = useId();
  const submit = async (event) => {
    event?.preventDefault();
    if (!text.trim()) return;
    setText("");
    await send(text.trim());
    setNotice(isSteering ? "Sent: the agent reads it before its next answer." : "");
  };
  const sendOnEnter = (event) => {
    if (event.key === "Enter" && !event.shiftKey) submit(event);
  };
  return html`<form class="composer" onSubmit=${submit}>
    <label for=${id}>${isSteering ? "Steer the agent while it works" : "Message"}</label>
    <textarea id=${id} rows="2" value=${text} onInput=${(event) => setText(event.target.value)} onKeyDown=${sendOnEnter}></textarea>
    <div class="actions"><button type="submit" class="primary" disabled=${!text.trim()}>Send</button>
      <span class="meta" role="status">${isSteering ? notice : ""}</span></div>
  </form>`;
}
