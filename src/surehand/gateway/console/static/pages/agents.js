// Agents: chat with one, and look at its runs.
import { html } from "../html.js";
import { signal } from "../vendor/signals.js";
import { useEffect, useId, useRef, useState } from "../vendor/preact-hooks.js";
import { encode, get, getAll, onForget, post } from "../api.js";
import { firstLine, formatAge, formatTime, toJson, visible } from "../format.js";
import { go, link } from "../router.js";
import { now } from "../store.js";
import { DetailHeading, Empty, Facts, Notice, Panes } from "../components/layout.js";
import { useListKeys } from "../components/list_keys.js";
import { END_STATUSES } from "../components/live_run.js";
import { RunView } from "../components/run_view.js";
import { Status } from "../components/status.js";
import { useData, usePages } from "../components/use_data.js";

const RUN_PREFIX = "run:";
const RUN_EVENTS = new Set(["RunStarted", "RunEnded"]);
/** Runs that the gateway has told of: it may not know one that was just sent. */
const knownRuns = new Set();
/** The turns of the chats of this tab, by agent: `{prompt, runId, session, messages}`. */
const chats = signal({});
onForget(() => {
  chats.value = {};
  knownRuns.clear();
});

export function Agents({ id }) {
  const { data: agents, problem } = useData(() => getAll("/api/agents"), [], { isNews: (event) => event.type === "CatalogueChanged" });
  const runs = usePages("/api/runs", {}, { isNews: (event) => RUN_EVENTS.has(event.type) });
  const ids = [...(agents ?? []).map((each) => each.id), ...runs.items.map((each) => RUN_PREFIX + each.run_id)];
  useListKeys(ids, id, (next) => go("agents", next));
  const list = html`
    ${problem && html`<${Notice} tone="bad">${problem}<//>`}
    ${agents?.length === 0 && html`<${Empty}>This gateway serves no agents.<//>`}
    <ul class="list">${(agents ?? []).map((each) => html`<li class="row-item" key=${each.id} aria-current=${each.id === id}>
      <a href=${link("agents", each.id)}><span class="row-title"><strong>${visible(each.id)}</strong></span>
        <span class="meta">${each.model}</span></a></li>`)}</ul>
    ${runs.items.length > 0 && html`<h2 class="list-heading">Runs</h2>`}
    <ul class="list">${runs.items.map((each) => html`<${RunRow} key=${each.run_id} run=${each} isCurrent=${id === RUN_PREFIX + each.run_id} />`)}</ul>
    ${runs.next && html`<button type="button" class="more" onClick=${runs.loadMore}>Show older runs</button>`}`;
  return html`<${Panes} page="agents" id=${id} list=${list} detail=${html`<${Detail} key=${id} id=${id} />`} />`;
}

function RunRow({ run, isCurrent }) {
  return html`<li class="row-item" aria-current=${isCurrent}><a href=${link("agents", RUN_PREFIX + run.run_id)}>
    <span class="row-title"><span>${visible(run.agent)}</span><${Status} status=${run.status} /></span>
    <span class="row-text">${firstLine(visible(run.text || run.reason))}</span>
    <span class="meta">${run.user ? `${run.user} · ` : ""}${formatAge(run.started_at, now.value)}</span>
  </a></li>`;
}

function Detail({ id }) {
  if (!id) return html`<${Empty}>Select an agent to talk to it, or a run to see its steps.<//>`;
  if (!id.startsWith(RUN_PREFIX)) return html`<${Chat} agent=${id} />`;
  const runId = id.slice(RUN_PREFIX.length);
  return html`<article><${DetailHeading}>Run<//>
    <${RunView} runId=${runId}>${(run) => html`<${RunFacts} run=${run} /><${Prompt} prompt=${run.prompt} />`}<//></article>`;
}

function RunFacts({ run }) {
  return html`<${Facts} items=${[
    ["Agent", html`<a href=${link("agents", run.agent)}>${visible(run.agent)}</a>`],
    ["User", run.user],
    ["Session", run.session],
    ["Started", html`<time>${formatTime(run.started_at)}</time>`],
    ["Ended", run.ended_at && html`<time>${formatTime(run.ended_at)}</time>`],
    ["Part of", run.parent_run && html`<a href=${link("agents", RUN_PREFIX + run.parent_run)}>${run.parent_run}</a>`],
    ["Id", run.run_id],
  ]} />`;
}

/** What the run was started with: the last message, and the conversation before it on demand. */
function Prompt({ prompt }) {
  const messages = Array.isArray(prompt) ? prompt : [];
  if (!messages.length) return null;
  const earlier = messages.slice(0, -1);
  return html`
    ${earlier.length > 0 && html`<details><summary>Earlier in the conversation (${earlier.length})</summary>
      ${earlier.map((each) => html`<p class=${`bubble prose ${each.role === "user" ? "own" : ""}`}>${messageText(each)}</p>`)}</details>`}
    <p class="bubble own prose" aria-label="Prompt">${messageText(messages.at(-1))}</p>`;
}

function messageText({ content }) {
  return visible(typeof content === "string" ? content : toJson(content));
}

function Chat({ agent }) {
  const { data: details, problem } = useData(() => get(`/api/agents/${encode(agent)}`), [agent]);
  const turns = chats.value[agent] ?? [];
  // The status and the last text of each run of the chat, as its view reports them.
  const [reports, setReports] = useState({});
  const end = useRef(null);
  const last = turns.at(-1);
  const lastReport = last && reports[last.runId];
  const isOpen = last !== undefined && !END_STATUSES.has(lastReport?.status);
  const handleReport = (runId, report) => {
    if (report.steps !== null) knownRuns.add(runId);
    setReports((before) => ({ ...before, [runId]: report }));
  };
  const send = async (text) => {
    if (!isOpen) return startRun(agent, turns, reports, text);
    await post(`/api/runs/${encode(last.runId)}/steer`, { text });
    const message = { text, after: lastReport?.steps ?? 0 };
    changeTurn(agent, last.runId, (turn) => ({ messages: [...turn.messages, message] }));
  };
  useEffect(() => end.current?.scrollIntoView({ block: "nearest" }), [turns.length, lastReport?.status]);
  return html`<article class="chat">
    <${DetailHeading}>${agent}<//>
    ${details && html`<${Facts} items=${[["Model", details.model], ["Tools", details.tools.join(", ")]]} />`}
    ${turns.map((turn) => html`<div class="turn" key=${turn.runId}>
      <p class="bubble own prose">${visible(turn.prompt)}</p>
      <${RunView} runId=${turn.runId} isNew=${!turn.isAnswered && !knownRuns.has(turn.runId)} isChat=${true}
        messages=${turn.messages} problem=${turn.problem} onReport=${(report) => handleReport(turn.runId, report)} />
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
  const turn = { prompt: text, runId: randomId(), session, messages: [], isAnswered: false };
  chats.value = { ...chats.value, [agent]: [...turns, turn] };
  const prompt = earlier.length ? [...earlier, { role: "user", content: text }] : text;
  // Not awaited: the answer comes when the run ends or waits, and the events tell what happens until then.
  post(`/api/agents/${encode(agent)}/run`, { prompt, session, run_id: turn.runId }).then(
    () => changeTurn(agent, turn.runId, () => ({ isAnswered: true })),
    (error) => {
      // A lost connection says nothing about the run, which goes on once it has begun.
      const isLost = error.status === 0 && knownRuns.has(turn.runId);
      if (!isLost) changeTurn(agent, turn.runId, () => ({ problem: error.message }));
    },
  );
}

function changeTurn(agent, runId, change) {
  const turns = chats.value[agent] ?? [];
  chats.value = { ...chats.value, [agent]: turns.map((each) => (each.runId === runId ? { ...each, ...change(each) } : each)) };
}

function randomId() {
  return Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function MessageForm({ send, isSteering }) {
  const [text, setText] = useState("");
  const [state, setState] = useState({ isBusy: false, problem: "", notice: "" });
  const id = useId();
  const submit = async (event) => {
    event.preventDefault();
    if (!text.trim() || state.isBusy) return;
    setState({ isBusy: true, problem: "", notice: "" });
    try {
      await send(text.trim());
      setText((now) => (now === text ? "" : now));
      setState({ isBusy: false, problem: "", notice: isSteering ? "Sent: the agent reads it before its next answer." : "" });
    } catch (error) {
      setState({ isBusy: false, problem: error.message, notice: "" });
    }
  };
  const sendOnEnter = (event) => {
    if (event.key === "Enter" && !event.shiftKey) submit(event);
  };
  return html`<form class="composer" onSubmit=${submit}>
    <label for=${id}>${isSteering ? "Steer the agent while it works" : "Message"}</label>
    <textarea id=${id} rows="2" value=${text} onInput=${(event) => setText(event.target.value)} onKeyDown=${sendOnEnter}></textarea>
    ${state.problem && html`<p class="problem" role="alert">Not sent: ${state.problem}</p>`}
    <div class="actions"><button type="submit" class="primary" disabled=${!text.trim() || state.isBusy}>${state.isBusy ? "Sending …" : "Send"}</button>
      <span class="meta" role="status">${isSteering ? state.notice : ""}</span></div>
  </form>`;
}
