-- Every call that must not be forgotten. `schema.sql` explains the states.

-- fragment: insert_call
INSERT INTO ledger (call_id, fingerprint, tool, definition, arguments, user_id, session, agent, context,
    state, owner, fence, posted, created_at)
    VALUES (:call_id, :fingerprint, :tool, :definition, :arguments, :user_id, :session, :agent, :context,

-- fragment: is_claimed_by_owner
owner = :owner AND fence = :fence

-- fragment: end_call
UPDATE ledger SET state = 'ended', outcome = :outcome, owner = NULL, ended_at = {now}
    WHERE call_id = :call_id

-- fragment: take_ready_call
UPDATE ledger SET state = 'taken', owner = :owner, fence = fence + 1
    WHERE call_id = :call_id AND state = 'ready' AND fence = :fence

-- name: open_call
-- Record what an id stands for, unless it is known.
{{insert_call}} 'idle',
    :owner, :fence, :posted, {now}) ON CONFLICT (call_id) DO NOTHING

-- name: start_call
-- Record a new call as running: from here on its effect may have happened.
{{insert_call}} 'running',
    :owner, :fence, :posted, {now})

-- name: wait_for_answer
-- Let a call wait: a new one, an idle one, or one that this owner has claimed.
{{insert_call}} 'waiting',
    :owner, :fence, :posted, {now}) ON CONFLICT (call_id) DO UPDATE SET state = 'waiting', owner = NULL,
        posted = excluded.posted, arguments = excluded.arguments, definition = excluded.definition
    WHERE ledger.fingerprint IN (excluded.fingerprint, '') AND (ledger.state = 'idle'
        OR (ledger.state IN ('taken', 'running') AND ledger.owner = excluded.owner AND ledger.fence = excluded.fence))
    RETURNING fence

-- name: find_call
SELECT ledger.call_id, ledger.fingerprint, ledger.tool, ledger.definition, ledger.arguments, ledger.user_id,
    ledger.session, ledger.agent, ledger.context, ledger.state, ledger.owner, ledger.fence, ledger.posted,
    ledger.outcome, ledger.created_at, ledger.ended_at FROM ledger WHERE call_id = :call_id

-- name: claim_call
-- Run an idle call, or one that this owner has taken. The fence grows with every claim.
UPDATE ledger SET state = 'running', owner = :owner, fence = fence + 1, posted = :posted
    WHERE call_id = :call_id AND (state = 'idle' OR (state = 'taken' AND {{is_claimed_by_owner}})) RETURNING fence

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
