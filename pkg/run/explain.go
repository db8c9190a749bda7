package run

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weirq/weir/config"
)

// Explain returns what err means to whoever runs the program, and on a line of its own that begins with -> what to do about
// it, if that is known. It never shows a connection string or a password.
//
//	postgres: connect to db:5432 as app: password authentication failed for user "app"
//	-> check postgres.url (from WEIR_POSTGRES_URL)
func Explain(err error, l *config.Loaded) string {
	var connect *pgconn.ConnectError
	if errors.As(err, &connect) {
		return "postgres: " + connectText(connect) + "\n-> check postgres.url" + given(l, "postgres.url") + advice(connect)
	}
	return strings.Replace(err.Error(), " -> ", "\n-> ", 1)
}

// IsUnreachable reports whether err says that Postgres could not be reached, or did not let us in: nothing was done there.
func IsUnreachable(err error) bool {
	var connect *pgconn.ConnectError
	return errors.As(err, &connect)
}

func given(l *config.Loaded, key string) string {
	if l == nil || l.Source(key) == "" {
		return ""
	}
	return " (from " + l.Source(key) + ")"
}

func advice(err *pgconn.ConnectError) string {
	var pg *pgconn.PgError
	switch {
	case errors.As(err, &pg) && pg.Code == "53300":
		return ", or max_connections of the server: all are in use"
	case errors.As(err, &pg):
		return ""
	case errors.Is(err, syscall.ECONNREFUSED):
		return ", or start the server: nothing listens there"
	}
	return ""
}

// connectText says where a connection was wanted and why there is none. The driver's own text is long, has a line for every
// address that was tried, and names the database where one looks for the host.
func connectText(err *pgconn.ConnectError) string {
	places := []string{place(err.Config.Host, err.Config.Port)}
	for _, f := range err.Config.Fallbacks {
		if p := place(f.Host, f.Port); !slices.Contains(places, p) {
			places = append(places, p)
		}
	}
	return fmt.Sprintf("connect to %s as %s: %s", strings.Join(places, ", "), err.Config.User, reason(err.Unwrap()))
}

func place(host string, port uint16) string {
	if strings.HasPrefix(host, "/") || strings.HasPrefix(host, "@") {
		return host // a socket's directory
	}
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}

// reason returns the innermost cause that says something.
func reason(err error) string {
	var (
		pg      *pgconn.PgError
		dns     *net.DNSError
		errno   syscall.Errno
		cert    *tls.CertificateVerificationError
		unknown x509.UnknownAuthorityError
	)
	switch {
	case errors.As(err, &pg):
		return pg.Message
	case errors.As(err, &dns) && dns.IsNotFound:
		return "no such host"
	case errors.As(err, &errno):
		return errno.Error()
	case errors.As(err, &unknown), errors.As(err, &cert):
		return "the server's certificate is not trusted"
	case errors.Is(err, context.DeadlineExceeded) || pgconn.Timeout(err):
		return "no answer in time"
	case errors.Is(err, context.Canceled):
		return "cancelled"
	}
	lines := strings.Split(err.Error(), "\n")
	return lines[len(lines)-1]
}
