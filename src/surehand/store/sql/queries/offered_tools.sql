-- Client and external tools that sessions offer.

-- name: save_tool
INSERT INTO offered_tools (user_id, session, name, definition, offered_at)
    VALUES (:user_id, :session, :name, :definition, {now})
    ON CONFLICT (user_id, session, name) DO UPDATE SET definition = excluded.definition, offered_at = excluded.offered_at

-- name: list_of_session
SELECT user_id, session, name, definition, offered_at FROM offered_tools
    WHERE user_id = :user_id AND session = :session ORDER BY offered_at

-- name: list_latest
-- The tools that were offered from a time on, newest first.
SELECT user_id, session, name, definition, offered_at FROM offered_tools
    WHERE offered_at >= :since ORDER BY offered_at DESC LIMIT :limit
