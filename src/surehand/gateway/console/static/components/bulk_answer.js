// Answers several approvals at once.
import { html } from "../html.js";
import { useState } from "../vendor/preact-hooks.js";
import { sendAnswer } from "../answers.js";
import { visible } from "../format.js";
import { removeWait } from "../store.js";
import { Notice } from "./layout.js";
import { ProgressBar } from "./progress.js";
import { isUnknownEffect } from "./unknown_effect.js";

const MAX_AT_ONCE = 8;

export function BulkAnswer({ all, selected, setChosen }) {
  const [report, setReport] = useState(null);
  const [isBusy, setIsBusy] = useState(false);
  const [reason, setReason] = useState("");
  const answerable = all.filter(isSelectable);
  const approvals = selected.filter((each) => each.waiting_for === "approval");
  const run = async (action, given, body, word) => {
    setIsBusy(true);
    setReport(null);
    const problems = await answerAll(given, action, body);
    setChosen(new Set());
    setIsBusy(false);
    setReport({ done: given.length - problems.length, word, problems });
  };
  if (answerable.length < 2 && !report && !isBusy && !selected.length) return null;
  const isAll = selected.length > 0 && selected.length === answerable.length;
  return html`<div class="bulk">
    ${answerable.length > 0 && html`<label class="choice"><input type="checkbox" checked=${isAll}
      onChange=${() => setChosen(new Set(isAll ? [] : answerable.map((each) => each.call_id)))} /> Select all</label>`}
    ${selected.length > 0 && html`<div class="bulk-actions">
      <button type="button" class="primary" disabled=${isBusy || !approvals.length}
        onClick=${() => run("approve", approvals, {}, "Approved")}>Approve ${approvals.length}</button>
      <span class="meta">${selected.length} selected</span>
      <label class="inline">Reason <input type="text" value=${reason} onInput=${(event) => setReason(event.target.value)} /></label>
      <button type="button" class="danger" disabled=${isBusy}
        onClick=${() => run("reject", selected, { reason }, "Rejected")}>Reject ${selected.length}</button>
    </div>`}
    ${isBusy && html`<${ProgressBar} label="Answering …" />`}
    ${report && html`<${Notice} tone=${report.problems.length ? "bad" : "good"}>
      ${report.word} ${report.done}.
      ${report.problems.map((each) => html`<p>${each}</p>`)}
    <//>`}
  </div>`;
}

/** Whether a wait can be answered together with others. An unknown effect needs an answer of its own. */
export function isSelectable(wait) {
  return wait.may_answer && !isUnknownEffect(wait);
}

/** Answer each; returns a sentence for every one that could not be answered. */
async function answerAll(waits, action, body) {
  const problems = [];
  const queue = [...waits];
  const work = async () => {
    for (let wait = queue.shift(); wait; wait = queue.shift()) {
      try {
        await sendAnswer(wait, action, body);
        removeWait(wait.call_id, wait.round);
      } catch (error) {
        problems.push(`${visible(wait.tool)}: ${error.message}`);
        if (error.isTooLate) removeWait(wait.call_id, wait.round);
      }
    }
  };
  await Promise.all(Array.from({ length: MAX_AT_ONCE }, work));
  return problems;
}
