-- Events for the next cycle of an agent; each is delivered once.

-- fragment: item_columns
id, agent, event_id, type, data, created_at, attempts

-- fragment: is_waiting
agent = :agent AND state = 'pending'

-- fragment: return_item
UPDATE inbox SET state = CASE WHEN attempts < :most THEN 'pending' ELSE 'failed' END, owner = NULL,
    ended_at = CASE WHEN attempts < :most THEN NULL ELSE {now} END WHERE state = 'processing' AND

-- name: push_item
-- Add an event; returns nothing if the agent has received it before.
INSERT INTO inbox (agent, event_id, type, data, state, attempts, created_at)
    VALUES (:agent, :event_id, :type, :data, 'pending', 0, {now})
    ON CONFLICT (agent, event_id) DO NOTHING RETURNING id

-- name: take_items
-- Take the oldest waiting events. Concurrent takers lock the rows in the same order; the second one finds them no
-- longer pending.
UPDATE inbox SET state = 'processing', owner = :owner, attempts = attempts + 1, taken_at = {now}
    WHERE {{is_waiting}} AND id <= (SELECT max(id) FROM
        (SELECT id FROM inbox WHERE {{is_waiting}} ORDER BY id LIMIT :limit) AS oldest) RETURNING {{item_columns}}

-- name: drain_items
-- Take all waiting events and mark them as processed.
UPDATE inbox SET state = 'processed', attempts = attempts + 1, taken_at = {now}, ended_at = {now}
    WHERE {{is_waiting}} RETURNING {{item_columns}}

-- name: mark_done
UPDATE inbox SET state = 'processed', ended_at = {now} WHERE id = :id AND state = 'processing' RETURNING id

-- name: mark_failed
-- Return an event for another attempt, or give it up after the last one.
{{return_item}} id = :id RETURNING state

-- name: return_items_of_owner
-- The same for all events that a dead owner was processing.
{{return_item}} owner = :owner RETURNING state

-- name: list_waiting
SELECT {{item_columns}} FROM inbox WHERE {{is_waiting}} ORDER BY id LIMIT :limit

-- name: count_waiting
SELECT count(*) AS waiting FROM inbox WHERE {{is_waiting}}
