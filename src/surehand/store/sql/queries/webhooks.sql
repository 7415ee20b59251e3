-- Waits that are announced by webhooks, and the messages that arrived by them.

-- fragment: is_due
webhook = :webhook AND state = 'waiting' AND due_at <= {now}

-- fragment: is_taken
webhook = :webhook AND call_id = :call_id AND round = :round AND state = 'waiting' AND attempts = :attempts

-- name: list_new_waits
-- Open questions that a webhook has no delivery of, oldest first.
SELECT pending.call_id, pending.round, pending.waiting_for, ledger.tool
    FROM pending JOIN ledger ON ledger.call_id = pending.call_id
    WHERE pending.state = 'open' AND pending.inner_call IS NULL AND pending.inner_run IS NULL
    AND (pending.expires_at IS NULL OR pending.expires_at > {now})
    AND NOT EXISTS (SELECT 1 FROM webhook_deliveries AS known WHERE known.webhook = :webhook
        AND known.call_id = pending.call_id AND known.round = pending.round)
    ORDER BY pending.created_at, pending.call_id LIMIT :limit

-- name: add_delivery
-- Another process may have added it at the same time.
INSERT INTO webhook_deliveries (webhook, call_id, round, state, attempts, due_at, created_at, ended_at)
    VALUES (:webhook, :call_id, :round, :state, 0, {now}, {now},
    CASE WHEN :state = 'waiting' THEN NULL ELSE {now} END)
    ON CONFLICT (webhook, call_id, round) DO NOTHING

-- name: take_deliveries
-- Take the oldest due deliveries for a while. Concurrent takers lock the rows in the same order; the second one finds
-- them no longer due.
UPDATE webhook_deliveries SET attempts = attempts + 1, due_at = {now} + CAST(:lease AS {real})
    WHERE {{is_due}} AND (call_id, round) IN (SELECT call_id, round FROM webhook_deliveries WHERE {{is_due}}
        ORDER BY due_at, call_id, round LIMIT :limit) RETURNING call_id, round, attempts

-- name: end_delivery
UPDATE webhook_deliveries SET state = :state, error = :error, ended_at = {now} WHERE {{is_taken}}

-- name: postpone_delivery
UPDATE webhook_deliveries SET due_at = {now} + CAST(:delay AS {real}), error = :error WHERE {{is_taken}}

-- name: find_next_due
-- In how many seconds the next delivery is due.
SELECT min(due_at) - {now} AS seconds FROM webhook_deliveries WHERE webhook = :webhook AND state = 'waiting'

-- name: list_webhooks
-- Every webhook that has deliveries: how many there are, and since when the waiting ones have failed.
SELECT webhook, sum(CASE WHEN state = 'delivered' THEN 1 ELSE 0 END) AS delivered,
    sum(CASE WHEN state = 'waiting' THEN 1 ELSE 0 END) AS waiting,
    sum(CASE WHEN state = 'failed' THEN 1 ELSE 0 END) AS failed,
    max(CASE WHEN state = 'delivered' THEN ended_at END) AS last_delivered_at,
    min(CASE WHEN state = 'waiting' AND error IS NOT NULL THEN created_at END) AS failing_since
    FROM webhook_deliveries GROUP BY webhook ORDER BY webhook

-- name: find_last_error
-- The error of the newest delivery that has failed at least once, and has not been delivered.
SELECT error FROM webhook_deliveries WHERE webhook = :webhook AND state IN ('waiting', 'failed') AND error IS NOT NULL
    ORDER BY created_at DESC, call_id DESC LIMIT 1

-- name: remember_message
-- Returns nothing if the message has arrived before.
INSERT INTO webhook_messages (webhook, message_id, digest, received_at) VALUES (:webhook, :message_id, :digest, {now})
    ON CONFLICT (webhook, message_id) DO NOTHING RETURNING digest

-- name: find_message
SELECT digest FROM webhook_messages WHERE webhook = :webhook AND message_id = :message_id

-- name: forget_messages
DELETE FROM webhook_messages WHERE received_at < {now} - CAST(:age AS {real})
