-- Who runs the call that a message shows as running, for as long as it does: once that owner is gone, and the ledger has
-- nothing to say of the call, the message says that it was interrupted.
ALTER TABLE messages ADD COLUMN owner TEXT;
CREATE INDEX IF NOT EXISTS messages_running ON messages (owner) WHERE owner IS NOT NULL;
