// Spaces: messages and visible calls, as they happen.
import { html } from "../html.js";
import { useEffect, useId, useRef, useState } from "../vendor/preact-hooks.js";
import { encode, get, getAll, post, token } from "../api.js";
import { followStream } from "../stream.js";
import { countOf, formatAge, visible } from "../format.js";
import { go, link } from "../router.js";
import { now } from "../store.js";
import { DetailHeading, Empty, Facts, Notice, Panes } from "../components/layout.js";
import { JsonView } from "../components/json_view.js";
import { ToolCard } from "../components/tool_card.js";
import { useData, usePages } from "../components/use_data.js";
import { useListKeys } from "../components/list_keys.js";

const REFRESH_MS = 5000;

export function Spaces({ id }) {
  // A new space has no event of its own.
  const spaces = useData(() => getAll("/api/spaces"), [], { everyMs: REFRESH_MS });
  const state = { ...spaces, items: spaces.data ?? [] };
  const load = spaces.reload;
  useListKeys(state.items.map((each) => each.id), id, (space) => go("spaces", space));
  const list = html`
    ${state.problem && html`<${Notice} tone="bad">${state.problem}<//>`}
    <${NewSpace} onCreated=${(space) => { load(); go("spaces", space.id); }} />
    ${state.isLoaded && !state.problem && !state.items.length && html`<${Empty}>
      There is no space yet. In a space, people and agents share messages, and see the calls that agents make there.<//>`}
    <ul class="list">${state.items.map((each) => html`<li class="row-item" key=${each.id} aria-current=${each.id === id}>
      <a href=${link("spaces", each.id)}><span class="row-title"><strong>${visible(each.name || each.id)}</strong></span>
        <span class="meta">${countOf(each.messages, "message")} · ${formatAge(each.created_at, now.value)}</span></a></li>`)}</ul>`;
  const detail = id ? html`<${SpaceDetail} key=${id} id=${id} onChange=${load} />` : html`<${Empty}>Select a space to see its messages.<//>`;
  return html`<${Panes} page="spaces" id=${id} list=${list} detail=${detail} />`;
}

function NewSpace({ onCreated }) {
  const [name, setName] = useState("");
  const [problem, setProblem] = useState("");
  const create = async (event) => {
    event.preventDefault();
    try {
      onCreated(await post("/api/spaces", { name }));
      setName("");
      setProblem("");
    } catch (error) {
      setProblem(error.message);
    }
  };
  return html`<form class="search" onSubmit=${create}><label class="visually-hidden" for="new-space">Name of a new space</label>
    <input id="new-space" type="text" placeholder="Name of a new space" value=${name} onInput=${(event) => setName(event.target.value)} />
    <button type="submit" disabled=${!name.trim()}>Create</button>${problem && html`<p class="problem">${problem}</p>`}</form>`;
}

function SpaceDetail({ id, onChange }) {
  const { data: space, problem } = useData(() => get(`/api/spaces/${encode(id)}`), [id]);
  // A new member has no event of its own either, but mostly writes.
  const memberList = useData(() => getAll(`/api/spaces/${encode(id)}/members`), [id], { everyMs: REFRESH_MS });
  const members = memberList.data ?? [];
  const messages = useMessages(id);
  const end = useRef(null);
  const newest = messages.items.at(-1)?.id;
  useEffect(() => {
    end.current?.scrollIntoView({ block: "nearest" });
    if (messages.isLoaded) onChange();
  }, [newest]);
  return html`<article class="chat">
    <${DetailHeading}>${visible(space?.name || id)}<//>
    <${Facts} items=${[["Id", id], ["Members", members.map((each) => each.name || each.id).join(", ")]]} />
    ${messages.state === "down" && html`<${Notice} tone="waiting">The stream of this space is down; it reconnects by itself.<//>`}
    ${messages.next && html`<button type="button" class="more" onClick=${messages.loadMore}>Show older messages</button>`}
    ${messages.isLoaded && !messages.problem && !messages.items.length && html`<${Empty}>No message yet.<//>`}
    <ol class="messages">${messages.items.map((each) => html`<${MessageItem} key=${each.id} message=${each} />`)}</ol>
    ${(problem || messages.problem) && html`<${Notice} tone="bad">${problem || messages.problem}<//>`}
    ${members.length > 0 && html`<${PostForm} space=${id} members=${members} />`}
    ${memberList.data && html`<${AddMember} space=${id} isFirst=${members.length === 0} onAdded=${memberList.reload} />`}
    <span ref=${end}></span>
  </article>`;
}

function MessageItem({ message }) {
  const { content } = message;
  const sender = message.sender_name || message.sender_id || "surehand";
  return html`<li class="message-item">
    <span class="meta"><strong>${visible(sender)}</strong> · ${formatAge(message.created_at, now.value)}</span>
    ${content?.type === "tool_call"
      ? html`<${ToolCard} call=${callOfMessage(content, message.progress)} />`
      : typeof content === "string" ? html`<p class="bubble prose">${visible(content)}</p>` : html`<${JsonView} value=${content} />`}
  </li>`;
}

/** The call that a message shows, as a card expects it. */
function callOfMessage(content, progress) {
  const call = { call_id: content.toolCallId, tool: content.toolName, arguments: content.args, progress };
  if (content.status === "running") return { ...call, isRunning: true };
  if (content.status === "requires_action") return { ...call, outcome: { status: "pending", waiting_for: content.waitingFor } };
  const isFailed = content.status === "error";
  const outcome = isFailed
    ? { status: "failed", code: "failed", message: content.result ?? "" }
    : { status: "done", text: content.result ?? "", data: content.data };
  return { ...call, isEnded: true, outcome };
}

/** What happens right now, and changes no message. */
const PASSING_EVENTS = /^(tool-input-delta|agent\..*|space\.message\..*)$/;

/** The messages of a space, oldest first, kept current by its own stream. */
function useMessages(id) {
  const messages = usePages(`/api/spaces/${encode(id)}/messages`);
  const [state, setState] = useState("connecting");
  useEffect(() => {
    const stream = followStream(`/api/spaces/${encode(id)}/events`, {
      onState(next) {
        setState((before) => (next === "connecting" && before === "down" ? "down" : next));
        if (next === "live") messages.reload();
      },
      onEvent(event) {
        if (event.type === "tool-result" && event.preliminary) messages.update((page) => withProgress(page, event));
        else if (!PASSING_EVENTS.test(event.type)) messages.reload();
      },
    });
    return () => stream.stop();
  }, [id]);
  return { ...messages, items: messages.items.toReversed(), state };
}

function withProgress(messages, event) {
  const progress = { message: event.output?.text, fraction: event.output?.fraction, title: event.output?.title };
  const items = messages.items.map((each) => (each.id === event.messageId ? { ...each, progress } : each));
  return { ...messages, items };
}

/** Adds a person. Without a member nobody can write: the operator of a gateway is not a user by itself. */
function AddMember({ space, isFirst, onAdded }) {
  const [name, setName] = useState("");
  const [problem, setProblem] = useState("");
  const id = useId();
  const add = async (event) => {
    event.preventDefault();
    try {
      await post(`/api/spaces/${encode(space)}/members`, { id: name.trim() });
      setName("");
      setProblem("");
      onAdded();
    } catch (error) {
      setProblem(error.message);
    }
  };
  const form = html`<form class="add-member" onSubmit=${add}>
    <label for=${id}>${isFirst ? "Only members can write. Who are you?" : "Name of the new member"}</label>
    <div class="row"><input id=${id} type="text" autocomplete="off" value=${name} onInput=${(event) => setName(event.target.value)} />
      <button type="submit" class=${isFirst ? "primary" : ""} disabled=${!name.trim()}>${isFirst ? "Join" : "Add"}</button></div>
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}
  </form>`;
  return isFirst ? form : html`<details class="more-members"><summary>Add a member</summary>${form}</details>`;
}

function PostForm({ space, members }) {
  const [text, setText] = useState("");
  // Without a token the browser is the operator, who writes as one of the members; with one, as its own user at first.
  const [sender, setSender] = useState(token.value ? "" : (members.find((each) => each.kind === "person") ?? members[0]).id);
  const [problem, setProblem] = useState("");
  const id = useId();
  const submit = async (event) => {
    event.preventDefault();
    try {
      await post(`/api/spaces/${encode(space)}/messages`, { content: text, ...(sender ? { sender } : {}) });
      setText("");
      setProblem("");
    } catch (error) {
      setProblem(error.message);
    }
  };
  return html`<form class="composer" onSubmit=${submit}>
    <label for=${id}>Message</label>
    <textarea id=${id} rows="2" value=${text} onInput=${(event) => setText(event.target.value)}></textarea>
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}
    <div class="actions"><button type="submit" class="primary" disabled=${!text.trim()}>Post</button>
      <label class="inline">As <select value=${sender} onChange=${(event) => setSender(event.target.value)}>
        ${token.value && html`<option value="">myself</option>`}
        ${members.map((each) => html`<option value=${each.id} selected=${each.id === sender}>${each.name || each.id}</option>`)}
      </select></label></div>
  </form>`;
}
