-- Who decided and did what, and the hash chain of seals over these rows.

-- fragment: seal_columns
position, last_tx, last_id, rows_sealed, previous, hash, sealed_at

-- fragment: row_columns
-- The columns after `detail` came later: `tables/audit.py` says how they are sealed.
id, tx, at, kind, call_id, tool, user_id, by_whom, detail, session, identity

-- fragment: matches
(CAST(:tool AS TEXT) IS NULL OR tool = :tool) AND (CAST(:user AS TEXT) IS NULL OR user_id = :user)
    AND (CAST(:session AS TEXT) IS NULL OR session = :session)
    AND (CAST(:since AS {real}) IS NULL OR at >= :since) AND (CAST(:until AS {real}) IS NULL OR at <= :until)

-- name: insert_audit_row
INSERT INTO audit (tx, at, kind, call_id, tool, user_id, by_whom, detail, session, identity)
    VALUES ({tx}, {now}, :kind, :call_id, :tool, :user, :by, :detail, :session, :identity)

-- name: list_audit_rows_after
-- Rows after a position, as far as no open transaction can still write an earlier one.
SELECT {{row_columns}} FROM audit
    WHERE {after} AND tx < {horizon} ORDER BY {order} LIMIT :limit

-- name: list_rows
SELECT {{row_columns}} FROM audit WHERE {{matches}} ORDER BY {order_down} LIMIT :limit

-- name: list_rows_of_call
SELECT {{row_columns}} FROM audit WHERE call_id = :call AND {{matches}} ORDER BY {order_down} LIMIT :limit

-- name: count_audit_rows
-- All rows, and those after a position.
SELECT count(*) AS present, count(*) FILTER (WHERE {after}) AS unsealed FROM audit

-- name: insert_seal
-- Add the next seal; changes no row if another process was faster.
INSERT INTO seals ({{seal_columns}})
    VALUES (:position, :last_tx, :last_id, :rows_sealed, :previous, :hash, :sealed_at)
    ON CONFLICT (position) DO NOTHING

-- name: find_seal
-- The seal with this hash, among those up to a position.
SELECT position FROM seals WHERE hash = :hash AND position <= :position

-- name: find_last_seal
SELECT {{seal_columns}} FROM seals ORDER BY position DESC LIMIT 1

-- name: list_seals_after
SELECT {{seal_columns}} FROM seals WHERE position > :position ORDER BY position LIMIT 1000

-- name: read_clock
-- The database's own time, by which seals are dated.
SELECT {now} AS moment
