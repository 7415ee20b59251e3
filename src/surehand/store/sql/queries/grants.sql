-- Standing approvals. `tool` is the tool's name, a space, and the digest of its definition.

-- fragment: is_meant
-- By a prefix of the tool; not LIKE, where an underscore stands for any character.
substr(tool, 1, length(CAST(:named AS TEXT))) = :named
    AND (CAST(:user_id AS TEXT) IS NULL OR user_id = :user_id)

-- fragment: is_marked
given_at = -1

-- fragment: is_always
answer = 'approve' AND replace(answer_value, '"always": true', '') <> answer_value

-- name: insert_grant
INSERT INTO grants (user_id, session, tool, given_by, given_at) VALUES (:user_id, :session, :tool, :by_whom, {now})
    ON CONFLICT (user_id, session, tool) DO NOTHING

-- name: find_grant
SELECT 1 AS found FROM grants WHERE user_id = :user_id AND session IN ('', :session) AND tool = :tool

-- name: list_grants
SELECT user_id, session, tool, given_by, given_at FROM grants
    WHERE CAST(:user_id AS TEXT) IS NULL OR user_id = :user_id ORDER BY tool, user_id, session

-- name: audit_grant
-- Audit a grant that does not exist yet; runs before insert_grant in the same transaction.
INSERT INTO audit (tx, at, kind, call_id, tool, user_id, session, by_whom, detail)
    SELECT {tx}, {now}, 'granted', '', CAST(:name AS TEXT), nullif(CAST(:user_id AS TEXT), ''),
    nullif(CAST(:session AS TEXT), ''), CAST(:by_whom AS TEXT), '{"definition": "' || CAST(:definition AS TEXT) || '"}'
    WHERE NOT EXISTS (SELECT 1 AS found FROM grants
        WHERE user_id = :user_id AND session = :session AND tool = :tool)

-- name: mark_grants
-- Mark the grants to revoke, so that one given in the meantime is neither audited nor deleted, and of two processes
-- that revoke the same grant only one audits it.
UPDATE grants SET {{is_marked}} WHERE {{is_meant}}

-- name: audit_revocations
INSERT INTO audit (tx, at, kind, call_id, tool, user_id, session, by_whom, detail)
    SELECT {tx}, {now}, 'revoked', '', CAST(:name AS TEXT), nullif(user_id, ''), nullif(session, ''),
    CAST(:by_whom AS TEXT), '{"definition": "' || substr(tool, length(CAST(:named AS TEXT)) + 1) || '"}'
    FROM grants WHERE {{is_meant}} AND {{is_marked}}

-- name: delete_marked_grants
DELETE FROM grants WHERE {{is_meant}} AND {{is_marked}} RETURNING tool

-- name: list_unused_always_answers
-- "Always" approvals whose call has not been resumed yet: they become grants only then.
SELECT call_id, round FROM pending WHERE {{is_always}}
    AND call_id IN (SELECT call_id FROM ledger WHERE state <> 'ended' AND tool = :tool
        AND (CAST(:user_id AS TEXT) IS NULL OR coalesce(user_id, '') = :user_id)) ORDER BY call_id, round

-- name: limit_always_to_its_call
-- Turn an "always" approval into an approval of its own call. Granting and revoking both do this first: the process
-- that changes the row wins.
UPDATE pending SET answer_value = replace(answer_value, '"always": true', '"always": false')
    WHERE call_id = :call_id AND round = :round AND {{is_always}}

-- name: audit_revoked_answer
-- Audit that an "always" approval was revoked before it became a grant.
INSERT INTO audit (tx, at, kind, call_id, tool, user_id, by_whom, detail)
    SELECT {tx}, {now}, 'revoked', '', CAST(:name AS TEXT), nullif(user_id, ''), CAST(:by_whom AS TEXT),
    '{"definition": "' || definition || '"}' FROM ledger WHERE call_id = :call_id
