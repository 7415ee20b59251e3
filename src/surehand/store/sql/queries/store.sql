-- Queries over the whole store.

-- name: count_calls_by_state
SELECT state, count(*) AS number FROM ledger GROUP BY state ORDER BY state

-- fragment: begins_so
-- Not LIKE, where an underscore stands for any character.
substr(call_id, 1, length(CAST(:prefix AS TEXT))) = :prefix

-- name: find_calls_by_prefix
-- Every call that the ledger, the journal or the audit knows.
SELECT call_id, max(tool) AS tool FROM (SELECT call_id, tool FROM ledger WHERE {{begins_so}}
    UNION SELECT call_id, tool FROM journal WHERE {{begins_so}}
    UNION SELECT call_id, tool FROM audit WHERE {{begins_so}} AND call_id <> '') AS known
    GROUP BY call_id ORDER BY call_id LIMIT :limit
