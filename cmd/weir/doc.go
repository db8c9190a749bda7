// Command weir looks after a Weir deployment: it makes the schema, enqueues and administers jobs, shows queues and workers,
// and has a demonstration that needs nothing installed.
//
//	weir demo | dev | bench                   try it
//	weir migrate up | status | sql            the schema
//	weir enqueue KIND [JSON|@file|-]          add a job
//	weir jobs list | show | cancel | retry | delete | tail
//	weir explain JOB | --queue Q | --key K    why is it not running?
//	weir queues list | pause | resume | limit
//	weir kinds list | pause | resume
//	weir keys list | show
//	weir limits list | set | unset
//	weir workers list
//	weir config | version | completion
//
// Every command takes --json and --config. Exit codes: 0 done, 1 failed, 2 usage or configuration, 3 not found, 4 refused
// (--yes or --override is missing), 5 Postgres cannot be reached.
//
// What comes from jobs (payloads, names, errors) is printed with its control characters escaped.
package main
