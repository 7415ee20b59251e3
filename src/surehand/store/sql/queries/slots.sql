-- Slots of queues that several processes share, and when calls started there.

-- fragment: is_reserved
-- A reservation that ran out, or was made before the clock was set back, does not count.
queues.wanted_until BETWEEN {now} AND {now} + :reservation_seconds

-- fragment: is_held
-- Leases alone would free all slots at once when the clock jumps: a late owner counts until it is declared dead.
(lease_until > {now} OR EXISTS (SELECT 1 FROM owners WHERE owners.owner = slots.owner))

-- fragment: slots_in_use
(SELECT count(*) FROM slots WHERE queue = :queue AND {{is_held}})

-- fragment: reserved_for_others
(SELECT count(*) FROM queues WHERE queue = :queue AND wanted_by <> :owner AND {{is_reserved}})

-- fragment: recent_starts
(SELECT count(*) FROM starts WHERE queue = :queue AND at > {now} - :period)

-- fragment: take_slot
INSERT INTO slots (slot_id, queue, owner, lease_until)
    SELECT CAST(:slot_id AS TEXT), CAST(:queue AS TEXT), CAST(:owner AS TEXT), {now} + :lease
    WHERE {{slots_in_use}} + {{reserved_for_others}} < :max_slots

-- fragment: queue_state
SELECT {{slots_in_use}} AS in_use, {{reserved_for_others}} AS wanted,
    (SELECT wanted_until - {now} FROM queues WHERE queue = :queue AND wanted_by = :owner) AS reserved_seconds

-- name: lock_queue
-- Lock a queue, and keep, take or drop the reservation of its next free slot.
INSERT INTO queues (queue, lock_count) VALUES (:queue, 1)
    ON CONFLICT (queue) DO UPDATE SET lock_count = queues.lock_count + 1,
    wanted_until = CASE WHEN queues.wanted_by <> :owner AND {{is_reserved}} THEN queues.wanted_until
        ELSE {now} + :reservation_seconds END,
    wanted_by = CASE WHEN queues.wanted_by <> :owner AND {{is_reserved}} THEN queues.wanted_by
        WHEN :wants = 1 THEN CAST(:owner AS TEXT) END
    RETURNING wanted_by

-- name: take_slot_of_rated_queue
-- Take a slot if one is free and the rate allows another start.
{{take_slot}} AND {{recent_starts}} < :rate RETURNING slot_id

-- name: take_slot_of_unrated_queue
{{take_slot}} RETURNING slot_id

-- name: record_start_of_slot
-- Record the start of a call whose slot was taken.
INSERT INTO starts (queue, at) SELECT CAST(:queue AS TEXT), {now}
    WHERE EXISTS (SELECT 1 FROM slots WHERE slot_id = :slot_id)

-- name: start_without_slot
-- Start a call that needs no slot, if the rate allows it.
INSERT INTO starts (queue, at) SELECT CAST(:queue AS TEXT), {now} WHERE {{recent_starts}} < :rate RETURNING id

-- name: delete_old_starts
-- Starts that no longer count, and starts in the future, left from before the clock was set back.
DELETE FROM starts WHERE queue = :queue AND (at <= {now} - :period OR at > {now} + :period)

-- name: return_slot
DELETE FROM slots WHERE slot_id = :slot_id

-- name: read_unrated_queue
-- The state of a queue; locks nothing.
{{queue_state}}, 0.0 AS pause

-- name: read_rated_queue
-- The same, with the seconds until the rate allows another start.
{{queue_state}}, (SELECT at + :period - {now} FROM starts WHERE queue = :queue AND at <= {now} + :period
    ORDER BY at DESC LIMIT 1 OFFSET :nth) AS pause

-- name: touch_queue
UPDATE queues SET lock_count = lock_count + 1 WHERE queue = :queue

-- name: renew_leases
UPDATE slots SET lease_until = {now} + :lease WHERE owner = :owner

-- name: count_slots_in_use
SELECT queue, count(*) AS in_use FROM slots WHERE {{is_held}} GROUP BY queue

-- name: delete_abandoned_slots
DELETE FROM slots WHERE NOT {{is_held}} AND lease_until < {now} - :age
