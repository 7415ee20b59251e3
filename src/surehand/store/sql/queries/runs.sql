-- Runs of agents, and the messages to them. Every write of a run's owner holds only under its fence.

-- fragment: run_columns
run_id, agent, user_id, session, state, prompt, context, spent, report, reason, owner, fence, started_at, ended_at

-- fragment: is_claimed_by_owner
run_id = :run_id AND owner = :owner AND fence = :fence AND ended_at IS NULL

-- fragment: set_spent
spent = coalesce(CAST(:spent AS TEXT), spent)

-- name: begin_run
-- Start a run under this owner; returns nothing if the id is known.
INSERT INTO runs (run_id, agent, user_id, session, state, prompt, context, owner, fence, lease_until, started_at)
    VALUES (:run_id, :agent, :user_id, :session, 'running', :prompt, :context, :owner, 1, {now} + :lease, {now})
    ON CONFLICT (run_id) DO NOTHING RETURNING {{run_columns}}

-- name: claim_run
-- Go on with a run that waits or that no live owner drives, if no other owner has claimed it since it was read.
UPDATE runs SET state = 'running', owner = :owner, fence = fence + 1, lease_until = {now} + :lease
    WHERE run_id = :run_id AND fence = :fence AND ended_at IS NULL
    AND (owner IS NULL OR lease_until IS NULL OR lease_until < {now} OR CAST(:dead AS INTEGER) = 1)
    RETURNING {{run_columns}}

-- name: renew_claim
-- Also the first statement of every write under a claim: it locks the run, and fails under an old fence.
UPDATE runs SET lease_until = {now} + :lease, {{set_spent}} WHERE {{is_claimed_by_owner}}

-- name: release_run
-- Let another owner go on with the run.
UPDATE runs SET owner = NULL, lease_until = NULL WHERE {{is_claimed_by_owner}}

-- name: let_run_wait
UPDATE runs SET state = 'waiting', owner = NULL, lease_until = NULL, {{set_spent}}, reason = :reason
    WHERE {{is_claimed_by_owner}}

-- name: end_run
UPDATE runs SET state = :state, owner = NULL, lease_until = NULL, {{set_spent}}, report = :report, reason = :reason,
    ended_at = {now} WHERE {{is_claimed_by_owner}}

-- name: find_run
SELECT {{run_columns}} FROM runs WHERE run_id = :run_id

-- name: list_latest_runs
SELECT {{run_columns}} FROM runs WHERE (CAST(:agent AS TEXT) IS NULL OR agent = :agent)
    AND (CAST(:state AS TEXT) IS NULL OR state = :state) AND (CAST(:user_id AS TEXT) IS NULL OR user_id = :user_id)
    AND (CAST(:session AS TEXT) IS NULL OR session = :session)
    ORDER BY started_at DESC, run_id DESC LIMIT :limit

-- name: lock_unended_run
-- Locks the run, so that its messages are numbered in order and none is sent while it ends.
UPDATE runs SET fence = fence WHERE run_id = :run_id AND ended_at IS NULL

-- name: send_message
INSERT INTO run_messages (run_id, kind, content, created_at) VALUES (:run_id, :kind, :content, {now})

-- name: require_no_messages
-- Returns a row only if every message of the run was given to a step.
SELECT 1 AS idle WHERE NOT EXISTS (SELECT 1 FROM run_messages WHERE run_id = :run_id AND step IS NULL)

-- name: give_messages_to_step
UPDATE run_messages SET step = :step
    WHERE run_id = :run_id AND step IS NULL AND (CAST(:kind AS TEXT) IS NULL OR kind = :kind)

-- name: list_messages
SELECT id, kind, content, step FROM run_messages WHERE run_id = :run_id ORDER BY id
