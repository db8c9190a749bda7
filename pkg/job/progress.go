package job

import "time"

// The limits of what a handler says of its job.
const (
	MaxNoteBytes       = 256
	MaxCheckpointBytes = 64 << 10
)

// Progress is how far a handler says it is.
type Progress struct {
	Percent int       `json:"percent"` // 0 to 100
	Note    string    `json:"note,omitempty"`
	At      time.Time `json:"at,omitzero"` // when it was written down, on the clock of the store that kept it
}
