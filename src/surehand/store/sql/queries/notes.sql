-- Memories, goals, plans and todos of agents.

-- name: put_note
INSERT INTO notes (user_id, agent, kind, key, value, updated_at) VALUES (:user_id, :agent, :kind, :key, :value, {now})
    ON CONFLICT (user_id, agent, kind, key) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at

-- name: list_notes
SELECT key, value, updated_at FROM notes WHERE user_id = :user_id AND agent = :agent AND kind = :kind ORDER BY key

-- name: list_notes_of_all_users
SELECT user_id, key, value FROM notes WHERE agent = :agent AND kind = :kind ORDER BY user_id, key

-- name: delete_note
DELETE FROM notes WHERE user_id = :user_id AND agent = :agent AND kind = :kind AND key = :key RETURNING key

-- name: replace_note
-- Change a note unless it has changed since it was read.
UPDATE notes SET value = :new, updated_at = {now}
    WHERE user_id = :user_id AND agent = :agent AND kind = :kind AND key = :key AND value = :old RETURNING key
