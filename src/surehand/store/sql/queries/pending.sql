-- Every round of every pending call, and the answers.

-- fragment: ledger_columns
ledger.call_id, ledger.fingerprint, ledger.tool, ledger.definition, ledger.arguments, ledger.user_id,
    ledger.session, ledger.agent, ledger.context, ledger.state, ledger.owner, ledger.fence, ledger.posted,
    ledger.outcome, ledger.created_at, ledger.ended_at, ledger.repeat_key

-- fragment: round_columns
pending.round, pending.waiting_for, pending.message, pending.request, pending.provider_state, pending.inner_call,
    pending.state = 'open' AS is_open, pending.answer, pending.answer_digest, pending.answer_value,
    pending.created_at AS asked_at, pending.expires_at,
    (pending.state = 'open' AND pending.expires_at <= {now}) AS is_expired, pending.binding, pending.answered_at,
    pending.answered_by, pending.inner_run

-- fragment: may_see
(CAST(:user_id AS TEXT) IS NULL OR ledger.user_id = :user_id)
    AND (CAST(:session AS TEXT) IS NULL OR ledger.session IS NULL OR ledger.session = :session)

-- fragment: is_after
(pending.created_at, pending.call_id) > (CAST(:after_time AS {real}), CAST(:after_call_id AS TEXT))

-- fragment: from_ready_calls
-- Answered calls with their last round. Only with `<> 'ended'` is the partial index of unended calls used.
FROM ledger JOIN pending ON pending.call_id = ledger.call_id
    WHERE ledger.state = 'ready' AND ledger.state <> 'ended'
    AND pending.round = (SELECT max(round) FROM pending AS other WHERE other.call_id = ledger.call_id)

-- fragment: answer_expires_at
-- An answer is valid for as long again as there was time to give it.
pending.answered_at + pending.expires_at - pending.created_at

-- name: find_rounds
-- A call with all its rounds.
SELECT {{ledger_columns}}, {{round_columns}} FROM ledger JOIN pending ON pending.call_id = ledger.call_id
    WHERE ledger.call_id = :call_id AND {{may_see}} ORDER BY pending.round

-- name: list_open_rounds
-- Open rounds, and answered calls that no runtime has resumed for a while; oldest first, after a position.
SELECT {{ledger_columns}}, {{round_columns}} FROM pending JOIN ledger ON ledger.call_id = pending.call_id
    WHERE pending.state = 'open' AND pending.inner_call IS NULL AND pending.inner_run IS NULL
    AND (pending.expires_at IS NULL OR pending.expires_at > {now}) AND {{may_see}} AND {{is_after}}
    UNION ALL SELECT {{ledger_columns}}, {{round_columns}} {{from_ready_calls}}
    AND pending.answered_at + :grace <= {now} AND {{may_see}} AND {{is_after}}
    ORDER BY asked_at, 1 LIMIT :limit

-- name: open_round
-- The next round of a call, until a time or for a number of seconds.
INSERT INTO pending
    (call_id, round, waiting_for, message, request, provider_state, inner_call, inner_run, binding, state, created_at,
    expires_at)
    VALUES (:call_id, (SELECT coalesce(max(round), 0) + 1 FROM pending WHERE call_id = :call_id),
    :waiting_for, :message, :request, :provider_state, :inner_call, :inner_run, :binding, 'open', {now},
    coalesce(CAST(:expires_at AS {real}), {now} + CAST(:timeout_seconds AS {real}))) RETURNING round, created_at, expires_at

-- name: answer_round
-- Answer an open round: the first answer wins, only before the expiry, and only from a caller that may see the call.
UPDATE pending SET state = 'answered', answer = :answer, answer_digest = :answer_digest, answer_value = :answer_value,
    binding = :binding, answered_by = :by_whom, answered_at = {now}
    WHERE call_id = :call_id AND round = :round AND state = 'open'
    AND (expires_at IS NULL OR expires_at > {now} OR :answer IN ('expire', 'cancel'))
    AND EXISTS (SELECT 1 FROM ledger WHERE ledger.call_id = pending.call_id AND {{may_see}})

-- name: save_partial_answer
-- Replace the partial answer of an open round, if it is still the one that was read.
UPDATE pending SET answer_value = :answer_value WHERE call_id = :call_id AND round = :round AND state = 'open'
    AND coalesce(answer_value, '') = :previous_value

-- name: list_expired
-- Calls whose open round or whose answer has expired.
SELECT call_id, expires_at AS until FROM pending WHERE state = 'open' AND expires_at <= {now}
    UNION ALL SELECT ledger.call_id, {{answer_expires_at}} AS until {{from_ready_calls}}
    AND {{answer_expires_at}} <= {now}
    ORDER BY until LIMIT :limit

-- name: find_next_expiry
SELECT min(until) AS next FROM (SELECT min(expires_at) AS until FROM pending WHERE state = 'open'
    UNION ALL SELECT min({{answer_expires_at}}) {{from_ready_calls}}) AS first

-- name: count_open_rounds
SELECT count(*) AS number FROM pending WHERE state = 'open'

-- name: list_followers
-- Calls that wait for this call.
SELECT call_id FROM pending WHERE state = 'open' AND inner_call = :call_id ORDER BY created_at

-- name: list_ended_inner_calls
-- Ended calls that other calls still wait for.
SELECT DISTINCT pending.inner_call AS call_id FROM pending
    JOIN ledger ON ledger.call_id = pending.inner_call
    WHERE pending.state = 'open' AND pending.inner_call IS NOT NULL AND ledger.state = 'ended' LIMIT :limit

-- name: list_released_inner_calls
-- Calls that have not happened and that no runtime runs, while other calls still wait for them.
SELECT DISTINCT pending.inner_call AS call_id FROM pending
    JOIN ledger ON ledger.call_id = pending.inner_call
    WHERE pending.state = 'open' AND pending.inner_call IS NOT NULL AND ledger.state = 'idle' AND ledger.owner IS NULL
    LIMIT :limit

-- name: list_followers_of_run
-- Calls that wait for this run.
SELECT call_id FROM pending WHERE state = 'open' AND inner_run = :run_id ORDER BY created_at

-- name: list_calls_that_wait_for_runs
SELECT pending.call_id FROM pending JOIN ledger ON ledger.call_id = pending.call_id
    WHERE pending.state = 'open' AND pending.inner_run IS NOT NULL AND {{may_see}} ORDER BY pending.created_at

-- name: list_ended_inner_runs
-- Ended runs that calls still wait for.
SELECT DISTINCT pending.inner_run AS run_id FROM pending JOIN runs ON runs.run_id = pending.inner_run
    WHERE pending.state = 'open' AND pending.inner_run IS NOT NULL AND runs.ended_at IS NOT NULL LIMIT :limit
