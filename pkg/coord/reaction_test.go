package coord_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/coord"
)

// scripted is a server that answers every script and write with one line.
func scripted(t *testing.T, answer string) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, c)
			mu.Unlock()
			wg.Go(func() { answerAll(c, answer) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		for _, c := range conns {
			_ = c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return l.Addr().String()
}

func answerAll(c net.Conn, answer string) {
	defer c.Close()
	r := bufio.NewReader(c)
	for {
		args, err := readCommand(r)
		if err != nil {
			return
		}
		reply := "+OK\r\n"
		switch strings.ToUpper(args[0]) {
		case "HELLO":
			reply = "-ERR unknown command\r\n"
		case "EVALSHA", "EVAL", "SET":
			reply = answer + "\r\n"
		}
		if _, err := io.WriteString(c, reply); err != nil {
			return
		}
	}
}

func readCommand(r *bufio.Reader) ([]string, error) {
	count, err := readLength(r)
	if err != nil {
		return nil, err
	}
	args := make([]string, count)
	for i := range args {
		length, err := readLength(r)
		if err != nil {
			return nil, err
		}
		buffer := make([]byte, length+2)
		if _, err := io.ReadFull(r, buffer); err != nil {
			return nil, err
		}
		args[i] = string(buffer[:length])
	}
	return args, nil
}

func readLength(r *bufio.Reader) (int, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(line[1:]))
}

func TestEveryAnswerOfRedisHasItsReaction(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		answer string
		opens  bool
	}{
		{"-READONLY You can't write against a read only replica.", true},
		{"-ERR Error running script (call to f_1): @user_script:1: -READONLY You can't write against a read only replica.", true},
		{"-LOADING Redis is loading the dataset in memory", true},
		{"-MASTERDOWN Link with MASTER is down", true},
		{"-NOREPLICAS Not enough good replicas to write.", true},
		{"-MISCONF Redis is configured to save RDB snapshots, but is unable to persist on disk.", true},
		{"-BUSY Redis is busy running a script. You can only call SCRIPT KILL", true},
		{"-CLUSTERDOWN The cluster is down", true},
		{"-TRYAGAIN Multiple keys request during rehashing of slot", true},
		{"-MOVED 3999 127.0.0.1:6381", true},
		{"-ASK 3999 127.0.0.1:6381", true},
		{"-NOAUTH Authentication required.", true},
		{"-NOPERM this user has no permissions to run the 'evalsha' command", true},
		{"-ERR max number of clients reached", true},
		{"-OOM command not allowed when used memory > 'maxmemory'.", false},
		{"-NOSCRIPT No matching script.", false},
		{"-WRONGTYPE Operation against a key holding the wrong kind of value", false},
		{"-BUSYGROUP a code that only begins like another", false},
		{"-ERR something else", false},
	} {
		t.Run(c.answer, func(t *testing.T) {
			t.Parallel()
			rdb := redis.NewClient(&redis.Options{Addr: scripted(t, c.answer), DisableIdentity: true})
			defer rdb.Close()
			b := coord.New(rdb, patient("weir"))
			for range 3 {
				err := b.Wake(t.Context(), coord.Hint{Queue: "q"})
				if err == nil || errors.Is(err, coord.ErrUnavailable) != c.opens {
					t.Errorf("error: got %v, want one that is unavailable: %v", err, c.opens)
				}
				if !strings.Contains(err.Error(), strings.Fields(c.answer[1:])[0]) {
					t.Errorf("error %q hides what Redis said", err)
				}
			}
			if b.Healthy() == c.opens {
				t.Errorf("healthy: got %v after three times %q", b.Healthy(), c.answer)
			}
			if s := b.Stats(); s.Failures != 3 || s.HintsLost != 3 {
				t.Errorf("stats: got %+v, want 3 failures and 3 hints lost", s)
			}
		})
	}
}

// B82: the address leads to another server while the old one, now a replica, keeps its connections.
func TestAfterAFailoverWithoutLostConnectionsHintsReachTheNewPrimary(t *testing.T) {
	t.Parallel()
	former, next := private(t), private(t)
	hop := testenv.NewProxy(t, former.addr)
	rdb := dial(t, hop.Addr())
	b := coord.New(rdb, patient("weir"))
	p := listen(t, b, "w")
	var warm sync.WaitGroup
	for range 10 { // so that the pool holds several connections
		warm.Go(func() { _ = b.Register(context.Background(), "w", coord.Idle{Queue: "q", Free: 1}) })
	}
	warm.Wait()
	hop.Lead(next.addr)
	must(t, dial(t, former.addr).Do(t.Context(), "REPLICAOF", "127.0.0.1", "1").Err())

	began := time.Now()
	if err := b.Wake(t.Context(), coord.Hint{Queue: "q"}); !errors.Is(err, coord.ErrUnavailable) {
		t.Errorf("first command: got %v, want unavailable", err)
	}
	must(t, b.Wake(t.Context(), coord.Hint{Queue: "q"})) // the connections were shed, all at once
	wait(t, p.stands, "a subscription at the new primary")
	hear(t, b, p, "w", 5*time.Second)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("took %v, want at most 5s", took)
	}
}

// Out of memory Redis refuses to register more workers; those who stand in the set are still woken.
func TestAServerOutOfMemoryStillWakes(t *testing.T) {
	t.Parallel()
	s := private(t, "--maxmemory-policy", "noeviction")
	rdb := dial(t, s.addr)
	b := coord.New(rdb, patient("weir"))
	p := listen(t, b, "w")
	must(t, b.Register(t.Context(), "w", coord.Idle{Queue: "q", Free: 1}))
	must(t, b.Wake(t.Context(), coord.Hint{Queue: "other"}))
	must(t, rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
	for range 5 {
		err := b.Register(t.Context(), "late", coord.Idle{Queue: "q", Free: 9})
		if err == nil || errors.Is(err, coord.ErrUnavailable) {
			t.Errorf("register: got %v, want a refusal that does not count", err)
		}
	}
	if !b.Healthy() {
		t.Error("the breaker opened")
	}
	must(t, b.Wake(t.Context(), coord.Hint{Queue: "q"}))
	wait(t, p.hints, "the hint")
}

func TestABlockedServerCostsOneTimeoutAndComesBack(t *testing.T) {
	t.Parallel()
	s := private(t, "--lua-time-limit", "50")
	rdb := dial(t, s.addr)
	b := coord.New(rdb, coord.Config{})
	p := listen(t, b, "w")
	hear(t, b, p, "w", 5*time.Second)
	blocked := make(chan struct{})
	go func() {
		defer close(blocked)
		_ = redis.NewScript("while true do end").Run(context.Background(), rdb, nil).Err()
	}()
	eventually(t, 5*time.Second, "the breaker opens", func() bool {
		_ = b.Wake(t.Context(), coord.Hint{Queue: "q"})
		return b.Stats().BreakerOpens == 1
	})
	killer := dial(t, s.addr)
	eventually(t, 10*time.Second, "the script is killed", func() bool { return killer.ScriptKill(t.Context()).Err() == nil })
	<-blocked
	hear(t, b, p, "w", 6*time.Second)
}

func TestAFlushedScriptIsSentAgain(t *testing.T) {
	t.Parallel()
	s := private(t)
	rdb := dial(t, s.addr)
	b := coord.New(rdb, patient("weir"))
	for range 3 {
		must(t, b.Register(t.Context(), "w", coord.Idle{Queue: "q", Free: 1}))
		must(t, b.Wake(t.Context(), coord.Hint{Queue: "q"}))
		must(t, rdb.ScriptFlush(t.Context()).Err())
	}
}
