-- The space that an agent (or else user) of a session has entered.

-- name: enter_space
INSERT INTO active_spaces (user_id, session, member, space_id, host_space, entered_at)
    VALUES (:user_id, :session, :member, :space_id, :host_space, {now})
    ON CONFLICT (user_id, session, member) DO UPDATE SET space_id = excluded.space_id,
        host_space = excluded.host_space, entered_at = excluded.entered_at

-- name: find_active_space
SELECT space_id, host_space FROM active_spaces
    WHERE user_id = :user_id AND session = :session AND member = :member

-- name: find_any
SELECT 1 FROM active_spaces LIMIT 1
