package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/weirq/weir/pkg/job"
)

// Webhook is an HTTP server that handles jobs of a kind. The payload is the body of a POST; an answer of 2xx completes the
// job, and its body is the result, as a command's output is. 429 and 503 put the job off without using an attempt, by the
// answer's Retry-After, else RetryAfter; any other answer, a redirect too, and no answer fail the attempt. The headers
// Weir-Job-Id (the same on every attempt), -Kind, -Queue, -Attempt, -Max-Attempts and traceparent tell of the job.
type Webhook struct {
	// URL is http or https, without user or password. It is the same for every job: nothing of a job is ever part of it.
	URL string
	// Token is sent as a bearer token. Empty means none.
	Token string
	// RetryAfter is how long 429 and 503 put a job off when they do not say. Zero means 1m.
	RetryAfter time.Duration
	// Client makes the requests. Nil means one that follows no redirect and honours HTTP_PROXY.
	Client *http.Client
}

func (h *Webhook) check() error {
	u, err := url.Parse(h.URL)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return &job.FieldError{Field: "Webhook.URL", Got: "something else", Limit: "an http or https URL"}
	case u.User != nil:
		return &job.FieldError{Field: "Webhook.URL", Got: "one with a user", Limit: "a URL without user and password; see Token"}
	case strings.ContainsFunc(h.Token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return &job.FieldError{Field: "Webhook.Token", Got: "one with other characters", Limit: "printable ASCII without spaces"}
	case h.RetryAfter < 0 || h.RetryAfter > maxRetryIn:
		return &job.FieldError{Field: "Webhook.RetryAfter", Got: h.RetryAfter.String(), Limit: "0 to 8760h"}
	}
	return nil
}

// HandleWebhook registers an HTTP server for a kind. Options may be given once. It panics on a programmer's mistake, as
// Handle does.
func HandleWebhook(w *Worker, kind string, hook Webhook, opts ...HandlerOptions) {
	if err := hook.check(); err != nil {
		panic("worker: HandleWebhook: " + err.Error())
	}
	if hook.RetryAfter == 0 {
		hook.RetryAfter = time.Minute
	}
	if hook.Client == nil {
		hook.Client = webhookClient()
	}
	h := &handler{kind: kind}
	h.apply(opts)
	h.call = func(ctx context.Context, _ *task, row job.Row) ([]byte, error) { return hook.call(ctx, &row) }
	w.register(h)
}

func webhookClient() *http.Client {
	transport, ok := http.DefaultTransport.(*http.Transport)
	if !ok { // somebody has put another there: they know why
		return http.DefaultClient
	}
	transport = transport.Clone()
	transport.MaxIdleConnsPerHost = 64
	return &http.Client{
		Transport: transport,
		// Where a job goes is this host's configuration, not the answer of whoever it was sent to.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func (h *Webhook) call(ctx context.Context, row *job.Row) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.URL, bytes.NewReader(row.Payload))
	if err != nil {
		return nil, errors.New("make request: the URL is not valid")
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "weir")
	req.Header.Set("Weir-Job-Id", row.ID.String())
	req.Header.Set("Weir-Job-Kind", row.Kind)
	req.Header.Set("Weir-Job-Queue", url.QueryEscape(row.Queue)) // any UTF-8; a header has ASCII
	req.Header.Set("Weir-Job-Attempt", strconv.Itoa(row.Attempt))
	req.Header.Set("Weir-Job-Max-Attempts", strconv.Itoa(row.MaxAttempts))
	if traceparent.MatchString(row.Trace) {
		req.Header.Set("Traceparent", row.Trace)
	}
	if h.Token != "" {
		req.Header.Set("Authorization", "Bearer "+h.Token)
	}
	resp, err := h.Client.Do(req)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err // its text would show the whole URL, and a token may be in its query
		}
		return nil, fmt.Errorf("post to %s: %w", req.URL.Host, err)
	}
	defer func() { _ = resp.Body.Close() }() // only read
	body, err := io.ReadAll(io.LimitReader(resp.Body, job.MaxResultBytes+1))
	switch {
	case resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusServiceUnavailable:
		return nil, job.Snooze(h.retryAfter(resp.Header.Get("Retry-After"), time.Now()))
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		line, _, _ := strings.Cut(strings.TrimSpace(string(body[:min(len(body), 200)])), "\n")
		return nil, fmt.Errorf("post to %s: answered %d: %s", req.URL.Host, resp.StatusCode, line)
	case err != nil:
		return nil, fmt.Errorf("post to %s: read answer: %w", req.URL.Host, err)
	case len(body) > job.MaxResultBytes:
		return nil, job.Discard(&job.FieldError{
			Field: "result", Got: "a longer answer", Limit: fmt.Sprintf("at most %d bytes", job.MaxResultBytes),
		})
	}
	return resultOf(body)
}

// retryAfter reads seconds or a date; what is absurd is not meant.
func (h *Webhook) retryAfter(text string, now time.Time) time.Duration {
	d := h.RetryAfter
	if n, err := strconv.Atoi(text); err == nil {
		d = time.Duration(n) * time.Second
	} else if at, err := http.ParseTime(text); err == nil {
		d = at.Sub(now)
	}
	if d <= 0 || d > 24*time.Hour {
		return h.RetryAfter
	}
	return d
}
