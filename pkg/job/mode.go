package job

import "fmt"

// Mode says how far a handler is kept from the worker's own process. A later one isolates more.
type Mode int8

// The modes. As an option of a job, Inline is the zero value and means: whatever its handler says.
const (
	Inline  Mode = iota // a goroutine of the worker
	Forked              // a child process of the same program, kept warm for the next job
	Spawned             // a fresh child process, for this job alone
)

var modeNames = [...]string{"inline", "forked", "spawned"}

// String returns the mode's name: inline, forked or spawned.
func (m Mode) String() string {
	if m < 0 || int(m) >= len(modeNames) {
		return fmt.Sprintf("mode %d", int8(m))
	}
	return modeNames[m]
}

// ParseMode reads a mode's name. The error is a *FieldError.
func ParseMode(name string) (Mode, error) {
	for m, n := range modeNames {
		if n == name {
			return Mode(m), nil
		}
	}
	return 0, &FieldError{Field: "Mode", Got: quoteShort(name), Limit: "inline, forked or spawned"}
}

// MarshalText writes the name.
func (m Mode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText reads the name.
func (m *Mode) UnmarshalText(text []byte) (err error) {
	*m, err = ParseMode(string(text))
	return err
}

// validate reports a *FieldError unless m is one of the three.
func (m Mode) validate() error {
	if m < Inline || m > Spawned {
		return &FieldError{Field: "Mode", Got: m.String(), Limit: "inline, forked or spawned"}
	}
	return nil
}
