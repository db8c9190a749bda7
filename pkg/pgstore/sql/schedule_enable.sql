-- schedule_enable: switch a schedule on or off by hand. $1 name, $2 fence as read, $3 on or off, $4 its next tick from now on; what
-- was missed while it was off stays missed. Locks its row. Changes none when it was changed since it was read.
UPDATE weir.schedules AS s
SET override = CASE WHEN s.enabled = $3 THEN NULL ELSE $3 END, fence = s.fence + 1, next_at = CASE WHEN $3 THEN $4::timestamptz ELSE s.next_at END
WHERE s.name = $1
  AND s.fence = $2
