-- Providers that failed recently, shared by all processes.

-- fragment: breaker_columns
provider, failures, open_until - {now} AS pause,
    probed_by IS NOT NULL AND coalesce(probe_until, 0) > {now} AS probed

-- name: list_breakers
SELECT {{breaker_columns}} FROM breakers

-- name: find_breaker
SELECT {{breaker_columns}} FROM breakers WHERE provider = :provider

-- name: record_failure
-- Count one more failure in a row, and end this owner's probe.
INSERT INTO breakers (provider, failures, open_until) VALUES (:provider, 1, {now} + :pause)
    ON CONFLICT (provider) DO UPDATE SET failures = breakers.failures + 1, open_until = excluded.open_until,
    probed_by = CASE WHEN breakers.probed_by <> :owner THEN breakers.probed_by END
    RETURNING {{breaker_columns}}

-- name: record_recovery
DELETE FROM breakers WHERE provider = :provider

-- name: claim_probe
-- Become the owner whose call tries the provider. `open_until > {now} + :pause` is true only after the clock was set
-- back: without it the provider would stay blocked until the clock has caught up.
UPDATE breakers SET probed_by = :owner, probe_until = {now} + :lease
    WHERE provider = :provider AND (open_until <= {now} OR open_until > {now} + :pause)
    AND (probed_by IS NULL OR probed_by = :owner OR coalesce(probe_until, 0) <= {now}) RETURNING 1 AS mine

-- name: release_probe
UPDATE breakers SET probed_by = NULL WHERE provider = :provider AND probed_by = :owner

-- name: renew_probes
UPDATE breakers SET probe_until = {now} + :lease WHERE probed_by = :owner

-- name: delete_old_breakers
DELETE FROM breakers WHERE open_until < {now} - :age
