// Inbox: the calls that wait for a person, and their answers.
import { html } from "../html.js";
import { useEffect, useRef, useState } from "../vendor/preact-hooks.js";
import { encode, get } from "../api.js";
import { describeVerdict, findVerdict } from "../answers.js";
import { firstLine, formatAge, formatRest, sentenceCase, shorten, visible } from "../format.js";
import { go, link } from "../router.js";
import { loadWaits, now, verdicts, waits, waitsState } from "../store.js";
import { BulkAnswer, isSelectable } from "../components/bulk_answer.js";
import { DetailHeading, Empty, Notice, Panes } from "../components/layout.js";
import { usePinnedWait } from "../components/pinned_wait.js";
import { useData } from "../components/use_data.js";
import { useListKeys } from "../components/list_keys.js";
import { WaitDetail, WaitStatus } from "../components/wait_detail.js";

export function Inbox({ id }) {
  const [chosen, setChosen] = useState(new Set());
  const items = waits.value;
  const ids = items.map((each) => each.call_id);
  const seen = useRef(new Map());
  for (const each of items) seen.current.set(each.call_id, each);
  useListKeys(ids, id, (callId) => go("inbox", callId));
  const selected = items.filter((each) => chosen.has(each.call_id));
  const toggle = (callId) => {
    const next = new Set(chosen);
    if (!next.delete(callId)) next.add(callId);
    setChosen(next);
  };
  const list = html`
    ${waitsState.value.problem && html`<${Notice} tone="bad">${waitsState.value.problem}
      <button type="button" class="quiet" onClick=${loadWaits}>Try again</button><//>`}
    <${BulkAnswer} all=${items} selected=${selected} setChosen=${setChosen} />
    ${items.length === 0 && waitsState.value.isLoaded && html`<${Empty}>Nothing waits for you. New questions appear here by themselves.<//>`}
    <ul class="list">
      ${items.map((each) => html`<${WaitRow} key=${each.call_id} wait=${each} isCurrent=${each.call_id === id}
        isChosen=${chosen.has(each.call_id)} toggle=${() => toggle(each.call_id)} />`)}
    </ul>`;
  return html`<${Panes} page="inbox" id=${id} list=${list}
    detail=${html`<${Detail} key=${id} id=${id} known=${seen.current.get(id)} isEmpty=${items.length === 0} />`} />`;
}

function WaitRow({ wait, isCurrent, isChosen, toggle }) {
  const rest = wait.expires_at ? ` · ${formatRest(wait.expires_at, now.value)}` : "";
  return html`<li class="row-item" aria-current=${isCurrent}>
    <input type="checkbox" checked=${isChosen} onChange=${toggle} disabled=${!isSelectable(wait)}
      aria-label=${`Select ${visible(wait.tool)}`} />
    <a href=${link("inbox", wait.call_id)}>
      <span class="row-title"><strong>${visible(wait.tool)}</strong><${WaitStatus} wait=${wait} /></span>
      <span class="row-text">${firstLine(visible(wait.message))}</span>
      <span class="row-text code">${shorten(visible(listArguments(wait.arguments)))}</span>
      <span class="meta">${wait.user ? `${wait.user} · ` : ""}${formatAge(wait.created_at, now.value)}${rest}</span>
    </a>
  </li>`;
}

function listArguments(values) {
  return Object.entries(values ?? {})
    .map(([name, value]) => `${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`)
    .join(", ");
}

function Detail({ id, known, isEmpty }) {
  const [last, setLast] = useState({ wait: known, isUnlisted: false });
  const current = waits.value.find((each) => each.call_id === id);
  useEffect(() => {
    if (current) setLast({ wait: current, isUnlisted: false });
  }, [current]);
  const [shown, pin] = usePinnedWait(current ?? last.wait);
  if (!id) return isEmpty ? null : html`<${Empty}>Select a question to see it. Keys: j and k move, Enter opens.<//>`;
  if (!shown) return html`<${MissingWait} id=${id} onFound=${(wait) => setLast({ wait, isUnlisted: true })} />`;
  // The list ends after many waits: one that was found by its link is open until its answer is heard of.
  const isOpen = Boolean(current) || (last.isUnlisted && !verdicts.value[id]);
  // Keyed by the round: a further question of the same call begins with a fresh form.
  return html`<${WaitDetail} key=${shown.round} wait=${shown} isOpen=${isOpen} pin=${pin} />`;
}

/** A link to a wait that is not in the list: it may be open, or answered by somebody. */
function MissingWait({ id, onFound }) {
  const { data, problem } = useData(() => findWait(id), [id]);
  useEffect(() => {
    if (data?.wait) onFound(data.wait);
  }, [data]);
  if (problem) return html`<${DetailHeading}>This call cannot be shown<//><p>${problem}</p>`;
  if (!data?.sentence) return html`<${DetailHeading}>Looking for the call …<//>`;
  return html`<${DetailHeading}>This call is not waiting<//>
    <p>${data.sentence}</p><p><a href=${link("calls", id)}>Show the call</a></p>`;
}

async function findWait(id) {
  const call = await get(`/api/calls/${encode(id)}`);
  const mayWait = call.kind === "pending" || call.outcome?.code === "unknown_effect";
  if (mayWait) return { wait: await get(`/api/pending/${encode(id)}`) };
  const verdict = await findVerdict(id);
  return { sentence: verdict ? sentenceCase(describeVerdict(verdict)) : "It does not wait any more." };
}
