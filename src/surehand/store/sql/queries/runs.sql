-- Runs of agents.

-- fragment: run_columns
run_id, agent, state, cause, report, owner, started_at, ended_at

-- name: begin_run
INSERT INTO runs (run_id, agent, state, cause, owner, started_at)
    VALUES (:run_id, :agent, 'running', :cause, :owner, {now})

-- name: end_run
-- End a run once: one that is not running returns nothing.
UPDATE runs SET state = :state, report = :report, ended_at = {now}
    WHERE run_id = :run_id AND state = 'running' RETURNING run_id

-- name: interrupt_runs
UPDATE runs SET state = 'interrupted', ended_at = {now}
    WHERE owner = :owner AND state = 'running' RETURNING run_id

-- name: find_run
SELECT {{run_columns}} FROM runs WHERE run_id = :run_id

-- name: list_latest_runs
SELECT {{run_columns}} FROM runs WHERE agent = :agent ORDER BY started_at DESC, run_id DESC LIMIT :limit
