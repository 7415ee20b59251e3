-- Spaces, their members, and reading their messages.

-- fragment: space_columns
spaces.space_id, spaces.name, spaces.messages, spaces.created_at

-- fragment: message_columns
message_id, space_id, number, sender_id, sender_name, sender_kind, content, call_id, reply_to, created_at,
    amended_at

-- fragment: message_page
SELECT {{message_columns}} FROM messages WHERE space_id = :space_id AND number < :before AND number > :after

-- name: create_space
INSERT INTO spaces (space_id, name, messages, created_at) VALUES (:space_id, :name, 0, {now})
    ON CONFLICT (space_id) DO NOTHING

-- name: find_any_space
SELECT space_id FROM spaces LIMIT 1

-- name: find_space
SELECT {{space_columns}} FROM spaces WHERE space_id = :space_id

-- name: list_spaces_of_member
SELECT {{space_columns}} FROM spaces JOIN members ON members.space_id = spaces.space_id
    WHERE members.member_id = :member_id ORDER BY spaces.created_at, spaces.space_id

-- name: list_spaces
SELECT {{space_columns}} FROM spaces WHERE space_id > :after ORDER BY space_id LIMIT :limit

-- name: join_space
-- Add a member, or change the name and kind of one; changes no row if the space does not exist.
INSERT INTO members (space_id, member_id, kind, name, joined_at)
    SELECT :space_id, :member_id, :kind, :name, {now} FROM spaces WHERE space_id = :space_id
    ON CONFLICT (space_id, member_id) DO UPDATE SET kind = excluded.kind, name = excluded.name

-- name: leave_space
DELETE FROM members WHERE space_id = :space_id AND member_id = :member_id RETURNING member_id

-- name: list_members
SELECT member_id, kind, name, joined_at FROM members
    WHERE space_id = :space_id AND (joined_at, member_id) > (CAST(:joined_at AS DOUBLE PRECISION), :member_id)
    ORDER BY joined_at, member_id LIMIT :limit

-- name: find_member
SELECT member_id, kind, name, joined_at FROM members WHERE space_id = :space_id AND member_id = :member_id

-- name: find_message
SELECT {{message_columns}} FROM messages WHERE message_id = :message_id

-- name: list_messages_backward
{{message_page}} ORDER BY number DESC LIMIT :limit

-- name: list_messages_forward
{{message_page}} ORDER BY number LIMIT :limit
