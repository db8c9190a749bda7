package config

import (
	"crypto/x509"
	"errors"
	"fmt"
	"runtime"
	"time"
)

// maxKeptPartitions bounds how many partitions of the log a retention may keep: every plan over the log looks at each of them.
const maxKeptPartitions = 1000

// derive fills the settings whose value is auto, once all others are known.
func (l *Loaded) derive() {
	c := &l.Config
	for _, leaf := range known().leaves {
		if leaf.auto != "" && leaf.field(c).IsZero() {
			l.sources[leaf.key] += " (auto: " + leaf.auto + ")"
		}
	}
	if c.Timing.Renew == 0 {
		c.Timing.Renew = c.Timing.Lease / 5
	}
	if c.Worker.Children.Count == 0 {
		c.Worker.Children.Count = min(runtime.NumCPU(), 1000)
	}
	if c.Worker.Concurrency == 0 {
		c.Worker.Concurrency = slotsOf(c.Worker.Queues)
	}
	if c.Worker.ExitsBy == 0 {
		c.Worker.ExitsBy = c.Worker.Grace + c.Timing.Lease
	}
}

// check finds settings that are right alone and wrong together, and secrets that cannot be meant.
func (l *Loaded) check() error {
	return errors.Join(l.checkTiming(), l.checkWorker(), l.checkPartitions(),
		l.checkPostgres("postgres.url", l.Config.Postgres.URL), l.checkPostgres("postgres.lease_url", l.Config.Postgres.LeaseURL),
		l.checkRedis())
}

func (l *Loaded) checkTiming() error {
	t := l.Config.Timing
	var errs []error
	if t.Renew > t.Lease/3 {
		errs = append(errs, l.contradiction("timing.renew", "is more than a third of", "timing.lease",
			"two renewals may fail before a lease is lost"))
	}
	if t.Recover > t.Lease {
		errs = append(errs, l.contradiction("timing.recover", "is longer than", "timing.lease",
			"a dead process' jobs would wait longer for the sweeper than for the lease"))
	}
	return errors.Join(errs...)
}

func (l *Loaded) checkWorker() error {
	w := l.Config.Worker
	var errs []error
	if w.ExitsBy <= w.Grace {
		errs = append(errs, l.contradiction("worker.exits_by", "is not longer than", "worker.grace",
			"the process would be killed before it can cancel its handlers and write their results"))
	}
	if w.Concurrency < len(w.Queues) {
		errs = append(errs, l.contradiction("worker.concurrency", "is less than one for each queue of", "worker.queues",
			"a queue could wait for another's handlers for ever"))
	}
	return errors.Join(errs...)
}

func (l *Loaded) checkPartitions() error {
	span := map[string]time.Duration{"day": day, "hour": time.Hour, "minute": time.Minute}[l.Config.Sweeper.Partitions.Every]
	if l.Config.Sweeper.Retention.Completed/span <= maxKeptPartitions {
		return nil
	}
	return l.contradiction("sweeper.retention.completed", fmt.Sprintf("needs more than %d partitions of one", maxKeptPartitions),
		"sweeper.partitions.every", "take larger partitions or keep jobs for less long")
}

// contradiction returns an error that names two settings, their values and where both came from.
func (l *Loaded) contradiction(key, relation, other, reason string) error {
	return &Error{
		Key:     key,
		Source:  l.sources[key],
		Problem: fmt.Sprintf("%s %s %s %s (%s): %s", l.text(key), relation, other, l.text(other), l.sources[other], reason),
	}
}

// text returns a setting's value for an error.
func (l *Loaded) text(key string) string {
	leaf := known().byKey[key]
	s := leaf.format(leaf.field(&l.Config).Interface())
	if len(s) > 200 || likeSecret.MatchString(s) {
		return "(value not shown)"
	}
	return s
}

func (l *Loaded) checkPostgres(key string, url Secret) error {
	if url == "" || validPostgres(url) {
		return nil
	}
	return &Error{Key: key, Source: l.sources[key], Problem: "is not a Postgres connection string (not shown); write " +
		"postgres://user:password@host:5432/database with special characters of the password percent-encoded, or key=value pairs; " +
		"PG… variables and files that it names count too"}
}

func (l *Loaded) checkRedis() error {
	r := l.Config.Redis
	var errs []error
	if !validRedis(r) {
		errs = append(errs, &Error{Key: "redis.url", Source: l.sources["redis.url"], Problem: fmt.Sprintf("is not a Redis URL (not shown) "+
			"for redis.mode %s (%s); write redis://user:password@host:6379/0 (rediss:// for TLS) with special characters of the password percent-encoded",
			r.Mode, l.sources["redis.mode"])})
	}
	if r.URL == "" && r.Mode != "off" && r.Mode != "auto" {
		errs = append(errs, &Error{Key: "redis.mode", Source: l.sources["redis.mode"], Problem: r.Mode + " needs redis.url, which is not set"})
	}
	if r.TLS.CAFile != "" {
		errs = append(errs, l.checkCA(r))
	}
	return errors.Join(errs...)
}

func (l *Loaded) checkCA(r Redis) error {
	const key = "redis.tls.ca_file"
	fault := func(problem string) error { return &Error{Key: key, Source: l.sources[key], Problem: problem} }
	if r.URL != "" && !usesTLS(r.URL) {
		// The connection would be in the clear while the file looks like it were not.
		return fault("is set, but redis.url (" + l.sources["redis.url"] + ") does not use TLS; begin it with rediss://")
	}
	pem, err := readFile(r.TLS.CAFile, maxFile)
	if err != nil {
		return fault(fmt.Sprintf("read %s: %v", showPath(r.TLS.CAFile), err))
	}
	if !x509.NewCertPool().AppendCertsFromPEM(pem) {
		return fault(showPath(r.TLS.CAFile) + " holds no PEM certificate")
	}
	return nil
}
