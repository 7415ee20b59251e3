-- Columns whose names did not say what they hold: the digest of an answer, the answer itself, a provider's private state,
-- and how often the row of a queue was locked.
ALTER TABLE pending RENAME COLUMN weight TO answer_digest;
ALTER TABLE pending RENAME COLUMN value TO answer_value;
ALTER TABLE pending RENAME COLUMN note TO provider_state;
ALTER TABLE queues RENAME COLUMN turns TO lock_count;
