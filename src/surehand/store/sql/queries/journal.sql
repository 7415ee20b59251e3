-- What happened to calls, in order.

-- fragment: entry_columns
id, tx, at, kind, call_id, tool, status, user_id, session, parent, latency_ms, identity

-- fragment: matches
(CAST(:tool AS TEXT) IS NULL OR tool = :tool) AND (CAST(:user AS TEXT) IS NULL OR user_id = :user)
    AND (CAST(:session AS TEXT) IS NULL OR session = :session)
    AND (CAST(:since AS {real}) IS NULL OR at >= :since) AND (CAST(:until AS {real}) IS NULL OR at <= :until)
    AND (CAST(:outcome AS TEXT) IS NULL
        OR (:outcome = 'done' AND kind = 'ended' AND status = 'ok')
        OR (:outcome = 'failed' AND kind = 'ended' AND status <> 'ok')
        OR (:outcome = 'waiting' AND kind = 'pending'))

-- name: insert_entry
INSERT INTO journal (tx, at, kind, call_id, tool, status, user_id, session, parent, latency_ms, identity)
    VALUES ({tx}, {now}, :kind, :call_id, :tool, :status, :user, :session, :parent, :latency_ms, :identity)

-- name: list_after
-- Entries after a position, as far as no open transaction can still write an earlier one.
SELECT {{entry_columns}} FROM journal WHERE {after} AND tx < {horizon}
    ORDER BY {order} LIMIT :limit

-- name: list_latest
SELECT {{entry_columns}} FROM journal WHERE tx < {horizon} ORDER BY {order_down} LIMIT :limit

-- name: list_of_call
SELECT {{entry_columns}} FROM journal WHERE call_id = :call_id ORDER BY {order}

-- name: list_rows
SELECT {{entry_columns}} FROM journal WHERE {{matches}} ORDER BY {order_down} LIMIT :limit

-- name: list_rows_of_call
SELECT {{entry_columns}} FROM journal WHERE call_id = :call AND {{matches}} ORDER BY {order_down} LIMIT :limit
