-- Whose call a row is about, beside its user and session: agent, space, turn, task, parent, the model's own id of the
-- call, and intent and display of its tool, as JSON. The rows of recovered calls hold the context of their ledger row.
ALTER TABLE journal ADD COLUMN identity TEXT;
ALTER TABLE audit ADD COLUMN identity TEXT;
