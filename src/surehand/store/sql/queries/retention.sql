-- The oldest rows that may be deleted, a batch at a time. Rows of calls that wait, run or are unknown never are.

-- name: old_calls
SELECT call_id FROM ledger WHERE state = 'ended' AND ended_at < {now} - :age ORDER BY ended_at LIMIT :batch

-- name: old_idle_calls
SELECT call_id FROM ledger WHERE state = 'idle' AND state <> 'ended' AND created_at < {now} - :age
    ORDER BY created_at LIMIT :batch

-- name: old_journal_entries
SELECT id FROM (SELECT id, at FROM journal ORDER BY {order} LIMIT :batch) AS oldest
    WHERE at < {now} - :age

-- name: old_inbox_items
-- Items without an agent are deleted by their age alone: no agent has to process them.
SELECT id FROM inbox WHERE ended_at < {now} - :age OR (agent = '' AND created_at < {now} - :age)
    ORDER BY id LIMIT :batch

-- name: old_runs
SELECT run_id FROM runs WHERE ended_at IS NOT NULL AND ended_at < {now} - :age ORDER BY ended_at LIMIT :batch

-- name: old_artifacts
SELECT handle FROM artifacts WHERE created_at < {now} - :age ORDER BY created_at LIMIT :batch

-- name: old_events
SELECT stream, number FROM events WHERE at < {now} - :age ORDER BY at LIMIT :batch

-- name: old_messages
-- A message that shows an unended call is kept: it will be amended.
SELECT message_id FROM messages WHERE created_at < {now} - :age AND NOT EXISTS (SELECT 1 FROM ledger
    WHERE ledger.call_id = messages.call_id AND ledger.state <> 'ended') ORDER BY created_at LIMIT :batch

-- name: surplus_ended_calls
-- Ended calls beyond the newest `:most`.
SELECT call_id FROM ledger WHERE state = 'ended' AND (ended_at, call_id) <= (SELECT ended_at, call_id
    FROM ledger WHERE state = 'ended' ORDER BY ended_at DESC, call_id DESC LIMIT 1 OFFSET :most)
    ORDER BY ended_at, call_id LIMIT :batch

-- name: surplus_idle_calls
-- The same for ids of calls that never ran.
SELECT call_id FROM ledger WHERE state = 'idle' AND (created_at, call_id) <= (SELECT created_at, call_id
    FROM ledger WHERE state = 'idle' ORDER BY created_at DESC, call_id DESC LIMIT 1 OFFSET :most)
    ORDER BY created_at, call_id LIMIT :batch

-- name: surplus_ended_calls_except
-- The same without the exempt calls; only for SQLite, whose `json_each` reads the list.
SELECT call_id FROM ledger WHERE state = 'ended' AND call_id NOT IN (SELECT value FROM json_each(:spared))
    AND (ended_at, call_id) <= (SELECT ended_at, call_id
    FROM ledger WHERE state = 'ended' ORDER BY ended_at DESC, call_id DESC LIMIT 1 OFFSET :most)
    ORDER BY ended_at, call_id LIMIT :batch

-- name: surplus_idle_calls_except
SELECT call_id FROM ledger WHERE state = 'idle' AND call_id NOT IN (SELECT value FROM json_each(:spared))
    AND (created_at, call_id) <= (SELECT created_at, call_id
    FROM ledger WHERE state = 'idle' ORDER BY created_at DESC, call_id DESC LIMIT 1 OFFSET :most)
    ORDER BY created_at, call_id LIMIT :batch
