package job

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// The limits of keys.
const (
	MaxKeys     = 8              // of one job, locks and rates together
	MaxKeyBytes = 255            // of a key's name
	MaxKeyLimit = 100_000        // holders of a lock, or starts of a rate
	MaxRatePer  = 24 * time.Hour // Redis remembers what was granted in a window, and Redis may forget: a longer one would promise too much
)

// reservedPrefix begins the names that are Weir's own.
const reservedPrefix = "weir."

// Key names something that jobs share: a lock with so many holders at once, or a rate of starts. Make one with Mutex, Limit
// or Rate. Locks and rates have name spaces of their own.
//
// A name is 1 to 255 bytes of UTF-8 without NUL; all else is allowed and kept byte for byte, line breaks and braces too. Names
// that begin with "weir." are reserved.
type Key struct {
	name   string
	limit  int           // holders at once, or starts in a window of per
	rate   bool          // not a lock
	per    time.Duration // of a rate
	weight int           // of a rate: how many starts one start counts for
}

// Mutex is a key that one job holds at a time in the whole fleet: Limit(name, 1).
func Mutex(name string) Key { return Limit(name, 1) }

// Limit is a key that at most n jobs hold at a time in the whole fleet, n from 1 to 100,000. An entry of `weir limits` counts
// before n. Where jobs of one key name different numbers, each counts for the job that names it.
func Limit(name string, n int) Key { return Key{name: name, limit: n} }

// Rate lets at most n jobs with this key start in any window of per, in the whole fleet: n from 1 to 100,000, per whole
// milliseconds from 1 ms to 24 h on the clock of Redis. An entry of `weir limits` counts before n and per. A crash of Redis may
// let one window more pass; without Redis each process has its share of n.
func Rate(name string, n int, per time.Duration) Key {
	return Key{name: name, limit: n, rate: true, per: per, weight: 1}
}

// Weight makes one start count for n of a rate's, from 1 to all of them.
func (k Key) Weight(n int) Key {
	k.weight = n
	return k
}

// Name returns the key's name.
func (k Key) Name() string { return k.name }

// N returns the number of holders of a lock, or of starts of a rate, as the job has it.
func (k Key) N() int { return k.limit }

// Per returns the window of a rate, zero for a lock.
func (k Key) Per() time.Duration { return k.per }

// Cost returns how many starts of a rate one start counts for, zero for a lock.
func (k Key) Cost() int { return k.weight }

// IsRate tells a rate from a lock.
func (k Key) IsRate() bool { return k.rate }

// String returns what the key is in words: "account:42 (mutex)", "tenant:7 (limit 5)", "stripe (rate 100 per 1s, weight 3)".
// The name is not escaped.
func (k Key) String() string {
	switch {
	case k.rate && k.weight != 1:
		return fmt.Sprintf("%s (rate %d per %v, weight %d)", k.name, k.limit, k.per, k.weight)
	case k.rate:
		return fmt.Sprintf("%s (rate %d per %v)", k.name, k.limit, k.per)
	case k.limit == 1:
		return k.name + " (mutex)"
	}
	return fmt.Sprintf("%s (limit %d)", k.name, k.limit)
}

// keyJSON is a key as JSON has it: {"key": NAME, "limit": N} or {"rate": NAME, "limit": N, "per_ms": …, "weight": …}.
type keyJSON struct {
	Key    string `json:"key,omitempty"`
	Rate   string `json:"rate,omitempty"`
	Limit  int    `json:"limit"`
	PerMS  int64  `json:"per_ms,omitempty"`
	Weight int    `json:"weight,omitempty"`
}

// MarshalJSON encodes a lock as {"key": NAME, "limit": N}, a rate as {"rate": NAME, "limit": N, "per_ms": …, "weight": …}.
func (k Key) MarshalJSON() ([]byte, error) {
	if k.rate {
		return json.Marshal(keyJSON{Rate: k.name, Limit: k.limit, PerMS: k.per.Milliseconds(), Weight: k.weight})
	}
	return json.Marshal(keyJSON{Key: k.name, Limit: k.limit})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (k *Key) UnmarshalJSON(text []byte) error {
	var j keyJSON
	if err := json.Unmarshal(text, &j); err != nil {
		return err
	}
	if j.Rate != "" {
		*k = Rate(j.Rate, j.Limit, time.Duration(j.PerMS)*time.Millisecond).Weight(j.Weight)
		return nil
	}
	*k = Limit(j.Key, j.Limit)
	return nil
}

// ValidateKey reports a *FieldError unless name may be a key's: 1 to 255 bytes of UTF-8 without NUL that do not begin with
// "weir.".
func ValidateKey(name string) error { return validateKeyName("key", name) }

func validateKeyName(field, name string) error {
	const limit = "1 to 255 bytes of UTF-8 without NUL"
	switch {
	case name == "":
		return &FieldError{Field: field, Got: "empty", Limit: limit}
	case len(name) > MaxKeyBytes:
		return &FieldError{Field: field, Got: bytesText(len(name)), Limit: limit}
	case !utf8.ValidString(name) || strings.ContainsRune(name, 0):
		return &FieldError{Field: field, Got: quoteShort(name), Limit: limit}
	case strings.HasPrefix(name, reservedPrefix):
		return &FieldError{Field: field, Got: quoteShort(name), Limit: `a name that does not begin with "weir.", which is reserved`}
	}
	return nil
}

// validate checks one key of a job.
func (k Key) validate() error {
	const field = "Keys"
	if err := validateKeyName(field, k.name); err != nil {
		return err
	}
	if k.limit < 1 || k.limit > MaxKeyLimit {
		return &FieldError{Field: field, Got: "a limit of " + strconv.Itoa(k.limit), Limit: "limits of 1 to 100000"}
	}
	if !k.rate {
		if k.weight != 0 {
			return &FieldError{Field: field, Got: "a lock with a weight", Limit: "weights on rates alone"}
		}
		return nil
	}
	if k.weight < 1 || k.weight > k.limit {
		return &FieldError{Field: field, Got: "a weight of " + strconv.Itoa(k.weight), Limit: "weights from 1 to the rate's number"}
	}
	if k.per < time.Millisecond || k.per > MaxRatePer || k.per%time.Millisecond != 0 {
		return &FieldError{Field: field, Got: "a window of " + k.per.String(), Limit: "windows of whole milliseconds from 1ms to 24h"}
	}
	return nil
}

// checkKeys checks the keys of a job against one another too.
func (o Options) checkKeys() error {
	const field = "Keys"
	if len(o.Keys) > MaxKeys {
		return &FieldError{Field: field, Got: strconv.Itoa(len(o.Keys)), Limit: strconv.Itoa(MaxKeys) + " keys"}
	}
	for i, k := range o.Keys {
		if err := k.validate(); err != nil {
			return err
		}
		for _, other := range o.Keys[:i] {
			if other.rate == k.rate && other.name == k.name { // not collapsed: the two may name different numbers
				return &FieldError{Field: field, Got: quoteShort(k.name) + " twice", Limit: "each name once among locks and once among rates"}
			}
		}
		if !k.rate && o.Timeout == NoTimeout {
			return &FieldError{Field: "Timeout", Got: "NoTimeout together with a lock", Limit: "a timeout: a handler that never returns would hold its keys for ever"}
		}
	}
	return nil
}

// SplitKeys returns keys in the form in which a job stores them: the names of its locks in the order of their bytes and, in step,
// their numbers (nil if all are 1), and its rates by name, each as text. What there is none of is nil.
func SplitKeys(keys []Key) (locks []string, limits []int32, rates []string) {
	if len(keys) == 0 {
		return nil, nil, nil
	}
	sorted := slices.SortedFunc(slices.Values(keys), func(a, b Key) int { return cmp.Compare(a.name, b.name) })
	plain := true
	for _, k := range sorted {
		if k.rate {
			rates = append(rates, fmt.Sprintf("%d/%d/%d %s", k.limit, k.per.Milliseconds(), k.weight, k.name))
			continue
		}
		locks, limits = append(locks, k.name), append(limits, int32(k.limit))
		plain = plain && k.limit == 1
	}
	if plain {
		limits = nil
	}
	return locks, limits, rates
}

// JoinKeys is the way back: locks by name, then rates by name. What was changed by hand and cannot be read is left out.
func JoinKeys(locks []string, limits []int32, rates []string) []Key {
	if len(locks)+len(rates) == 0 {
		return nil
	}
	keys := make([]Key, 0, len(locks)+len(rates))
	for i, name := range locks {
		n := 1
		if i < len(limits) {
			n = int(limits[i])
		}
		keys = append(keys, Limit(name, n))
	}
	for _, text := range rates {
		if k, ok := ParseRate(text); ok {
			keys = append(keys, k)
		}
	}
	return keys
}

// ParseRate reads one rate as SplitKeys writes it: "N/PER_MS/WEIGHT NAME".
func ParseRate(text string) (Key, bool) {
	numbers, name, ok := strings.Cut(text, " ")
	parts := strings.Split(numbers, "/")
	if !ok || len(parts) != 3 {
		return Key{}, false
	}
	var n [3]int64
	for i, p := range parts {
		var err error
		if n[i], err = strconv.ParseInt(p, 10, 64); err != nil || n[i] < 1 || n[i] > MaxRatePer.Milliseconds() {
			return Key{}, false
		}
	}
	return Rate(name, int(n[0]), time.Duration(n[1])*time.Millisecond).Weight(int(n[2])), true
}
