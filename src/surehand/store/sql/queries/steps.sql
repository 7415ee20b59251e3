-- Steps of runs: the answers of models, the calls they ask for, and the outcomes of these.

-- name: add_step
-- Changes nothing if the run has this step.
INSERT INTO steps (run_id, step, answer, created_at) VALUES (:run_id, :step, :answer, {now})
    ON CONFLICT (run_id, step) DO NOTHING

-- name: add_call
INSERT INTO step_calls (run_id, step, position, call_id) VALUES (:run_id, :step, :position, :call_id)

-- name: set_outcome
-- An outcome is written once.
UPDATE step_calls SET outcome = :outcome
    WHERE run_id = :run_id AND step = :step AND call_id = :call_id AND outcome IS NULL

-- name: list_steps
SELECT step, answer, created_at FROM steps WHERE run_id = :run_id ORDER BY step

-- name: list_open_calls
-- The calls of a run that have not ended, as far as the run knows.
SELECT call_id FROM step_calls
    WHERE run_id = :run_id AND (outcome IS NULL OR substr(outcome, 1, 10) = '{"pending"') ORDER BY step, position

-- name: list_calls
SELECT step, call_id, outcome FROM step_calls WHERE run_id = :run_id ORDER BY step, position
