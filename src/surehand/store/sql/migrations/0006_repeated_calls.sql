-- What a repeated call is recognised by: the digest of tool, arguments, user and session of a call whose id was generated,
-- in a named session. A repetition waits for the first call while that waits, or while its effect is unknown.
ALTER TABLE ledger ADD COLUMN repeat_key TEXT;
CREATE INDEX IF NOT EXISTS ledger_repeats ON ledger (repeat_key) WHERE repeat_key IS NOT NULL AND state <> 'ended';

-- Client and external tools that sessions offer, so that every process on the store has them.
CREATE TABLE IF NOT EXISTS offered_tools (
    user_id     TEXT NOT NULL,            -- '' for sessions without a user
    session     TEXT NOT NULL,
    name        TEXT NOT NULL,
    definition  TEXT NOT NULL,            -- JSON: the arguments of `tool.client` or `tool.external`
    offered_at  {real} NOT NULL,
    PRIMARY KEY (user_id, session, name)
);
CREATE INDEX IF NOT EXISTS offered_tools_by_age ON offered_tools (offered_at);
