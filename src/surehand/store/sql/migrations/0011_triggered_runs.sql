-- Events of an inbox that start or continue runs, and runs that are tried again after a failed attempt.
ALTER TABLE inbox ADD COLUMN session TEXT;
ALTER TABLE inbox ADD COLUMN run_id TEXT;                             -- the run that the event starts or continues
CREATE INDEX IF NOT EXISTS inbox_pending ON inbox (agent, id) WHERE state = 'pending';
ALTER TABLE runs ADD COLUMN attempts INTEGER NOT NULL DEFAULT 0;      -- failed attempts to go on since it last waited
ALTER TABLE runs ADD COLUMN retry_at {real};                          -- when the next attempt may begin
