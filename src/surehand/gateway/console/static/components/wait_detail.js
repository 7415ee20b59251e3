// One call that waits: what it asks, and the controls to answer it.
import { html } from "../html.js";
import { useState } from "../vendor/preact-hooks.js";
import { describeVerdict, sendAnswer } from "../answers.js";
import { formatAge, formatRest, formatTime, visible } from "../format.js";
import { go, link } from "../router.js";
import { now, verdicts, waits } from "../store.js";
import { Approval } from "./approval.js";
import { ClientAnswer } from "./client_answer.js";
import { Elicitation } from "./elicitation.js";
import { Facts, DetailHeading, Notice } from "./layout.js";
import { ProgressOf } from "./progress.js";
import { ResultView } from "./result_view.js";
import { Status } from "./status.js";
import { UnknownWait } from "./unknown_wait.js";

const CONTROLS = { approval: Approval, result: ClientAnswer, input: Elicitation };
const WORDS = { approve: "Approved.", reject: "Rejected.", result: "Answered." };
const SENDING_WORDS = { approve: "Approved; the call is running …", reject: "Rejecting …", result: "Sending the answer …" };

export function WaitDetail({ wait, isOpen, isInline = false }) {
  // "asking" -> "sending" -> "answered". A refused answer goes back to "asking" with the problem, unless somebody
  // else has answered before: then the question stays "late", without controls. While it is sent, the controls are
  // hidden and not removed: what was typed is still in them if the answer is refused.
  const [state, setState] = useState({ name: "asking", problem: "", word: "", outcome: null });
  const answer = async (action, body) => {
    setState({ name: "sending", problem: "", action });
    try {
      const outcome = await sendAnswer(wait, action, body);
      setState({ name: "answered", problem: "", word: WORDS[action], outcome });
    } catch (error) {
      setState({ name: error.isTooLate ? "late" : "asking", problem: error.message });
    }
  };
  const Controls = CONTROLS[wait.waiting_for] ?? UnknownWait;
  const verdict = verdicts.value[wait.call_id];
  const isElsewhere = !isOpen && state.name === "asking";
  const isSending = state.name === "sending";
  const isOver = isElsewhere || state.name === "answered" || state.name === "late";
  return html`<article class="wait">
    ${!isInline && html`<${DetailHeading}>${wait.tool}<//>
      ${!isOver && !isSending && html`<p class="subhead"><${Status} status=${wait.waiting_for} kind="pending" /></p>`}`}
    ${wait.message && html`<p class="message prose">${visible(wait.message)}</p>`}
    ${!isInline && html`<${WaitFacts} wait=${wait} isOver=${isOver || isSending} />`}
    ${state.problem && html`<${Notice} tone="bad">${state.problem}<//>`}
    ${isElsewhere && html`<${Notice} tone="waiting">
      This was answered elsewhere${verdict ? `: ${describeVerdict(verdict)}` : "."}<//>`}
    ${isSending && html`<${ProgressOf} callId=${wait.call_id} label=${SENDING_WORDS[state.action]} />`}
    ${(state.name === "asking" || isSending) && html`<div hidden=${isSending}><${Controls} wait=${wait} answer=${answer}
      isDisabled=${!wait.may_answer || isSending || isElsewhere} /></div>`}
    ${!wait.may_answer && html`<${Notice}>A rule leaves the answer to others.<//>`}
    ${state.name === "answered" && html`<${Answered} wait=${wait} state=${state} isInline=${isInline} />`}
  </article>`;
}

function WaitFacts({ wait, isOver }) {
  return html`<${Facts} items=${[
    ["User", wait.user],
    ["Asked", html`<time title=${formatTime(wait.created_at)}>${formatAge(wait.created_at, now.value)}</time>`],
    ["Expires", !isOver && wait.expires_at ? formatRest(wait.expires_at, now.value) : null],
    ["Agent", wait.agent],
    ["Run", wait.run],
    ["Session", wait.session],
    ["Space", wait.space && html`<a href=${link("spaces", wait.space)}>${wait.space}</a>`],
    ["Call", html`<a href=${link("calls", wait.call_id)}>${wait.call_id}</a>`],
    ["Part of", wait.parent && html`<a href=${link("calls", wait.parent)}>${wait.parent}</a>`],
  ]} />`;
}

function Answered({ wait, state, isInline }) {
  const next = waits.value.find((each) => each.call_id !== wait.call_id);
  return html`<${Notice} tone="good"><strong>${state.word}</strong><//>
    <${ResultView} outcome=${state.outcome} />
    ${!isInline && html`<p class="row">
      <a href=${link("calls", wait.call_id)}>Show the call</a>
      ${next && html`<button type="button" onClick=${() => go("inbox", next.call_id)}>Next question</button>`}
    </p>`}`;
}
