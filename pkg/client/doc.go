// Package client enqueues and administers jobs. It is what a producer imports.
//
//	c, err := client.New(pool, client.Config{Redis: rdb}) // no I/O; a nil Redis works from Postgres alone
//	e, err := c.Enqueue(ctx, Welcome{UserID: 7})
//
// [Client.Enqueue] returns once the job is committed. Calls that come at the same time share a statement, but nothing
// else: no caller sees another's bad value, conflict or cancelled context. [Client.EnqueueTx] puts the job into the
// caller's transaction, so that it exists exactly if the rest does; [Client.InTx] also wakes a worker after the commit.
// [Client.EnqueueSQLTx] does so for database/sql and what is built on it.
//
// # When the outcome is unknown
//
// A connection may break after a job was sent and before the answer came. Then the error is an [*UnknownError]: the job
// may be there or not. Enqueueing it again with the id from the error, in job.Options.ID, is safe: an id that exists
// already changes nothing, whatever has become of its job, for as long as the log is kept (job.Options.ID). Every other
// error means that nothing was stored.
//
// # Time
//
// Ids carry the database's time, whatever this host's clock says: a client measures how far the two are apart with its
// first call and corrects that with every answer. Delays are counted by the database; an instant in ScheduledAt is taken
// as given. Config.Timeout and contexts go by the local clock.
//
// # Redis
//
// Redis only carries hints to idle workers, sent in the background after the commit. Without it, or while it is away,
// jobs start by the workers' polls and the sweeper's wakes instead; no call waits for it, none fails because of it but
// [Client.Wake].
package client
