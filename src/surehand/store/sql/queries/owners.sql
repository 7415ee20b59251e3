-- Runtimes that use the store, and the recovery from one that died. `state <> 'ended'` adds nothing to the conditions
-- below, but only with it SQLite uses the partial index of calls that have not ended.

-- name: renew_lease
INSERT INTO owners (owner, lease_until, started_at) VALUES (:owner, {now} + :lease, {now})
    ON CONFLICT (owner) DO UPDATE SET lease_until = excluded.lease_until

-- name: find_owner
SELECT 1 FROM owners WHERE owner = :owner

-- name: list_other_owners
-- Other owners; also those without a row that hold claims: they were declared dead, claimed a call afterwards, and died
-- before they renewed their lease.
SELECT owner, lease_until, lease_until < {now} AS is_late FROM owners WHERE owner <> :owner
    UNION ALL SELECT DISTINCT owner, 0.0, 1 = 0 FROM ledger
    WHERE state IN ('taken', 'running') AND state <> 'ended' AND owner <> :owner
    AND NOT EXISTS (SELECT 1 FROM owners WHERE owners.owner = ledger.owner)
    UNION ALL SELECT DISTINCT owner, 0.0, 1 = 0 FROM runs
    WHERE state = 'running' AND ended_at IS NULL AND owner <> :owner
    AND NOT EXISTS (SELECT 1 FROM owners WHERE owners.owner = runs.owner)

-- name: delete_owner
-- Delete an owner that is dead, or whose lease has ended.
DELETE FROM owners WHERE owner = :owner AND (lease_until < {now} OR CAST(:dead AS INTEGER) = 1)

-- name: lock_claimed_calls
-- A second process that recovers the same owner waits here, and then finds nothing left to audit.
UPDATE ledger SET owner = owner
    WHERE owner = :owner AND state IN ('taken', 'running') AND state <> 'ended'

-- name: audit_recovery
INSERT INTO audit (tx, at, kind, call_id, tool, user_id, detail, session, identity)
    SELECT {tx}, {now}, 'recovered', call_id, tool, user_id, '{"owner": "' || CAST(:owner AS TEXT) || '"}', session,
    context
    FROM ledger WHERE owner = :owner AND state IN ('taken', 'running') AND state <> 'ended'

-- name: return_taken_calls
-- Nothing has happened yet in a taken call: any owner may resume it.
UPDATE ledger SET state = 'ready', owner = NULL, fence = fence + 1
    WHERE state = 'taken' AND state <> 'ended' AND owner = :owner RETURNING call_id

-- name: mark_running_calls_unknown
-- A running call may have had its effect.
UPDATE ledger SET state = 'unknown', owner = NULL, fence = fence + 1
    WHERE state = 'running' AND state <> 'ended' AND owner = :owner
    RETURNING ledger.call_id, ledger.fingerprint, ledger.tool, ledger.definition, ledger.arguments, ledger.user_id,
    ledger.session, ledger.agent, ledger.context, ledger.state, ledger.owner, ledger.fence, ledger.posted,
    ledger.outcome, ledger.created_at, ledger.ended_at, ledger.repeat_key

-- name: journal_unknown_calls
-- Readers of the journal learn that a person has to decide about these calls, as they do of every other wait.
INSERT INTO journal (tx, at, kind, call_id, tool, status, user_id, session, parent, latency_ms, identity)
    SELECT {tx}, {now}, 'pending', call_id, tool, 'result', user_id, session, {parent}, 0.0, context
    FROM ledger WHERE state = 'unknown' AND state <> 'ended'
    AND NOT EXISTS (SELECT 1 FROM pending WHERE pending.call_id = ledger.call_id AND pending.state = 'open')

-- name: ask_about_unknown_calls
-- Open a round for every call of unknown effect that has none: a person decides.
INSERT INTO pending (call_id, round, waiting_for, message, request, provider_state, state, created_at)
    SELECT ledger.call_id, (SELECT coalesce(max(round), 0) + 1 FROM pending WHERE pending.call_id = ledger.call_id),
    'result', 'It is not known whether ' || ledger.tool || ' has happened: its process died while it ran. '
        || 'Find out, then settle the call with what came of it.', '{"unknown_effect": true}', 'null', 'open', {now}
    FROM ledger WHERE ledger.state = 'unknown' AND ledger.state <> 'ended'
    AND NOT EXISTS (SELECT 1 FROM pending WHERE pending.call_id = ledger.call_id AND pending.state = 'open')

-- name: lock_queues_of_owner
UPDATE queues SET lock_count = lock_count + 1 WHERE queue IN (SELECT queue FROM slots WHERE owner = :owner)

-- name: delete_slots_of_owner
DELETE FROM slots WHERE owner = :owner

-- name: release_probes_of_owner
UPDATE breakers SET probed_by = NULL WHERE probed_by = :owner

-- name: release_runs_of_owner
-- Another owner may go on with the runs that this one drove.
UPDATE runs SET owner = NULL, lease_until = NULL WHERE owner = :owner AND state = 'running' AND ended_at IS NULL
