-- What surehand remembers. One dialect for SQLite and PostgreSQL; words in braces are each database's own: {serial}
-- a growing number, {blob} bytes, {real} a floating-point number, {tx} the number of the transaction that writes the
-- row, {if_unordered} what only a database needs that may keep rows in another order than it numbers them. JSON is text;
-- times are seconds since the epoch, by the database's own clock.

-- Runtimes that are at work. Each also holds a lock while it lives: one that died is seen at once by its free lock,
-- one that is paused when its lease has ended.
CREATE TABLE IF NOT EXISTS owners (
    owner       TEXT PRIMARY KEY,
    lease_until {real} NOT NULL,
    started_at  {real} NOT NULL
);

-- Every call that must not be forgotten: what its id stands for, who runs it, and how it ended - once.
CREATE TABLE IF NOT EXISTS ledger (
    call_id     TEXT PRIMARY KEY,
    fingerprint TEXT NOT NULL,            -- digest of tool, arguments and caller: the same id for another call is a
                                          -- conflict; '' for ids that nobody gave, worked out where one is used again
    tool        TEXT NOT NULL,
    definition  TEXT NOT NULL,            -- digest of the tool's definition: an approval holds for no other
    arguments   TEXT NOT NULL,            -- JSON; what the call runs with when it goes on
    user_id     TEXT,
    session     TEXT,
    agent       TEXT,
    context     TEXT NOT NULL,            -- JSON: the rest of what the call belongs to
    state       TEXT NOT NULL,            -- idle      known, and nobody runs it
                                          -- waiting   for an answer, see `pending`
                                          -- ready     answered, for any runtime with the tool to go on with
                                          -- taken     by its owner, on the way; nothing has happened yet
                                          -- running   by its owner; from here on its effect may have happened
                                          -- unknown   its owner died while it ran: a person or the tool's `verify` decides
                                          -- ended     `outcome` is written, and never changes
    owner       TEXT,
    fence       BIGINT NOT NULL,          -- grows with every claim: whoever lost a claim can write nothing more
    posted      TEXT,                     -- the message that shows the call in its space
    outcome     TEXT,                     -- JSON
    created_at  {real} NOT NULL,
    ended_at    {real}
);
CREATE INDEX IF NOT EXISTS ledger_unended ON ledger (state, owner) WHERE state <> 'ended';
CREATE INDEX IF NOT EXISTS ledger_by_age ON ledger (ended_at) WHERE state = 'ended';

-- Each wait of a call: an approved client tool waits twice, so the key is the call and the round.
CREATE TABLE IF NOT EXISTS pending (
    call_id     TEXT NOT NULL,
    round       INTEGER NOT NULL,
    waiting_for TEXT NOT NULL,            -- approval | result | input
    message     TEXT NOT NULL,
    request     TEXT NOT NULL,            -- JSON: the form to show
    note        TEXT NOT NULL,            -- JSON: a provider's private note to itself
    inner_call  TEXT,                     -- the call that this one waits for, if it waits for a call
    binding     TEXT,                     -- digest of what the question, and then the answer, is about: it holds for
                                          -- nothing else that the call's row may come to say
    state       TEXT NOT NULL,            -- open | answered
    answer      TEXT,                     -- approve | reject | settle | cancel | expire
    weight      TEXT,                     -- digest of the answer: the same answer again changes nothing
    value       TEXT,                     -- JSON: what the call goes on with; as long as the wait is open, what is
                                          -- known of an answer that is not whole yet
    answered_by TEXT,
    created_at  {real} NOT NULL,
    expires_at  {real},
    answered_at {real},
    PRIMARY KEY (call_id, round)
);
CREATE INDEX IF NOT EXISTS pending_open ON pending (expires_at) WHERE state = 'open';
CREATE INDEX IF NOT EXISTS pending_inner ON pending (inner_call) WHERE state = 'open' AND inner_call IS NOT NULL;

-- Standing approvals: this user may call this tool, as it is defined now, without being asked.
CREATE TABLE IF NOT EXISTS grants (
    user_id     TEXT NOT NULL,            -- '' for calls without a user
    tool        TEXT NOT NULL,            -- name and definition
    given_by    TEXT,
    given_at    {real} NOT NULL,
    PRIMARY KEY (user_id, tool)
);

-- What waits for an agent's next cycle. The same event is delivered once, however often it is pushed.
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

-- What happened to calls, in order, without arguments or outcomes. Read on from (tx, id): a transaction that is still
-- open may yet write a lower id, so readers stop before the oldest open one.
CREATE TABLE IF NOT EXISTS journal (
    id          {serial},
    tx          BIGINT NOT NULL,
    at          {real} NOT NULL,
    kind        TEXT NOT NULL,            -- ended | pending | settled
    call_id     TEXT NOT NULL,
    tool        TEXT NOT NULL,
    status      TEXT NOT NULL,            -- ok | a failure's code | what it waits for | how it was answered
    user_id     TEXT,
    session     TEXT,
    parent      TEXT,
    latency_ms  {real} NOT NULL
);
{if_unordered} CREATE INDEX IF NOT EXISTS journal_in_order ON journal (tx, id);
CREATE INDEX IF NOT EXISTS journal_of_call ON journal (call_id);

-- Who decided and did what. Rows are written in the same transaction as the deed and never touched again.
CREATE TABLE IF NOT EXISTS audit (
    id          {serial},
    tx          BIGINT NOT NULL,
    at          {real} NOT NULL,
    kind        TEXT NOT NULL,            -- intent | outcome | wait | answer | refused | recovered | granted |
                                          -- revoked; the last two are about no call
    call_id     TEXT NOT NULL,
    tool        TEXT NOT NULL,
    user_id     TEXT,
    by_whom     TEXT,
    detail      TEXT NOT NULL             -- JSON: digests and codes, never the values themselves
);
{if_unordered} CREATE INDEX IF NOT EXISTS audit_in_order ON audit (tx, id);

-- The hash chain over the audit: each seal covers the rows after the seal before it, and that seal's hash.
CREATE TABLE IF NOT EXISTS seals (
    position    BIGINT PRIMARY KEY,
    last_tx     BIGINT NOT NULL,
    last_id     BIGINT NOT NULL,
    rows_sealed BIGINT NOT NULL,
    previous    TEXT NOT NULL,
    hash        TEXT NOT NULL,
    sealed_at   {real} NOT NULL
);

-- Cycles of agents.
CREATE TABLE IF NOT EXISTS runs (
    run_id      TEXT PRIMARY KEY,
    agent       TEXT NOT NULL,
    state       TEXT NOT NULL,            -- running | done | failed | interrupted
    cause       TEXT NOT NULL,            -- JSON: what woke the agent
    report      TEXT,                     -- JSON: what came of it
    owner       TEXT,
    started_at  {real} NOT NULL,
    ended_at    {real}
);
CREATE INDEX IF NOT EXISTS runs_of_agent ON runs (agent, started_at);

-- Large outputs under a handle. A handle is unguessable, and only its owner may read.
CREATE TABLE IF NOT EXISTS artifacts (
    handle      TEXT PRIMARY KEY,
    tool        TEXT NOT NULL,
    reason      TEXT NOT NULL,
    user_id     TEXT,
    session     TEXT,
    bytes       BIGINT NOT NULL,
    lines       BIGINT NOT NULL,
    created_at  {real} NOT NULL,
    content     {blob} NOT NULL           -- the text as UTF-8; last, so that the rest is read without it
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

-- Where people and agents see each other's messages, and the calls that are visible.
CREATE TABLE IF NOT EXISTS spaces (
    space_id    TEXT PRIMARY KEY,
    name        TEXT NOT NULL,
    messages    BIGINT NOT NULL,          -- the number of the newest message: its row is locked while one is posted,
                                          -- so that numbers have no gaps and are kept in their order
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
    content     TEXT NOT NULL,            -- JSON: a text, or what a visible call shows
    call_id     TEXT,                     -- the call that it shows: such a message cannot be replied to
    reply_to    TEXT,
    created_at  {real} NOT NULL,
    amended_at  {real},
    UNIQUE (space_id, number)
);
CREATE UNIQUE INDEX IF NOT EXISTS messages_of_call ON messages (call_id) WHERE call_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS messages_by_age ON messages (created_at);

-- What happens in a space or in a run, numbered without gaps: the row of its stream is locked until an event is kept.
CREATE TABLE IF NOT EXISTS streams (
    stream      TEXT PRIMARY KEY,         -- space:<id> | run:<id>
    last        BIGINT NOT NULL
);

CREATE TABLE IF NOT EXISTS events (
    stream      TEXT NOT NULL,
    number      BIGINT NOT NULL,
    at          {real} NOT NULL,
    kind        TEXT NOT NULL,            -- message | message.amended | tool-call.start | tool-call.complete |
                                          -- tool-call.error | call.pending | call.settled | call.ended
    data        TEXT NOT NULL,            -- JSON
    PRIMARY KEY (stream, number)
);
CREATE INDEX IF NOT EXISTS events_by_age ON events (at);

-- Queues that several processes share: the row is locked while a slot is given out.
CREATE TABLE IF NOT EXISTS queues (
    queue       TEXT PRIMARY KEY,
    turns       BIGINT NOT NULL,
    wanted_by   TEXT,                     -- the owner who came in vain: one free place is kept for it, for a moment
    wanted_until {real}
);

-- Places in a shared queue that calls hold, until their owner is gone; of one nobody knows, until the lease has ended.
CREATE TABLE IF NOT EXISTS slots (
    slot_id     TEXT PRIMARY KEY,
    queue       TEXT NOT NULL,
    owner       TEXT NOT NULL,
    lease_until {real} NOT NULL
);
CREATE INDEX IF NOT EXISTS slots_of_queue ON slots (queue);
CREATE INDEX IF NOT EXISTS slots_of_owner ON slots (owner);

-- When calls of a shared queue with a rate have started, for as long as that counts.
CREATE TABLE IF NOT EXISTS starts (
    id          {serial},
    queue       TEXT NOT NULL,
    at          {real} NOT NULL
);
CREATE INDEX IF NOT EXISTS starts_of_queue ON starts (queue, at);

-- Providers that have failed of late, as all processes know them.
CREATE TABLE IF NOT EXISTS breakers (
    provider    TEXT PRIMARY KEY,
    failures    BIGINT NOT NULL,          -- in a row
    open_until  {real} NOT NULL,
    probed_by   TEXT,                     -- the owner whose call tries whether it is back
    probe_until {real}
);
