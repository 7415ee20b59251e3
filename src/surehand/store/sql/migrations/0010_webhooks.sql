-- Waits that are announced by webhooks: one row for each webhook and question, kept as long as the call.
CREATE TABLE IF NOT EXISTS webhook_deliveries (
    webhook     TEXT NOT NULL,            -- the name of the webhook in the configuration
    call_id     TEXT NOT NULL,
    round       INTEGER NOT NULL,
    state       TEXT NOT NULL,            -- waiting | delivered | failed | skipped
    attempts    INTEGER NOT NULL,         -- grows when a process takes the delivery: only that process ends it
    due_at      {real} NOT NULL,          -- when the next attempt is due; during an attempt, when it counts as lost
    error       TEXT,                     -- of the last attempt
    created_at  {real} NOT NULL,
    ended_at    {real},
    PRIMARY KEY (webhook, call_id, round)
);
CREATE INDEX IF NOT EXISTS webhook_deliveries_due ON webhook_deliveries (webhook, due_at) WHERE state = 'waiting';
CREATE INDEX IF NOT EXISTS webhook_deliveries_of_call ON webhook_deliveries (call_id);

-- Messages that arrived by webhooks, as long as their signatures are accepted, so that none counts twice.
CREATE TABLE IF NOT EXISTS webhook_messages (
    webhook     TEXT NOT NULL,
    message_id  TEXT NOT NULL,
    digest      TEXT NOT NULL,            -- of the body: the same message again gets the same answer
    received_at {real} NOT NULL,
    PRIMARY KEY (webhook, message_id)
);
CREATE INDEX IF NOT EXISTS webhook_messages_by_age ON webhook_messages (received_at);
