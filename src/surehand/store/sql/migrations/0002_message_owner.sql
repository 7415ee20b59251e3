-- The owner that runs the call which a message shows as running. If that owner is gone and the ledger does not know the
-- call, the message is amended to say that the call was interrupted.
ALTER TABLE messages ADD COLUMN owner TEXT;
CREATE INDEX IF NOT EXISTS messages_running ON messages (owner) WHERE owner IS NOT NULL;
