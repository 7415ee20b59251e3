-- The session of an audited call, so that the audit can be read by session, and an index by call.
ALTER TABLE audit ADD COLUMN session TEXT;
CREATE INDEX IF NOT EXISTS audit_of_call ON audit (call_id);
