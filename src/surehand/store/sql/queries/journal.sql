-- What happened to calls, in order.

-- fragment: entry_columns
id, tx, at, kind, call_id, tool, status, user_id, session, parent, latency_ms

-- name: insert_entry
INSERT INTO journal (tx, at, kind, call_id, tool, status, user_id, session, parent, latency_ms)
    VALUES ({tx}, {now}, :kind, :call_id, :tool, :status, :user, :session, :parent, :latency_ms)

-- name: list_after
-- Entries after a position, as far as no open transaction can still write an earlier one.
SELECT {{entry_columns}} FROM journal WHERE {after} AND tx < {horizon}
    ORDER BY {order} LIMIT :limit

-- name: list_latest
SELECT {{entry_columns}} FROM journal WHERE tx < {horizon} ORDER BY {order_down} LIMIT :limit

-- name: list_of_call
SELECT {{entry_columns}} FROM journal WHERE call_id = :call_id ORDER BY {order}
