-- What toolwright remembers. One dialect for SQLite and PostgreSQL: {serial}, {blob} and {real} are each database's own
-- words for a growing number, bytes and a floating-point number. JSON is text; times are seconds since the epoch,
-- by the database's own clock.

-- Large outputs under a handle. A handle is unguessable, and only its owner may read.
CREATE TABLE IF NOT EXISTS artifacts (
    handle      TEXT PRIMARY KEY,
    tool        TEXT NOT NULL,
    reason      TEXT NOT NULL,
    owner_user  TEXT,
    session     TEXT,
    content     {blob} NOT NULL,          -- the text as UTF-8: PostgreSQL's own text refuses NUL
    lines       BIGINT NOT NULL,
    created_at  {real} NOT NULL
);
CREATE INDEX IF NOT EXISTS artifacts_by_age ON artifacts (created_at);

-- Memories, goals, plans and todos of agents: one row per agent, kind and key.
CREATE TABLE IF NOT EXISTS notes (
    agent       TEXT NOT NULL,
    kind        TEXT NOT NULL,            -- memory | goal | plan | todo
    key         TEXT NOT NULL,
    value       TEXT NOT NULL,            -- JSON
    updated_at  {real} NOT NULL,
    PRIMARY KEY (agent, kind, key)
);
