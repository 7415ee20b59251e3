-- Large outputs under a handle. Only the user and session that own one can read it.

-- fragment: info_columns
handle, tool, reason, bytes, lines, created_at

-- fragment: is_owner
(user_id = :user OR (user_id IS NULL AND CAST(:user AS TEXT) IS NULL))
    AND (session = :session OR (session IS NULL AND CAST(:session AS TEXT) IS NULL))

-- name: insert_artifact
-- Store a text under its handle.
INSERT INTO artifacts (handle, tool, reason, user_id, session, content, bytes, lines, created_at)
    VALUES (:handle, :tool, :reason, :user, :session, :content, :bytes, :lines, {now})

-- name: find_artifact
-- An artifact with its content.
SELECT handle, content, tool, reason, bytes, lines, created_at FROM artifacts WHERE handle = :handle AND {{is_owner}}

-- name: find_artifact_info
-- An artifact without its content.
SELECT {{info_columns}} FROM artifacts WHERE handle = :handle AND {{is_owner}}

-- name: list_newest_artifacts
-- The first page of an owner's artifacts, newest first.
SELECT {{info_columns}} FROM artifacts WHERE {{is_owner}}
    ORDER BY created_at DESC, handle DESC LIMIT :limit

-- name: list_artifacts_before
-- A further page. `created_at <= :at` repeats part of the condition so that the index on the time can be used.
SELECT {{info_columns}} FROM artifacts WHERE {{is_owner}}
    AND created_at <= :at AND (created_at < :at OR handle < :handle)
    ORDER BY created_at DESC, handle DESC LIMIT :limit

-- name: count_artifacts
SELECT count(*) AS kept FROM artifacts

-- name: prune_artifacts
-- Delete by age, by number and by total size. A comparison with NULL is never true: a missing limit deletes nothing.
DELETE FROM artifacts WHERE handle IN (SELECT handle FROM
        (SELECT handle, created_at, row_number() OVER newest_first AS place, sum(bytes) OVER newest_first AS total
         FROM artifacts
         WINDOW newest_first AS (ORDER BY created_at DESC, handle DESC ROWS UNBOUNDED PRECEDING)) AS ranked
    WHERE created_at < {now} - CAST(:older_than AS DOUBLE PRECISION)
        OR place > CAST(:keep AS BIGINT) OR total > CAST(:keep_bytes AS BIGINT))
    RETURNING handle
