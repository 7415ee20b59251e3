-- Events of a space or of a run, numbered without gaps.

-- name: next_number
-- Take the next number. The row stays locked until the transaction ends: so a number is given out only when the event
-- before it can be read.
INSERT INTO streams (stream, last) VALUES (:stream, 1)
    ON CONFLICT (stream) DO UPDATE SET last = streams.last + 1

-- name: insert_event
INSERT INTO events (stream, number, at, kind, data)
    VALUES (:stream, (SELECT last FROM streams WHERE stream = :stream), {now}, :kind, :data)

-- name: list_events_after
SELECT number, at, kind, data FROM events WHERE stream = :stream AND number > :after
    ORDER BY number LIMIT :limit

-- name: find_last_number
SELECT last FROM streams WHERE stream = :stream

-- name: list_last_numbers
-- The last numbers of several streams; `{streams}` becomes a parameter for each.
SELECT stream, last FROM streams WHERE stream IN ({streams})
