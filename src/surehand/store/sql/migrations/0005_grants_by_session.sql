-- Standing approvals hold in the session that they were given in, if there was one. Those that exist hold in all sessions.
CREATE TABLE grants_by_session (
    user_id     TEXT NOT NULL,            -- '' for calls without a user
    session     TEXT NOT NULL,            -- '' if it holds in all sessions of the user
    tool        TEXT NOT NULL,            -- name and definition
    given_by    TEXT,
    given_at    {real} NOT NULL,
    PRIMARY KEY (user_id, session, tool)
);
INSERT INTO grants_by_session (user_id, session, tool, given_by, given_at)
    SELECT user_id, '', tool, given_by, given_at FROM grants;
DROP TABLE grants;
ALTER TABLE grants_by_session RENAME TO grants;
