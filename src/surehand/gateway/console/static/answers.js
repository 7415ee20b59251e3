// Answers to calls that wait, and who was faster.
import { encode, get, post } from "./api.js";
import { formatAge } from "./format.js";
import { removeWait, verdicts } from "./store.js";

const PAST_TENSE = { approve: "approved", reject: "rejected", settle: "answered", cancel: "cancelled" };
const TOO_LATE = new Set(["conflict", "expired", "not_found"]);

/** Answer a wait; throws an error whose message says who answered, if somebody was faster. */
export async function sendAnswer(wait, action, body) {
  const path = `/api/pending/${encode(wait.call_id)}/${action}`;
  try {
    const outcome = await post(path, { ...body, round: wait.round });
    removeWait(wait.call_id);
    return outcome;
  } catch (error) {
    if (!TOO_LATE.has(error.code)) throw error;
    const verdict = await findVerdict(wait.call_id);
    if (verdict) removeWait(wait.call_id);
    throw verdict ? Object.assign(new Error(`Too late: ${describeVerdict(verdict)}`), { isTooLate: true }) : error;
  }
}

/** How a call was answered, from the events of this page or from the audit; null if nobody knows. */
export async function findVerdict(callId) {
  if (verdicts.value[callId]) return verdicts.value[callId];
  try {
    const page = await get("/api/audit", { call: callId, limit: 50 });
    const row = page.items.find((each) => each.kind === "answer");
    return row ? { verdict: row.detail.answer, by: row.by, at: row.at, reason: "" } : null;
  } catch {
    return null; // without a store there is no audit
  }
}

export function describeVerdict({ verdict, by, at, reason }) {
  const age = formatAge(at, Date.now() / 1000);
  if (verdict === "expire") return `nobody answered in time; it expired ${age}.`;
  const who = by ?? "the operator";
  return `${who} ${PAST_TENSE[verdict] ?? "answered"} it ${age}${reason ? `: ${reason}` : "."}`;
}
