// One call that waits: what it asks, and the controls to answer it.
import { html } from "../html.js";
import { useState } from "../vendor/preact-hooks.js";
import { describeVerdict, sendAnswer } from "../answers.js";
import { formatAge, formatRest, formatTime, visible } from "../format.js";
import { go, link } from "../router.js";
import { now, removeWait, verdicts, waits } from "../store.js";
import { Approval } from "./approval.js";
import { ClientAnswer } from "./client_answer.js";
import { Elicitation } from "./elicitation.js";
import { Facts, DetailHeading, Notice } from "./layout.js";
import { CallProgress } from "./progress.js";
import { ResultView } from "./result_view.js";
import { Status } from "./status.js";
import { UnknownEffect, isUnknownEffect } from "./unknown_effect.js";
import { UnknownWait } from "./unknown_wait.js";

const CONTROLS = { approval: Approval, result: ClientAnswer, input: Elicitation };
const WORDS = { approve: "Approved.", reject: "Rejected.", result: "Answered." };
const SENDING_WORDS = { approve: "Approved; the call is running …", reject: "Rejecting …", result: "Sending the answer …" };

/**
 * A wait that can be answered. `pin` keeps showing it while its answer is sent, and until the person has read that the answer came
 * too late: the list of waits has it no longer then.
 */
export function WaitDetail({ wait, isOpen, isInline = false, pin }) {
  // "asking" -> "sending" -> "answered". A refused answer goes back to "asking" with the problem, unless somebody
  // else has answered before: then the question stays "late", without controls. While it is sent, the controls are
  // hidden and not removed: what was typed is still in them if the answer is refused.
  const [state, setState] = useState({ name: "asking", problem: "", word: "", outcome: null });
  const answer = async (action, body) => {
    pin(wait);
    setState({ name: "sending", problem: "", action });
    try {
      const outcome = await sendAnswer(wait, action, body);
      setState({ name: "answered", problem: "", word: WORDS[action], outcome });
      removeWait(wait.call_id, wait.round);
      pin(null);
    } catch (error) {
      setState({ name: error.isTooLate ? "late" : "asking", problem: error.message });
      if (error.isTooLate) removeWait(wait.call_id, wait.round);
      else pin(null);
    }
  };
  const Controls = isUnknownEffect(wait) ? UnknownEffect : (CONTROLS[wait.waiting_for] ?? UnknownWait);
  const verdict = verdicts.value[wait.call_id];
  const isElsewhere = !isOpen && state.name === "asking";
  const isSending = state.name === "sending";
  const asksAgain = waits.value.some((each) => each.call_id === wait.call_id && each.round !== wait.round);
  const isOver = isElsewhere || state.name === "answered" || state.name === "late";
  return html`<article class="wait">
    ${!isInline && html`<${DetailHeading}>${visible(wait.tool)}<//>
      ${!isOver && !isSending && html`<p class="subhead"><${WaitStatus} wait=${wait} /></p>`}`}
    ${wait.message && html`<p class="message prose">${visible(wait.message)}</p>`}
    ${!isInline && html`<${WaitFacts} wait=${wait} isOver=${isOver || isSending} />`}
    ${state.problem && html`<${Notice} tone="bad">${state.problem}
      ${state.name === "late" && (isInline || asksAgain) && html`<button type="button" class="quiet" onClick=${() => pin(null)}>
        ${asksAgain ? "Show its next question" : "Dismiss"}</button>`}<//>`}
    ${isElsewhere && html`<${Notice} tone="waiting">
      This was answered elsewhere${verdict ? `: ${describeVerdict(verdict)}` : "."}<//>`}
    ${isSending && html`<${CallProgress} callId=${wait.call_id} label=${SENDING_WORDS[state.action]} />`}
    ${(state.name === "asking" || isSending) && html`<div hidden=${isSending}><${Controls} wait=${wait} answer=${answer}
      isDisabled=${!wait.may_answer || isSending || isElsewhere} /></div>`}
    ${!wait.may_answer && html`<${Notice}>A rule leaves the answer to others.<//>`}
    ${state.name === "late" && !isInline && html`<${NextSteps} wait=${wait} />`}
    ${state.name === "answered" && html`<${Answered} wait=${wait} state=${state} isInline=${isInline} />`}
  </article>`;
}

/** What a wait is for, in a word. */
export function WaitStatus({ wait }) {
  if (isUnknownEffect(wait)) return html`<span class="status bad">unknown effect</span>`;
  return html`<${Status} status=${wait.waiting_for} kind="pending" />`;
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
  return html`<${Notice} tone="good"><strong>${state.word}</strong><//>
    <${ResultView} outcome=${state.outcome} />
    ${!isInline && html`<${NextSteps} wait=${wait} />`}`;
}

function NextSteps({ wait }) {
  const next = waits.value.find((each) => each.call_id !== wait.call_id);
  return html`<p class="row">
    <a href=${link("calls", wait.call_id)}>Show the call</a>
    ${next && html`<button type="button" onClick=${() => go("inbox", next.call_id)}>Next question</button>`}
  </p>`;
}
