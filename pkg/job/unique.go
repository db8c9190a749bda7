package job

import (
	"crypto/sha256"
	"fmt"
	"reflect"
	"time"
)

// MaxUniqueFor is the longest window of Unique.For: ten years of 365 days.
const MaxUniqueFor = 10 * 365 * 24 * time.Hour

// While says which jobs count against a new one with the same unique key.
type While int8

// What counts.
const (
	Live    While = iota // a job that has not ended
	Waiting              // a job that does not run: one may run and one more wait
)

// Conflict says what becomes of a job whose unique key belongs to another.
type Conflict int8

// What becomes of it.
const (
	Keep    Conflict = iota // the other stays; the call returns its id and Duplicate
	Replace                 // the other, if it waits, ends as cancelled ("superseded"), and the new one takes its place
	Fail                    // the call fails with a *client.DuplicateError
)

// Unique lets only one job of its kind exist with a key at a time. The zero value lets any number.
//
//	job.Unique{ByArgs: true}                                                 // one live job with these args
//	job.Unique{Key: "report:42", For: time.Hour}                             // one an hour, whatever became of it
//	job.Unique{Key: "index:42", While: job.Waiting, OnConflict: job.Replace} // debounce: the newest payload wins
//
// The key is taken in the transaction that stores the job and given up in the statement that ends it, however it ends. Of
// two transactions that race for a key the second waits for the first, and takes the key if that rolls back.
type Unique struct {
	// Key is the key: 1 to 255 bytes of UTF-8 without NUL, not beginning with "weir.". Either Key or ByArgs.
	Key string
	// ByArgs makes the key of the args: of the fields with the tag `weir:"unique"`, also in nested structs, or of all if none
	// has it. They are compared as JSON: the order of names and how a number is written (1, 1.0, 1e0) do not matter.
	ByArgs bool
	// For keeps the key at least so long, counted on the database clock from the enqueue, whatever has become of the job.
	// 1 ms to MaxUniqueFor. Zero means only as long as the job counts.
	For time.Duration
	// While says which jobs count. Zero means Live.
	//
	// With Waiting a new job may be stored while the one before it runs. That one is then not tried again: should it fail,
	// be snoozed or interrupted, it ends as cancelled, since the newer one is there to do the same.
	While While
	// OnConflict says what becomes of a job whose key belongs to another. Zero means Keep. Replace keeps one that runs or, within
	// For, has ended.
	OnConflict Conflict
	// SameArgs makes it an error (a *client.DuplicateError with Differs) if the other has other args, all of them compared as
	// JSON. A job that was enqueued from SQL has none to compare. Not together with Replace.
	SameArgs bool

	none bool
}

// NotUnique, in Options, undoes a Unique of the args type.
var NotUnique = Unique{none: true}

// IsZero reports whether u says nothing.
func (u Unique) IsZero() bool { return u == Unique{} }

// Applies reports whether u makes a job unique.
func (u Unique) Applies() bool { return u != Unique{} && !u.none }

func (u Unique) validate() error {
	const field = "Unique"
	if !u.Applies() {
		return nil
	}
	switch {
	case u.Key == "" && !u.ByArgs:
		return &FieldError{Field: field, Got: "without Key and ByArgs", Limit: "one of the two"}
	case u.Key != "" && u.ByArgs:
		return &FieldError{Field: field, Got: "Key together with ByArgs", Limit: "one of the two"}
	case u.For != 0 && (u.For < time.Millisecond || u.For > MaxUniqueFor):
		return &FieldError{Field: field, Got: "For " + u.For.String(), Limit: "1ms to 87600h"}
	case u.While < Live || u.While > Waiting:
		return &FieldError{Field: field, Got: fmt.Sprintf("While %d", u.While), Limit: "Live or Waiting"}
	case u.OnConflict < Keep || u.OnConflict > Fail:
		return &FieldError{Field: field, Got: fmt.Sprintf("OnConflict %d", u.OnConflict), Limit: "Keep, Replace or Fail"}
	case u.SameArgs && u.OnConflict == Replace:
		return &FieldError{Field: field, Got: "SameArgs together with Replace", Limit: "one of the two"}
	}
	if u.Key != "" {
		return validateKeyName(field, u.Key)
	}
	return nil
}

// Hash returns what is stored of the key of a job, and of its args to compare: each a SHA-256. payload is that of args, as Encode
// made it. The error is a *FieldError: a tag that cannot be obeyed.
func (u Unique) Hash(args Args, payload []byte) (key, content []byte, err error) {
	all, err := parseJSON(payload)
	if err != nil { // ValidatePayload has passed it
		return nil, nil, &FieldError{Field: "payload", Got: "not JSON", Limit: "one JSON text"}
	}
	content = digest("content", canonical(nil, all))
	if u.Key != "" {
		return digest("key", []byte(u.Key)), content, nil
	}
	paths, err := uniqueFields(reflect.TypeOf(args))
	if err != nil {
		return nil, nil, err
	}
	return digest("args", canonical(nil, pick(all, paths))), content, nil
}

// digest hashes text; what it is of keeps a key apart from args that read the same.
func digest(of string, text []byte) []byte {
	h := sha256.New()
	h.Write([]byte(of))
	h.Write([]byte{0})
	h.Write(text)
	return h.Sum(nil)
}

// DuplicateText is what is written down about a job that another has replaced.
func DuplicateText(by ID) string { return "superseded by " + by.String() }
