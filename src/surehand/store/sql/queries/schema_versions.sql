-- Which migrations were applied.

-- name: create_table
CREATE TABLE IF NOT EXISTS schema_versions (version INTEGER PRIMARY KEY, applied_at {real})

-- name: find_version
SELECT coalesce(max(version), 0) AS version FROM schema_versions

-- name: record_version
INSERT INTO schema_versions (version, applied_at) VALUES (:version, {now}) ON CONFLICT DO NOTHING
