package job

import (
	"crypto/rand"
	"database/sql/driver"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"
)

// ID identifies a job: 48 bits of milliseconds since 1970 and 80 random bits (a ULID), stored as a uuid. The zero ID
// means "none". IDs of one process rise strictly; IDs of different processes do not order their jobs.
type ID [16]byte

// String returns the ULID form, 26 characters of Crockford's base 32.
func (id ID) String() string { return ulid.ULID(id).String() }

// UUID returns the form in which Postgres shows the id: 36 characters, lower case.
func (id ID) UUID() string {
	var b [36]byte
	hex.Encode(b[0:8], id[0:4])
	hex.Encode(b[9:13], id[4:6])
	hex.Encode(b[14:18], id[6:8])
	hex.Encode(b[19:23], id[8:10])
	hex.Encode(b[24:36], id[10:16])
	b[8], b[13], b[18], b[23] = '-', '-', '-', '-'
	return string(b[:])
}

// IsZero reports whether id is the zero ID.
func (id ID) IsZero() bool { return id == ID{} }

// Time returns the instant in the id, to the millisecond, by the corrected clock of the process that made it.
func (id ID) Time() time.Time { return ulid.Time(ulid.ULID(id).Time()) }

// ParseID reads an id in either form, ULID or UUID, in any case. The error is a *FieldError of field "id".
func ParseID(s string) (ID, error) {
	switch len(s) {
	case 26:
		u, err := ulid.ParseStrict(s)
		if err == nil {
			return ID(u), nil
		}
	case 36:
		if id, ok := parseUUID(s); ok {
			return id, nil
		}
	}
	return ID{}, &FieldError{Field: "id", Got: quoteShort(s), Limit: "a ULID of 26 characters or a UUID of 36"}
}

func parseUUID(s string) (id ID, ok bool) {
	if s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return id, false
	}
	plain := s[0:8] + s[9:13] + s[14:18] + s[19:23] + s[24:36]
	_, err := hex.Decode(id[:], []byte(plain))
	return id, err == nil
}

// MarshalText returns the ULID form, so that JSON shows it; the zero ID is the empty text.
func (id ID) MarshalText() ([]byte, error) {
	if id.IsZero() {
		return []byte{}, nil
	}
	return []byte(id.String()), nil
}

// UnmarshalText reads either form; the empty text is the zero ID.
func (id *ID) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*id = ID{}
		return nil
	}
	parsed, err := ParseID(string(text))
	if err != nil {
		return err
	}
	*id = parsed
	return nil
}

// Scan implements sql.Scanner for uuid and text columns; NULL is the zero ID.
func (id *ID) Scan(src any) error {
	switch v := src.(type) {
	case nil:
		*id = ID{}
		return nil
	case string:
		return id.UnmarshalText([]byte(v))
	case [16]byte:
		*id = v
		return nil
	case []byte:
		if len(v) == 16 {
			copy(id[:], v)
			return nil
		}
		return id.UnmarshalText(v)
	}
	return fmt.Errorf("job: scan %T into an ID", src)
}

// Value implements driver.Valuer: the UUID form, or NULL for the zero ID.
func (id ID) Value() (driver.Value, error) {
	if id.IsZero() {
		return nil, nil
	}
	return id.UUID(), nil
}

// IDs makes ids that rise strictly within one process, also within a millisecond, when the clock stands still and
// when it goes back. It is safe for concurrent use. The zero IDs is ready to use and reads the local clock.
type IDs struct {
	offset atomic.Int64 // nanoseconds to add to the local clock to get the database's

	mu   sync.Mutex
	ms   uint64
	hi   uint16 // with lo: the 80 bits of the last id
	lo   uint64
	rand io.Reader // tests only; nil means crypto/rand
}

// SetOffset tells how far the database clock is ahead of the local one, so that ids of hosts with wrong clocks still
// carry about the database's time (they choose the partition of a job).
func (g *IDs) SetOffset(d time.Duration) { g.offset.Store(int64(d)) }

// Offset returns what SetOffset was last told; zero before.
func (g *IDs) Offset() time.Duration { return time.Duration(g.offset.Load()) }

// New returns the next id.
func (g *IDs) New() ID { return g.at(time.Now().Add(g.Offset())) }

func (g *IDs) at(now time.Time) ID {
	g.mu.Lock()
	defer g.mu.Unlock()
	if ms := uint64(max(now.UnixMilli(), 0)); ms > g.ms {
		g.seedLocked(ms)
	} else if !g.stepLocked() {
		g.seedLocked(g.ms + 1) // the 80 bits are used up: borrow the next millisecond instead of waiting or failing
	}
	var id ID
	binary.BigEndian.PutUint64(id[:8], g.ms<<16|uint64(g.hi))
	binary.BigEndian.PutUint64(id[8:], g.lo)
	return id
}

// seedLocked draws 79 fresh random bits: the top bit stays clear, so a millisecond never starts near its end.
func (g *IDs) seedLocked(ms uint64) {
	var b [10]byte
	g.readLocked(b[:])
	g.ms, g.hi, g.lo = ms, binary.BigEndian.Uint16(b[:2])&0x7fff, binary.BigEndian.Uint64(b[2:])
}

// stepLocked adds a random step of 1 to 2^32, so that ids cannot be guessed from a neighbour; false on overflow.
func (g *IDs) stepLocked() bool {
	var b [4]byte
	g.readLocked(b[:])
	next := g.lo + uint64(binary.BigEndian.Uint32(b[:])) + 1
	if next < g.lo {
		if g.hi == 0xffff {
			return false
		}
		g.hi++
	}
	g.lo = next
	return true
}

// readLocked fills b. crypto/rand does not fail; where a test's reader does, bits of b stay zero, and the step of at
// least 1 still makes the id unique within the process.
func (g *IDs) readLocked(b []byte) {
	if g.rand == nil {
		_, _ = rand.Read(b)
		return
	}
	_, _ = io.ReadFull(g.rand, b)
}
