// Package migrate brings a schema of Weir to the version that this binary needs, and tells whether it is there.
//
// [Up] applies what is pending, one transaction a version. Any number of processes may call it at once, through a
// transaction-pooling PgBouncer too: each transaction first takes an advisory lock that ends with it, and does nothing
// if another starter was quicker. A version only adds, so workers of the release before go on meanwhile. It needs no
// superuser: the right to create a schema in the database, or a schema that was made for it.
//
// [Check] is for processes at start: it changes nothing and needs no more than the right to read. [SQL] writes the
// same versions as a script, for those whose schema changes go through another tool.
//
// The versions are run by goose, without its locks (they belong to a session, and a pooler hands sessions around) and
// with a table of our own, in the schema. Package pgstore has the statements. Neither it nor package client imports
// this package, so a producer does not carry goose. The package is not covered by the compatibility promise.
package migrate
