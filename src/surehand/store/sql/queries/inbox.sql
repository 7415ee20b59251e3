-- Events for the next cycle of an agent that works for a user; each is delivered once.

-- fragment: item_columns
id, agent, user_id, event_id, type, data, created_at, attempts

-- fragment: agent_parameters
:agent_0, :agent_1, :agent_2, :agent_3, :agent_4, :agent_5, :agent_6, :agent_7

-- fragment: event_columns
inbox.id, inbox.event_id, inbox.agent, inbox.user_id, inbox.session, inbox.type, inbox.data, inbox.state, inbox.run_id,
    inbox.created_at, runs.state AS run_state, runs.reason, runs.attempts AS failed_attempts

-- fragment: is_of_viewer
(CAST(:user_id AS TEXT) IS NULL OR inbox.user_id = :user_id)
    AND (CAST(:session AS TEXT) IS NULL OR inbox.session = :session)

-- fragment: is_waiting
agent = :agent AND (CAST(:user_id AS TEXT) IS NULL OR user_id = :user_id) AND state = 'pending'

-- fragment: is_for_call
-- The messages of a space belong to its member, the agent, whichever user it works for.
agent = :agent AND (user_id = :user_id OR (user_id = '' AND type = 'space_message'))

-- fragment: return_item
UPDATE inbox SET state = CASE WHEN attempts < :max_attempts THEN 'pending' ELSE 'failed' END, owner = NULL,
    ended_at = CASE WHEN attempts < :max_attempts THEN NULL ELSE {now} END WHERE state = 'processing' AND

-- name: push_item
-- Add an event; returns nothing if the agent has received it before.
INSERT INTO inbox (user_id, agent, session, event_id, run_id, type, data, state, attempts, created_at)
    VALUES (:user_id, :agent, :session, :event_id, :run_id, :type, :data, 'pending', 0, {now})
    ON CONFLICT (user_id, agent, event_id) DO NOTHING RETURNING id

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

-- name: list_inboxes
-- Whose inboxes have waiting events, the one that has waited longest first.
SELECT agent, user_id, min(id) AS oldest FROM inbox WHERE state = 'pending' GROUP BY agent, user_id ORDER BY oldest

-- name: list_events_of_call
-- The events that a call of peek_inbox has taken: repeated after a crash, it gets the same ones.
SELECT {{item_columns}} FROM inbox WHERE {{is_for_call}} AND state = 'processed' AND owner = :call

-- name: take_events_for_call
UPDATE inbox SET state = 'processed', owner = :call, attempts = attempts + 1, taken_at = {now}, ended_at = {now}
    WHERE {{is_for_call}} AND state = 'pending' AND id IN (SELECT id FROM inbox
        WHERE {{is_for_call}} AND state = 'pending' AND (CAST(:type AS TEXT) IS NULL OR type = :type)
        ORDER BY id LIMIT :count) RETURNING {{item_columns}}

-- name: count_events_for_call
SELECT count(*) AS waiting FROM inbox WHERE {{is_for_call}} AND state = 'pending'

-- name: list_oldest_events
-- The oldest waiting events of up to eight agents, for a worker.
SELECT id, agent, user_id, session, event_id, run_id, type, data FROM inbox
    WHERE state = 'pending' AND agent IN ({{agent_parameters}}) ORDER BY id LIMIT :limit

-- name: give_event_to_run
-- The run goes on with the event; no other worker may have been first.
UPDATE inbox SET state = 'processed', run_id = :run_id, attempts = attempts + 1, taken_at = {now}, ended_at = {now}
    WHERE id = :id AND state = 'pending'

-- name: find_event
SELECT {{event_columns}} FROM inbox LEFT JOIN runs ON runs.run_id = inbox.run_id
    WHERE inbox.agent = :agent AND inbox.event_id = :event_id AND {{is_of_viewer}} ORDER BY inbox.id LIMIT 1

-- name: list_events
SELECT {{event_columns}} FROM inbox LEFT JOIN runs ON runs.run_id = inbox.run_id
    WHERE (CAST(:agent AS TEXT) IS NULL OR inbox.agent = :agent) AND {{is_of_viewer}}
    AND (CAST(:before AS BIGINT) IS NULL OR inbox.id < :before) ORDER BY inbox.id DESC LIMIT :limit
