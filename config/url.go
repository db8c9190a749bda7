package config

import (
	"net/url"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
)

// The parsers' own errors quote what they could not parse, and redact it only as well as they understood it: they stop here.

// validPostgres reports whether the driver takes url.
func validPostgres(url Secret) bool {
	_, err := pgxpool.ParseConfig(url.Reveal())
	return err == nil
}

// Resolved returns single, sentinel, cluster or off: Mode, or what auto stands for. Without a URL it is off.
func (r Redis) Resolved() string {
	switch {
	case r.URL == "":
		return "off"
	case r.Mode != "auto":
		return r.Mode
	}
	u, err := url.Parse(r.URL.Reveal())
	switch {
	case err != nil:
		return "single" // and then refused as such
	case u.Query().Has("master_name"):
		return "sentinel"
	case u.Query().Has("addr"):
		return "cluster"
	}
	return "single"
}

// validRedis reports whether the driver takes r's URL in its mode.
func validRedis(r Redis) bool {
	var err error
	switch r.Resolved() {
	case "single":
		_, err = redis.ParseURL(r.URL.Reveal())
	case "cluster":
		_, err = redis.ParseClusterURL(r.URL.Reveal())
	case "sentinel":
		_, err = redis.ParseFailoverURL(r.URL.Reveal())
	}
	return err == nil
}

func usesTLS(url Secret) bool { return strings.HasPrefix(url.Reveal(), "rediss://") }
