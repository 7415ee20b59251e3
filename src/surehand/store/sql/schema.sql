-- The tables of the store, in one dialect for SQLite and PostgreSQL. Words in braces are replaced by each database's own
-- SQL: {serial} a growing number, {blob} bytes, {real} a floating-point number, {tx} the number of the transaction that
-- writes the row, {if_unordered} a line only for databases that may commit rows in another order than their ids. JSON is
-- stored as text; times are seconds since the epoch, by the database's own clock. This is version 1 and never changes: the
-- files in `migrations/` add columns and rename some (`pending`: weight is now answer_digest, value answer_value, note
-- provider_state; `queues`: turns is now lock_count).

-- Active runtimes. Each also holds a lock while its process runs: a dead one is recognised at once by its free lock, a
-- paused one by its expired lease.
CREATE TABLE IF NOT EXISTS owners (
    owner       TEXT PRIMARY KEY,
    lease_until {real} NOT NULL,
    started_at  {real} NOT NULL
);

-- Every call that must not be forgotten: what its id stands for, which runtime runs it, and its outcome, written once.
CREATE TABLE IF NOT EXISTS ledger (
    call_id     TEXT PRIMARY KEY,
    fingerprint TEXT NOT NULL,            -- digest of tool, arguments and caller: the same id for another call is a
                                          -- conflict; '' for generated ids, computed if such an id is used again
    tool        TEXT NOT NULL,
    definition  TEXT NOT NULL,            -- digest of the tool's definition: an approval is valid for no other
    arguments   TEXT NOT NULL,            -- JSON; the call runs with these when it is resumed
    user_id     TEXT,
    session     TEXT,
    agent       TEXT,
    context     TEXT NOT NULL,            -- JSON: the remaining fields of the call (space, turn, parent ...)
    state       TEXT NOT NULL,            -- idle      the id is known, and no runtime runs it; `owner` may have a
                                          --           call with it that waits for its slot
                                          -- waiting   waits for an answer, see `pending`
                                          -- ready     answered; any runtime with the tool may resume it
                                          -- taken     its owner resumes it; no effect has happened yet
                                          -- running   its owner runs it; its effect may have happened
                                          -- unknown   its owner died while it ran; a person or the tool's `verify` decides
                                          -- ended     `outcome` is stored, and never changes
    owner       TEXT,
    fence       BIGINT NOT NULL,          -- grows with every claim: an owner that lost its claim cannot write any more
    posted      TEXT,                     -- the message that shows the call in its space
    outcome     TEXT,                     -- JSON
    created_at  {real} NOT NULL,
    ended_at    {real}
);
CREATE INDEX IF NOT EXISTS ledger_unended ON ledger (state, owner) WHERE state <> 'ended';
CREATE INDEX IF NOT EXISTS ledger_by_age ON ledger (ended_at) WHERE state = 'ended';

-- The rounds of pending calls: an approved client tool waits twice, so the key is the call and the round.
CREATE TABLE IF NOT EXISTS pending (
    call_id     TEXT NOT NULL,
    round       INTEGER NOT NULL,
    waiting_for TEXT NOT NULL,            -- approval | result | input
    message     TEXT NOT NULL,
    request     TEXT NOT NULL,            -- JSON: the form to show
    note        TEXT NOT NULL,            -- JSON: a provider's private state
    inner_call  TEXT,                     -- the call that this call waits for, if any
    binding     TEXT,                     -- digest of the call as it was asked about, and then answered: the answer is
                                          -- not valid if the call's row changes
    state       TEXT NOT NULL,            -- open | answered
    answer      TEXT,                     -- approve | reject | settle | cancel | expire
    weight      TEXT,                     -- digest of the answer: repeating the same answer changes nothing
    value       TEXT,                     -- JSON: the answer; while the round is open, a partial answer
    answered_by TEXT,
    created_at  {real} NOT NULL,
    expires_at  {real},
    answered_at {real},
    PRIMARY KEY (call_id, round)
);
CREATE INDEX IF NOT EXISTS pending_open ON pending (expires_at) WHERE state = 'open';
CREATE INDEX IF NOT EXISTS pending_inner ON pending (inner_call) WHERE state = 'open' AND inner_call IS NOT NULL;

-- Standing approvals: a user may call a tool, as it was defined then, without being asked.
CREATE TABLE IF NOT EXISTS grants (
    user_id     TEXT NOT NULL,            -- '' for calls without a user
    tool        TEXT NOT NULL,            -- name and definition
    given_by    TEXT,
    given_at    {real} NOT NULL,
    PRIMARY KEY (user_id, tool)
);

-- Events for the next cycle of an agent. An event is delivered once, however often it is pushed.
CREATE TABLE IF NOT EXISTS inbox (
    id          {serial},
    agent       TEXT NOT NULL,            -- '' for calls without an agent
    event_id    TEXT NOT NULL,            -- tr:<call id> for the result of a call
    type        TEXT NOT NULL,            -- tool_result | space_message | plan | service
    data        TEXT NOT NULL,            -- JSON
    state       TEXT NOT NULL,            -- pending | processing | processed | failed
    owner       TEXT,
    attempts    INTEGER NOT NULL,
    created_at  {real} NOT NULL,
    taken_at    {real},
    ended_at    {real},
    UNIQUE (agent, event_id)
);
CREATE INDEX IF NOT EXISTS inbox_waiting ON inbox (agent, id) WHERE state IN ('pending', 'processing');
CREATE INDEX IF NOT EXISTS inbox_by_age ON inbox (ended_at) WHERE ended_at IS NOT NULL;

-- What happened to calls, in order, without arguments or outcomes. Readers continue from (tx, id), and stop before the
-- oldest open transaction, because it may still write a lower id.
CREATE TABLE IF NOT EXISTS journal (
    id          {serial},
    tx          BIGINT NOT NULL,
    at          {real} NOT NULL,
    kind        TEXT NOT NULL,            -- ended | pending | settled
    call_id     TEXT NOT NULL,
    tool        TEXT NOT NULL,
    status      TEXT NOT NULL,            -- ok | failure code | what the call waits for | kind of answer
    user_id     TEXT,
    session     TEXT,
    parent      TEXT,
    latency_ms  {real} NOT NULL
);
{if_unordered} CREATE INDEX IF NOT EXISTS journal_in_order ON journal (tx, id);
CREATE INDEX IF NOT EXISTS journal_of_call ON journal (call_id);

-- Who decided and did what. A row is written in the same transaction as the audited action, and never changed.
CREATE TABLE IF NOT EXISTS audit (
    id          {serial},
    tx          BIGINT NOT NULL,
    at          {real} NOT NULL,
    kind        TEXT NOT NULL,            -- intent    a call with effects is about to run
                                          -- outcome   how it ended
                                          -- wait      it waits for an answer
                                          -- answer    the answer, and who gave it
                                          -- denied    policy did not let it run
                                          -- conflict  its id belongs to another call
                                          -- refused   a call, or an answer, was refused for another reason
                                          -- recovered its process died, and another took it over
                                          -- granted | revoked   a standing approval, which belongs to no call
    call_id     TEXT NOT NULL,
    tool        TEXT NOT NULL,
    user_id     TEXT,
    by_whom     TEXT,
    detail      TEXT NOT NULL             -- JSON: digests and codes, never the values themselves
);
{if_unordered} CREATE INDEX IF NOT EXISTS audit_in_order ON audit (tx, id);

-- The hash chain over the audit: each seal covers the rows since the previous seal, and that seal's hash.
CREATE TABLE IF NOT EXISTS seals (
    position    BIGINT PRIMARY KEY,
    last_tx     BIGINT NOT NULL,
    last_id     BIGINT NOT NULL,
    rows_sealed BIGINT NOT NULL,
    previous    TEXT NOT NULL,
    hash        TEXT NOT NULL,
    sealed_at   {real} NOT NULL
);

-- Runs of agents.
CREATE TABLE IF NOT EXISTS runs (
    run_id      TEXT PRIMARY KEY,
    agent       TEXT NOT NULL,
    state       TEXT NOT NULL,            -- running | done | failed | interrupted
    cause       TEXT NOT NULL,            -- JSON: what triggered the run
    report      TEXT,                     -- JSON: what the run reported
    owner       TEXT,
    started_at  {real} NOT NULL,
    ended_at    {real}
);
CREATE INDEX IF NOT EXISTS runs_of_agent ON runs (agent, started_at);

-- Large outputs under a handle. A handle is unguessable, and only its user and session may read it.
CREATE TABLE IF NOT EXISTS artifacts (
    handle      TEXT PRIMARY KEY,
    tool        TEXT NOT NULL,
    reason      TEXT NOT NULL,
    user_id     TEXT,
    session     TEXT,
    bytes       BIGINT NOT NULL,
    lines       BIGINT NOT NULL,
    created_at  {real} NOT NULL,
    content     {blob} NOT NULL           -- the text as UTF-8; the last column, so that the others can be read without it
);
CREATE INDEX IF NOT EXISTS artifacts_by_age ON artifacts (created_at);

-- Memories, goals, plans and todos of agents: one row per agent, kind and key.
CREATE TABLE IF NOT EXISTS notes (
    agent       TEXT NOT NULL,
    kind        TEXT NOT NULL,            -- memory | goal | plan | todo
    key         TEXT NOT NULL,
    value       TEXT NOT NULL,            -- JSON
    updated_at  {real} NOT NULL,
    PRIMARY KEY (agent, kind, key)
);

-- Where people and agents see each other's messages and the visible calls.
CREATE TABLE IF NOT EXISTS spaces (
    space_id    TEXT PRIMARY KEY,
    name        TEXT NOT NULL,
    messages    BIGINT NOT NULL,          -- the number of the newest message: posting locks this row, so that numbers
                                          -- have no gaps and become visible in order
    created_at  {real} NOT NULL
);

CREATE TABLE IF NOT EXISTS members (
    space_id    TEXT NOT NULL,
    member_id   TEXT NOT NULL,
    kind        TEXT NOT NULL,            -- person | agent
    name        TEXT NOT NULL,
    joined_at   {real} NOT NULL,
    PRIMARY KEY (space_id, member_id)
);
CREATE INDEX IF NOT EXISTS members_by_member ON members (member_id);

CREATE TABLE IF NOT EXISTS messages (
    message_id  TEXT PRIMARY KEY,
    space_id    TEXT NOT NULL,
    number      BIGINT NOT NULL,
    sender_id   TEXT,
    sender_name TEXT NOT NULL,
    sender_kind TEXT NOT NULL,            -- person | agent
    content     TEXT NOT NULL,            -- JSON: a text, or a visible call
    call_id     TEXT,                     -- the call that the message shows: such a message cannot be replied to
    reply_to    TEXT,
    created_at  {real} NOT NULL,
    amended_at  {real},
    UNIQUE (space_id, number)
);
CREATE UNIQUE INDEX IF NOT EXISTS messages_of_call ON messages (call_id) WHERE call_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS messages_by_age ON messages (created_at);

-- Events of spaces and runs, numbered without gaps: the row of a stream is locked until its new event is committed.
CREATE TABLE IF NOT EXISTS streams (
    stream      TEXT PRIMARY KEY,         -- space:<id> | run:<id>
    last        BIGINT NOT NULL
);

CREATE TABLE IF NOT EXISTS events (
    stream      TEXT NOT NULL,
    number      BIGINT NOT NULL,
    at          {real} NOT NULL,
    kind        TEXT NOT NULL,            -- message | message.amended | tool-call.start | tool-result | tool-call.complete |
                                          -- tool-call.error | call.progress | call.pending | call.settled | call.ended
    data        TEXT NOT NULL,            -- JSON
    PRIMARY KEY (stream, number)
);
CREATE INDEX IF NOT EXISTS events_by_age ON events (at);

-- Queues that several processes share: the row is locked while a slot is given out.
CREATE TABLE IF NOT EXISTS queues (
    queue       TEXT PRIMARY KEY,
    turns       BIGINT NOT NULL,
    wanted_by   TEXT,                     -- the owner that found no free slot: the next one is reserved for it for a moment
    wanted_until {real}
);

-- Slots of shared queues that calls hold: until their owner is gone, or for an unknown owner until the lease ends.
CREATE TABLE IF NOT EXISTS slots (
    slot_id     TEXT PRIMARY KEY,
    queue       TEXT NOT NULL,
    owner       TEXT NOT NULL,
    lease_until {real} NOT NULL
);
CREATE INDEX IF NOT EXISTS slots_of_queue ON slots (queue);
CREATE INDEX IF NOT EXISTS slots_of_owner ON slots (owner);

-- When calls of a shared queue with a rate started, as long as the rate counts them.
CREATE TABLE IF NOT EXISTS starts (
    id          {serial},
    queue       TEXT NOT NULL,
    at          {real} NOT NULL
);
CREATE INDEX IF NOT EXISTS starts_of_queue ON starts (queue, at);

-- Providers that failed recently, shared by all processes.
CREATE TABLE IF NOT EXISTS breakers (
    provider    TEXT PRIMARY KEY,
    failures    BIGINT NOT NULL,          -- in a row
    open_until  {real} NOT NULL,
    probed_by   TEXT,                     -- the owner whose call tries the provider
    probe_until {real}
);
