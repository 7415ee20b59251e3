-- Messages of spaces, numbered without gaps. Each change of a message is an event in the stream of its space.

-- fragment: insert_message
INSERT INTO messages (message_id, space_id, number, content, sender_id, sender_name, sender_kind, call_id,
    reply_to, owner, created_at) SELECT :message_id, :space_id, spaces.messages, :content,

-- name: next_message_number
-- Take the next number. This locks the space until the transaction ends: numbers have no gaps, and messages become
-- visible in their order.
UPDATE spaces SET messages = messages + 1 WHERE space_id = :space_id

-- name: post_message
-- Post as a member, under the name that it has in this space. A reply must be to a message of the same space that does
-- not show a call.
{{insert_message}} members.member_id, members.name, members.kind, NULL, :reply_to, NULL, {now}
    FROM spaces JOIN members ON members.space_id = spaces.space_id
    WHERE spaces.space_id = :space_id AND members.member_id = :sender_id AND (CAST(:reply_to AS TEXT) IS NULL
        OR EXISTS (SELECT 1 FROM messages AS first WHERE first.message_id = :reply_to
            AND first.space_id = :space_id AND first.call_id IS NULL)) RETURNING number, created_at

-- name: post_call
-- Post a visible call; a call has one message however often it is posted.
{{insert_message}} :sender_id, coalesce((SELECT name FROM members WHERE members.space_id = :space_id
        AND members.member_id = :sender_id), :sender_name), 'agent', :call_id, NULL, :owner, {now}
    FROM spaces WHERE spaces.space_id = :space_id ON CONFLICT DO NOTHING

-- name: notify_agents
-- Put a message into the inboxes of the other agents of its space.
INSERT INTO inbox (user_id, agent, event_id, type, data, state, attempts, created_at)
    SELECT '', member_id, :message_id, 'space_message', :data, 'pending', 0, {now} FROM members
    WHERE space_id = :space_id AND kind = 'agent' AND member_id <> :sender_id
    ON CONFLICT (user_id, agent, event_id) DO NOTHING

-- name: amend_message
UPDATE messages SET content = :content, owner = :owner, amended_at = {now}
    WHERE message_id = :message_id AND space_id = :space_id

-- name: next_event_number
-- Take the next event number of a stream. A deleted message gets no event: the other statements of the transaction do
-- not depend on it.
INSERT INTO streams (stream, last) SELECT :stream, 1 FROM messages WHERE message_id = :message_id
    ON CONFLICT (stream) DO UPDATE SET last = streams.last + 1

-- name: insert_message_event
-- The number of a message is known only after it was inserted, so it is put into the JSON here.
INSERT INTO events (stream, number, at, kind, data) SELECT :stream, streams.last, {now}, :kind,
    '{"number":' || CAST(messages.number AS TEXT) || ',' || CAST(:rest AS TEXT)
    FROM messages JOIN streams ON streams.stream = :stream WHERE messages.message_id = :message_id

-- name: find_message_of_call
SELECT message_id FROM messages WHERE call_id = :call_id AND space_id = :space_id

-- name: list_orphaned_messages
-- Messages that show a running call of an owner that is gone. Calls with a row in the ledger (other than a mere id) are
-- left out: the runtime that recovers them amends their messages.
SELECT message_id, space_id, number, sender_id, sender_name, sender_kind, content, call_id, reply_to, created_at,
    amended_at, owner FROM messages WHERE owner IS NOT NULL AND owner <> :me
    AND NOT EXISTS (SELECT 1 FROM owners WHERE owners.owner = messages.owner)
    AND NOT EXISTS (SELECT 1 FROM ledger WHERE ledger.call_id = messages.call_id AND ledger.state <> 'idle')
    LIMIT 100

-- name: take_over_message
UPDATE messages SET owner = NULL WHERE message_id = :message_id AND owner = :owner

-- name: require_not_waiting
-- Returns a row only if the call does not wait.
SELECT 1 AS ended WHERE NOT EXISTS
    (SELECT 1 FROM ledger WHERE call_id = :call_id AND state IN ('waiting', 'ready', 'unknown'))

-- name: require_unknown
-- Changes a row only if the effect of the call is unknown, and locks it so that no other process ends the call.
UPDATE ledger SET state = 'unknown' WHERE call_id = :call_id AND state = 'unknown'
