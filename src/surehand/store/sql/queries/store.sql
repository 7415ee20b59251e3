-- Queries over the whole store.

-- name: count_calls_by_state
SELECT state, count(*) AS number FROM ledger GROUP BY state ORDER BY state
