-- schedule_forget: forget which version an owner is at: the next to declare its schedules wins, also an older one. $1 owner. The
-- schedules stay.
DELETE FROM weir.schedule_owners AS o
WHERE o.owner = $1
