-- note: something was done by hand. $1 who, $2 verb, $3 target, $4 how many jobs.
INSERT INTO weir.actions (who, verb, target, rows) VALUES ($1, $2, $3, $4)
