-- The oldest rows that may be deleted, a batch at a time. Rows of calls that wait, run or are unknown never are.

-- fragment: is_in_no_open_step
-- A run that goes on gets the outcome of its call, however long ago the call ended.
NOT EXISTS (SELECT 1 FROM step_calls JOIN runs ON runs.run_id = step_calls.run_id
    WHERE step_calls.call_id = ledger.call_id AND step_calls.outcome IS NULL AND runs.ended_at IS NULL)

-- name: old_calls
SELECT call_id FROM ledger WHERE state = 'ended' AND ended_at < {now} - :age AND {{is_in_no_open_step}}
    ORDER BY ended_at LIMIT :batch

-- fragment: is_in_no_runtime
-- A call with a given id has an idle row while it waits for a slot in the runtime that `owner` names.
NOT EXISTS (SELECT 1 FROM owners WHERE owners.owner = ledger.owner)

-- name: old_idle_calls
SELECT call_id FROM ledger WHERE state = 'idle' AND state <> 'ended' AND created_at < {now} - :age
    AND {{is_in_no_runtime}} ORDER BY created_at LIMIT :batch

-- name: old_journal_entries
-- Among the first entries, those that are old. An entry from the future was written while the clock was ahead: it is old
-- if the first entry with a possible time comes after it and is old. There is no index by time, which every call would
-- pay for, so only the first entries are looked at.
SELECT id FROM (SELECT tx, id, at FROM journal ORDER BY {order} LIMIT :batch) AS oldest
    WHERE at < {now} - :age OR (at > {now} AND EXISTS (SELECT 1
        FROM (SELECT tx, id, at FROM journal WHERE at <= {now} ORDER BY {order} LIMIT 1) AS possible
        WHERE possible.at < {now} - :age AND (oldest.tx, oldest.id) < (possible.tx, possible.id)))

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

-- name: old_offered_tools
SELECT user_id, session, name FROM offered_tools WHERE offered_at < {now} - :age ORDER BY offered_at LIMIT :batch

-- name: old_active_spaces
SELECT user_id, session, member FROM active_spaces WHERE entered_at < {now} - :age ORDER BY entered_at LIMIT :batch

-- name: surplus_ended_calls
-- Ended calls beyond the newest `:max_calls`.
SELECT call_id FROM ledger WHERE state = 'ended' AND {{is_in_no_open_step}}
    AND (ended_at, call_id) <= (SELECT ended_at, call_id
    FROM ledger WHERE state = 'ended' ORDER BY ended_at DESC, call_id DESC LIMIT 1 OFFSET :max_calls)
    ORDER BY ended_at, call_id LIMIT :batch

-- name: surplus_idle_calls
-- The same for ids of calls that never ran.
SELECT call_id FROM ledger WHERE state = 'idle' AND {{is_in_no_runtime}}
    AND (created_at, call_id) <= (SELECT created_at, call_id
    FROM ledger WHERE state = 'idle' ORDER BY created_at DESC, call_id DESC LIMIT 1 OFFSET :max_calls)
    ORDER BY created_at, call_id LIMIT :batch

-- name: surplus_ended_calls_except
-- The same without the exempt calls; only for SQLite, whose `json_each` reads the list.
SELECT call_id FROM ledger WHERE state = 'ended' AND call_id NOT IN (SELECT value FROM json_each(:exempt_call_ids))
    AND {{is_in_no_open_step}}
    AND (ended_at, call_id) <= (SELECT ended_at, call_id
    FROM ledger WHERE state = 'ended' ORDER BY ended_at DESC, call_id DESC LIMIT 1 OFFSET :max_calls)
    ORDER BY ended_at, call_id LIMIT :batch

-- name: surplus_idle_calls_except
SELECT call_id FROM ledger WHERE state = 'idle' AND call_id NOT IN (SELECT value FROM json_each(:exempt_call_ids))
    AND (created_at, call_id) <= (SELECT created_at, call_id
    FROM ledger WHERE state = 'idle' ORDER BY created_at DESC, call_id DESC LIMIT 1 OFFSET :max_calls)
    ORDER BY created_at, call_id LIMIT :batch
