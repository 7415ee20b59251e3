-- Memories, goals, plans and todos of agents.

-- name: put_note
INSERT INTO notes (agent, kind, key, value, updated_at) VALUES (:agent, :kind, :key, :value, {now})
    ON CONFLICT (agent, kind, key) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at

-- name: list_notes
SELECT key, value, updated_at FROM notes WHERE agent = :agent AND kind = :kind ORDER BY key

-- name: delete_note
DELETE FROM notes WHERE agent = :agent AND kind = :kind AND key = :key RETURNING key
