// Answers to calls that wait, and who was faster.
import { encode, get, post } from "./api.js";
import { formatAge } from "./format.js";
import { verdicts } from "./store.js";

const PAST_TENSE = { approve: "approved", reject: "rejected", settle: "answered", cancel: "cancelled" };
const REFUSALS = new Set(["conflict", "expired", "not_found"]);

/** Answer a wait; throws an error with `isTooLate`, whose message says who answered, if its question is not open any more. */
export async function sendAnswer(wait, action, body) {
  const path = `/api/pending/${encode(wait.call_id)}`;
  try {
    return await post(`${path}/${action}`, { ...body, round: wait.round });
  } catch (error) {
    if (!REFUSALS.has(error.code) || (await isOpen(wait, path))) throw error;
    const verdict = await findVerdict(wait.call_id, wait.round);
    const reason = verdict ? describeVerdict(verdict) : error.message;
    throw Object.assign(new Error(`Too late: ${reason}`), { isTooLate: true });
  }
}

/** Whether a wait still asks the same question. */
async function isOpen(wait, path) {
  try {
    return (await get(path)).round === wait.round;
  } catch (error) {
    if (error.code === "not_found") return false;
    throw error;
  }
}

/** How a question of a call, or its last one, was answered: from the events of this page or the audit; null if nobody knows. */
export async function findVerdict(callId, round) {
  const heard = verdicts.value[callId];
  if (heard && (round === undefined || heard.round === round)) return heard;
  try {
    const { items } = await get("/api/audit", { call: callId, limit: 50 });
    const answers = items.filter((each) => each.kind === "answer");
    const row = round === undefined ? answers[0] : findAnswerTo(answers, round);
    return row ? { verdict: row.detail.answer, by: row.by, at: row.at, reason: "" } : null;
  } catch {
    return null; // without a store there is no audit
  }
}

function findAnswerTo(answers, round) {
  const isOldRow = answers.length === 1 && answers[0].detail.round === undefined; // of a version that did not store it
  return isOldRow ? answers[0] : answers.find((each) => each.detail.round === round);
}

export function describeVerdict({ verdict, by, at, reason }) {
  const age = formatAge(at, Date.now() / 1000);
  if (verdict === "expire") return `no answer arrived in time; it expired ${age}.`;
  const who = by ?? "the operator";
  return `${who} ${PAST_TENSE[verdict] ?? "answered"} it ${age}${reason ? `: ${reason}` : "."}`;
}
