-- Runs of agents that go on in another process: whose they are, what they have spent, and which runtime drives each.
ALTER TABLE runs RENAME COLUMN cause TO prompt;
ALTER TABLE runs ADD COLUMN user_id TEXT;
ALTER TABLE runs ADD COLUMN session TEXT;
ALTER TABLE runs ADD COLUMN context TEXT NOT NULL DEFAULT '{}';       -- JSON: what else the agent keeps about the run
ALTER TABLE runs ADD COLUMN spent TEXT NOT NULL DEFAULT '{}';         -- JSON: requests, tokens, cost, calls, seconds
ALTER TABLE runs ADD COLUMN reason TEXT;                              -- why the run was stopped or failed
ALTER TABLE runs ADD COLUMN fence BIGINT NOT NULL DEFAULT 1;          -- grows with every claim
ALTER TABLE runs ADD COLUMN lease_until {real};
-- The states are now running, waiting, done, stopped and failed. A running run whose owner is gone goes on under the
-- next owner that claims it, so there are no interrupted ones any more. Those that exist have no steps to go on from.
UPDATE runs SET state = 'failed', reason = 'The process of the run ended before the run did.' WHERE state = 'interrupted';
UPDATE runs SET owner = NULL;
CREATE INDEX IF NOT EXISTS runs_unended ON runs (state, started_at) WHERE ended_at IS NULL;
CREATE INDEX IF NOT EXISTS runs_by_age ON runs (ended_at) WHERE ended_at IS NOT NULL;

-- The steps of runs: each is one answer of a model, stored before any of its calls runs.
CREATE TABLE IF NOT EXISTS steps (
    run_id      TEXT NOT NULL,
    step        INTEGER NOT NULL,
    answer      TEXT NOT NULL,            -- JSON
    created_at  {real} NOT NULL,
    PRIMARY KEY (run_id, step)
);

-- The calls that an answer asks for, in its order, and their outcomes.
CREATE TABLE IF NOT EXISTS step_calls (
    run_id      TEXT NOT NULL,
    step        INTEGER NOT NULL,
    position    INTEGER NOT NULL,
    call_id     TEXT NOT NULL,
    outcome     TEXT,                     -- JSON, written once
    PRIMARY KEY (run_id, step, position)
);
CREATE INDEX IF NOT EXISTS step_calls_open ON step_calls (call_id) WHERE outcome IS NULL;

-- Messages to runs, from any process, in order. A message is given to one step of its run.
CREATE TABLE IF NOT EXISTS run_messages (
    id          {serial},
    run_id      TEXT NOT NULL,
    kind        TEXT NOT NULL,            -- steer | follow_up
    content     TEXT NOT NULL,            -- JSON
    step        INTEGER,                  -- the step that it was given to
    created_at  {real} NOT NULL
);
CREATE INDEX IF NOT EXISTS run_messages_of_run ON run_messages (run_id, id);

-- The run that a call waits for, if any: the call ends with what the run comes to.
ALTER TABLE pending ADD COLUMN inner_run TEXT;
CREATE INDEX IF NOT EXISTS pending_inner_run ON pending (inner_run) WHERE state = 'open' AND inner_run IS NOT NULL;

-- The space that an agent (or else user) of a session has entered, so that every process makes its calls there.
CREATE TABLE IF NOT EXISTS active_spaces (
    user_id     TEXT NOT NULL,            -- '' for sessions without a user
    session     TEXT NOT NULL,
    member      TEXT NOT NULL,
    space_id    TEXT,                     -- NULL if it has left the space that the host chose
    host_space  TEXT,                     -- the space that the host had chosen then; another choice replaces the entry
    entered_at  {real} NOT NULL,
    PRIMARY KEY (user_id, session, member)
);
CREATE INDEX IF NOT EXISTS active_spaces_by_age ON active_spaces (entered_at);
