-- Runs of agents, and the messages to them. Every write of a run's owner holds only under its fence.

-- fragment: run_columns
run_id, agent, user_id, session, state, prompt, context, spent, report, reason, owner, fence, started_at, ended_at,
    attempts

-- fragment: agent_parameters
:agent_0, :agent_1, :agent_2, :agent_3, :agent_4, :agent_5, :agent_6, :agent_7

-- fragment: is_claimed_by_owner
run_id = :run_id AND owner = :owner AND fence = :fence AND ended_at IS NULL

-- fragment: set_spent
spent = coalesce(CAST(:spent AS TEXT), spent)

-- name: begin_run
-- Start a run under this owner; returns nothing if the id is known.
INSERT INTO runs (run_id, agent, user_id, session, state, prompt, context, owner, fence, lease_until, started_at)
    VALUES (:run_id, :agent, :user_id, :session, 'running', :prompt, :context, :owner, 1, {now} + :lease, {now})
    ON CONFLICT (run_id) DO NOTHING RETURNING {{run_columns}}

-- name: leave_run_to_workers
-- Start a run that no process drives yet; any worker may.
INSERT INTO runs (run_id, agent, user_id, session, state, prompt, context, owner, fence, started_at)
    VALUES (:run_id, :agent, :user_id, :session, 'running', :prompt, :context, NULL, 0, {now})
    ON CONFLICT (run_id) DO NOTHING

-- name: claim_run
-- Go on with a run that waits or that no live owner drives, if no other owner has claimed it since it was read.
UPDATE runs SET state = 'running', owner = :owner, fence = fence + 1, lease_until = {now} + :lease, retry_at = NULL
    WHERE run_id = :run_id AND fence = :fence AND state IN ('running', 'waiting')
    AND (owner IS NULL OR lease_until IS NULL OR lease_until < {now} OR CAST(:dead AS INTEGER) = 1)
    RETURNING {{run_columns}}

-- name: renew_claim
-- Also the first statement of every write under a claim: it locks the run, and fails under an old fence.
UPDATE runs SET lease_until = {now} + :lease, {{set_spent}} WHERE {{is_claimed_by_owner}}

-- name: find_claim
SELECT 1 AS claimed FROM runs WHERE {{is_claimed_by_owner}}

-- name: release_run
-- Let another owner go on with the run.
UPDATE runs SET owner = NULL, lease_until = NULL WHERE {{is_claimed_by_owner}}

-- name: leave_run
-- Leave the run to whoever claims it by its id: it is never listed as interrupted.
UPDATE runs SET owner = NULL, lease_until = NULL, retry_at = :never, reason = :reason WHERE {{is_claimed_by_owner}}

-- name: release_run_after_failure
-- Let another owner try again to go on with the run, but not before the delay is over.
UPDATE runs SET owner = NULL, lease_until = NULL, attempts = attempts + 1, retry_at = {now} + :delay, reason = :reason
    WHERE {{is_claimed_by_owner}}

-- name: let_run_wait
UPDATE runs SET state = 'waiting', owner = NULL, lease_until = NULL, {{set_spent}}, reason = :reason, attempts = 0
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
    AND (CAST(:before_run_id AS TEXT) IS NULL
        OR (started_at, run_id) < (CAST(:before_time AS {real}), CAST(:before_run_id AS TEXT)))
    ORDER BY started_at DESC, run_id DESC LIMIT :limit

-- name: cancel_run
-- Stop a run whoever drives it: a driver's next write fails under the new fence. Its calls are to be ended.
UPDATE runs SET state = 'stopped', owner = NULL, lease_until = NULL, fence = fence + 1, reason = :reason
    WHERE run_id = :run_id AND state IN ('running', 'waiting')

-- name: close_cancelled_run
-- The calls of a cancelled run have ended, and with them the run.
UPDATE runs SET ended_at = {now} WHERE run_id = :run_id AND state = 'stopped' AND ended_at IS NULL

-- name: list_cancelled_runs
-- Cancelled runs whose calls may not have ended.
SELECT run_id FROM runs WHERE state = 'stopped' AND ended_at IS NULL ORDER BY started_at LIMIT :limit

-- name: list_interrupted_runs
-- Runs that no live owner may be driving: the owner has released them, or its lease is over, or it may be dead.
SELECT run_id, agent, owner, attempts, reason,
    (owner IS NULL OR lease_until IS NULL OR lease_until < {now}) AS is_free
    FROM runs WHERE state = 'running' AND ended_at IS NULL AND agent IN ({{agent_parameters}})
    AND (owner IS NULL OR owner <> :owner OR lease_until < {now}) AND (retry_at IS NULL OR retry_at <= {now})
    ORDER BY is_free DESC, started_at LIMIT :limit

-- name: list_answered_runs
-- Runs that wait and can go on: a call that waited has ended or has turned out not to have happened, or a message was
-- sent that no step has got. `answers` grows with every message and every change of a call, and never falls: a caller that
-- saw the same number before has nothing to do, and one that sees another number missed something.
SELECT * FROM (SELECT run_id, agent,
    (SELECT count(*) FROM run_messages WHERE run_messages.run_id = runs.run_id)
    + (SELECT CAST(coalesce(sum(ledger.fence + CASE WHEN ledger.state = 'ended' THEN 1 ELSE 0 END), 0) AS BIGINT)
        FROM step_calls JOIN ledger ON ledger.call_id = step_calls.call_id
        WHERE step_calls.run_id = runs.run_id) AS answers
    FROM runs WHERE state = 'waiting' AND ended_at IS NULL AND run_id > :after AND agent IN ({{agent_parameters}})
    AND (EXISTS (SELECT 1 FROM run_messages WHERE run_messages.run_id = runs.run_id AND run_messages.step IS NULL)
        OR EXISTS (SELECT 1 FROM step_calls JOIN ledger ON ledger.call_id = step_calls.call_id
            WHERE step_calls.run_id = runs.run_id
            AND (ledger.state = 'ended' OR (ledger.state = 'idle' AND ledger.owner IS NULL))
            AND (step_calls.outcome IS NULL OR substr(step_calls.outcome, 1, 10) = '{"pending"')))) AS answered_runs
    ORDER BY run_id LIMIT :limit

-- name: lock_unended_run
-- Locks the run, so that its messages are numbered in order and none is sent while it ends.
UPDATE runs SET fence = fence WHERE run_id = :run_id AND state IN ('running', 'waiting')

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
