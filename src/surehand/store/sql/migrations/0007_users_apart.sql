-- Inbox and notes of an agent that works for several users belong to one user each. What exists belongs to calls without
-- a user.
CREATE TABLE inbox_by_user (
    id          {serial},
    user_id     TEXT NOT NULL,            -- '' for calls without a user, and for messages of a space
    agent       TEXT NOT NULL,            -- '' for calls without an agent
    event_id    TEXT NOT NULL,            -- tr:<call id> for the result of a call
    type        TEXT NOT NULL,            -- tool_result | space_message | plan | service
    data        TEXT NOT NULL,            -- JSON
    state       TEXT NOT NULL,            -- pending | processing | processed | failed
    owner       TEXT,
    attempts    INTEGER NOT NULL,
    created_at  {real} NOT NULL,
    taken_at    {real},
    ended_at    {real},
    UNIQUE (user_id, agent, event_id)
);
INSERT INTO inbox_by_user
    (id, user_id, agent, event_id, type, data, state, owner, attempts, created_at, taken_at, ended_at)
    SELECT id, '', agent, event_id, type, data, state, owner, attempts, created_at, taken_at, ended_at FROM inbox;
DROP TABLE inbox;
ALTER TABLE inbox_by_user RENAME TO inbox;
-- PostgreSQL does not count the ids that were given above.
{if_unordered} SELECT setval(pg_get_serial_sequence('inbox', 'id'), (SELECT coalesce(max(id), 0) + 1 FROM inbox), false);
CREATE INDEX IF NOT EXISTS inbox_waiting ON inbox (agent, user_id, id) WHERE state IN ('pending', 'processing');
CREATE INDEX IF NOT EXISTS inbox_by_age ON inbox (ended_at) WHERE ended_at IS NOT NULL;

CREATE TABLE notes_by_user (
    user_id     TEXT NOT NULL,            -- '' for calls without a user
    agent       TEXT NOT NULL,
    kind        TEXT NOT NULL,            -- memory | goal | plan | todo
    key         TEXT NOT NULL,
    value       TEXT NOT NULL,            -- JSON
    updated_at  {real} NOT NULL,
    PRIMARY KEY (user_id, agent, kind, key)
);
INSERT INTO notes_by_user (user_id, agent, kind, key, value, updated_at)
    SELECT '', agent, kind, key, value, updated_at FROM notes;
DROP TABLE notes;
ALTER TABLE notes_by_user RENAME TO notes;
