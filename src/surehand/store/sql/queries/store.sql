-- Queries over the whole store.

-- name: count_calls_by_state
SELECT state, count(*) AS number FROM ledger GROUP BY state ORDER BY state

-- name: list_active_calls
-- Calls that wait, run, or whose effect is unknown; newest first. Only with `<> 'ended'` is the partial index used.
SELECT call_id, tool, state, user_id, session, created_at FROM ledger
    WHERE state <> 'ended' AND state <> 'idle' AND (CAST(:call AS TEXT) IS NULL OR call_id = :call)
    AND (CAST(:tool AS TEXT) IS NULL OR tool = :tool) AND (CAST(:user AS TEXT) IS NULL OR user_id = :user)
    AND (CAST(:session AS TEXT) IS NULL OR session = :session)
    AND (CAST(:since AS {real}) IS NULL OR created_at >= :since)
    AND (CAST(:until AS {real}) IS NULL OR created_at <= :until)
    ORDER BY created_at DESC, call_id DESC LIMIT :limit

-- fragment: begins_so
-- Not LIKE, where an underscore stands for any character.
substr(call_id, 1, length(CAST(:prefix AS TEXT))) = :prefix

-- name: find_calls_by_prefix
-- Every call that the ledger, the journal or the audit knows.
SELECT call_id, max(tool) AS tool FROM (SELECT call_id, tool FROM ledger WHERE {{begins_so}}
    UNION SELECT call_id, tool FROM journal WHERE {{begins_so}}
    UNION SELECT call_id, tool FROM audit WHERE {{begins_so}} AND call_id <> '') AS known
    GROUP BY call_id ORDER BY call_id LIMIT :limit
