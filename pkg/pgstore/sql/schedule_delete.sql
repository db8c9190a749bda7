-- schedule_delete: forget a schedule, until its owner declares it again. $1 name. Locks its row.
DELETE FROM weir.schedules AS s
WHERE s.name = $1
