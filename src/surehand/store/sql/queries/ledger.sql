-- Every call that must not be forgotten. `schema.sql` explains the states.

-- fragment: insert_call
INSERT INTO ledger (call_id, fingerprint, tool, definition, arguments, user_id, session, agent, context,
    repeat_key, state, owner, fence, posted, created_at)
    VALUES (:call_id, :fingerprint, :tool, :definition, :arguments, :user_id, :session, :agent, :context, :repeat_key,

-- fragment: is_claimed_by_owner
owner = :owner AND fence = :fence

-- fragment: end_call
UPDATE ledger SET state = 'ended', outcome = :outcome, owner = NULL, ended_at = {now}
    WHERE call_id = :call_id

-- fragment: take_ready_call
UPDATE ledger SET state = 'taken', owner = :owner, fence = fence + 1
    WHERE call_id = :call_id AND state = 'ready' AND fence = :fence

-- fragment: first_call
-- Calls that an equal one follows, from their first wait until they run; those that run elsewhere, because their process
-- may be dead. `<> 'ended'` adds nothing, but only with it the partial index is used. `:siblings` holds the ids of equal
-- calls that are made together, and of the calls that these follow.
FROM ledger WHERE ledger.repeat_key = :repeat_key AND ledger.state <> 'ended'
    AND (ledger.state IN ('waiting', 'ready', 'taken', 'unknown')
        OR (ledger.state = 'running' AND ledger.owner <> :owner))
    AND ' ' || CAST(:siblings AS TEXT) || ' ' NOT LIKE '% ' || ledger.call_id || ' %'

-- name: open_call
-- Record what an id stands for, unless it is known, and that this owner has a call with it: such a row is not pruned.
{{insert_call}} 'idle',
    :owner, :fence, :posted, {now}) ON CONFLICT (call_id) DO UPDATE SET owner = excluded.owner
    WHERE ledger.state = 'idle' AND ledger.owner IS NULL

-- name: start_call
-- Record a new call as running: from here on its effect may have happened.
{{insert_call}} 'running',
    :owner, :fence, :posted, {now})

-- name: wait_for_answer
-- Let a call wait: a new one, an idle one, or one that this owner has claimed.
{{insert_call}} 'waiting',
    :owner, :fence, :posted, {now}) ON CONFLICT (call_id) DO UPDATE SET state = 'waiting', owner = NULL,
        posted = excluded.posted, arguments = excluded.arguments, definition = excluded.definition,
        repeat_key = CASE WHEN ledger.state = 'idle' THEN excluded.repeat_key ELSE ledger.repeat_key END
    WHERE ledger.fingerprint IN (excluded.fingerprint, '') AND (ledger.state = 'idle'
        OR (ledger.state IN ('taken', 'running') AND ledger.owner = excluded.owner AND ledger.fence = excluded.fence))
    RETURNING fence

-- name: find_call
SELECT ledger.call_id, ledger.fingerprint, ledger.tool, ledger.definition, ledger.arguments, ledger.user_id,
    ledger.session, ledger.agent, ledger.context, ledger.state, ledger.owner, ledger.fence, ledger.posted,
    ledger.outcome, ledger.created_at, ledger.ended_at, ledger.repeat_key FROM ledger WHERE call_id = :call_id

-- name: find_first
-- The call that an equal one follows, with what it waits for; the oldest, and a running one last.
SELECT ledger.call_id, ledger.state, (SELECT max(pending.waiting_for) FROM pending
    WHERE pending.call_id = ledger.call_id AND pending.state = 'open') AS waiting_for {{first_call}}
    ORDER BY CASE WHEN ledger.state = 'running' THEN 1 ELSE 0 END, ledger.created_at, ledger.call_id LIMIT 1

-- name: require_first
-- Returns a row only if there is no call that this one would follow.
SELECT 1 AS first WHERE NOT EXISTS (SELECT 1 {{first_call}})

-- name: claim_call
-- Run an idle call, or one that this owner has taken. The fence grows with every claim.
UPDATE ledger SET state = 'running', owner = :owner, fence = fence + 1, posted = :posted
    WHERE call_id = :call_id AND (state = 'idle' OR (state = 'taken' AND {{is_claimed_by_owner}}))

-- name: find_fence
-- The fence of a call that this owner runs.
SELECT fence FROM ledger WHERE call_id = :call_id AND state = 'running' AND owner = :owner

-- name: list_idle_calls_of_owner
SELECT call_id FROM ledger WHERE state = 'idle' AND state <> 'ended' AND owner = :owner LIMIT :limit

-- name: mark_idle_call
-- Record that this owner still has a call with an idle id.
UPDATE ledger SET owner = :owner WHERE call_id = :call_id AND state = 'idle' AND owner IS NULL

-- name: unmark_idle_call
UPDATE ledger SET owner = NULL WHERE call_id = :call_id AND state = 'idle' AND owner = :owner

-- name: take_call
-- Take an answered call to resume it. An answer is valid for as long again as there was time to give it.
{{take_ready_call}} AND NOT EXISTS (SELECT 1 FROM pending WHERE pending.call_id = ledger.call_id
        AND pending.round = (SELECT max(round) FROM pending AS other WHERE other.call_id = ledger.call_id)
        AND pending.answered_at + pending.expires_at - pending.created_at <= {now}) RETURNING fence

-- name: take_call_to_end
-- Take an answered call to end it, even if its answer is no longer valid.
{{take_ready_call}} RETURNING fence

-- name: release_call
-- Release a claimed call that has had no effect.
UPDATE ledger SET state = 'idle', owner = NULL
    WHERE call_id = :call_id AND state IN ('taken', 'running') AND {{is_claimed_by_owner}}

-- name: release_unconfirmed_call
-- The same without a fence: it is not known whether the claim was stored.
UPDATE ledger SET state = 'idle', owner = NULL, fence = fence + 1
    WHERE call_id = :call_id AND owner = :owner AND state = 'running'

-- name: revert_to_taken
-- Undo the step from taken to running of an answered call; this owner keeps it.
UPDATE ledger SET state = 'taken' WHERE call_id = :call_id AND state = 'running' AND {{is_claimed_by_owner}}
    RETURNING fence

-- name: return_to_ready
-- Release an answered call for any owner to resume.
UPDATE ledger SET state = 'ready', owner = NULL, fence = fence + 1
    WHERE call_id = :call_id AND state = :state AND {{is_claimed_by_owner}}

-- name: end_claimed_call
{{end_call}} AND state IN ('taken', 'running') AND {{is_claimed_by_owner}}

-- name: end_open_call
{{end_call}} AND state IN ('waiting', 'ready', 'unknown')

-- name: end_idle_call
{{end_call}} AND state = 'idle'

-- name: resume_here
-- Answered: this owner resumes the call.
UPDATE ledger SET state = 'taken', owner = :owner, fence = fence + 1, arguments = :arguments
    WHERE call_id = :call_id AND state = 'waiting' RETURNING fence

-- name: resume_anywhere
-- Answered: any owner may resume the call.
UPDATE ledger SET state = 'ready', owner = NULL, fence = fence + 1, arguments = :arguments
    WHERE call_id = :call_id AND state = 'waiting' RETURNING fence

-- name: clear_arguments
UPDATE ledger SET arguments = :arguments WHERE call_id = :call_id AND state = 'ended'

-- name: delete_ended_call
DELETE FROM ledger WHERE call_id = :call_id AND state = 'ended'

-- name: delete_rounds_of_ended_call
DELETE FROM pending WHERE call_id IN (SELECT call_id FROM ledger WHERE call_id = :call_id AND state = 'ended')
