package run

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/weirq/weir/config"
)

// background is for what lives as long as the process.
var background = context.Background()

// errRedisURL stands for the driver's error, whose text may quote a password.
var errRedisURL = errors.New("redis.url is not a URL of the kind that redis.mode asks for")

// openRedis returns a client for cfg, or nil (the interface itself) when Redis is off. It opens no connection.
//
// ContextTimeoutEnabled: go-redis ignores its callers' deadlines by default. Protocol 2: with RESP3 it may drop published
// messages (redis/go-redis#3839). Maintenance notifications are of RESP3 and would cost a round trip for each connection.
func openRedis(cfg config.Redis) (redis.UniversalClient, error) {
	roots, err := readRoots(cfg.TLS.CAFile)
	if err != nil {
		return nil, err
	}
	quiet := &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	switch cfg.Resolved() {
	case "off":
		return nil, nil
	case "cluster":
		o, err := redis.ParseClusterURL(cfg.URL.Reveal())
		if err != nil {
			return nil, errRedisURL
		}
		o.ContextTimeoutEnabled, o.Protocol, o.MaintNotificationsConfig = true, 2, quiet
		trust(o.TLSConfig, roots)
		return redis.NewClusterClient(o), nil
	case "sentinel":
		o, err := redis.ParseFailoverURL(cfg.URL.Reveal())
		if err != nil {
			return nil, errRedisURL
		}
		o.ContextTimeoutEnabled, o.Protocol = true, 2
		trust(o.TLSConfig, roots)
		return redis.NewFailoverClient(o), nil
	}
	o, err := redis.ParseURL(cfg.URL.Reveal())
	if err != nil {
		return nil, errRedisURL
	}
	o.ContextTimeoutEnabled, o.Protocol, o.MaintNotificationsConfig = true, 2, quiet
	trust(o.TLSConfig, roots)
	return redis.NewClient(o), nil
}

// trust makes a connection accept the authorities in roots alone; nil leaves the system's.
func trust(cfg *tls.Config, roots *x509.CertPool) {
	if cfg != nil && roots != nil {
		cfg.RootCAs = roots
	}
}

func readRoots(path string) (*x509.CertPool, error) {
	if path == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("redis.tls.ca_file: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("redis.tls.ca_file: no certificate in %s", path)
	}
	return roots, nil
}
