package job_test

import (
	"bytes"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weirq/weir/pkg/job"
)

var (
	_ sql.Scanner   = (*job.ID)(nil)
	_ driver.Valuer = job.ID{}
)

const (
	sampleULID = "01ARZ3NDEKTSV4RRFFQ69G5FAV" // the example of the ULID specification
	sampleUUID = "01563e3a-b5d3-d676-4c61-efb99302bd5b"
	maxULID    = "7ZZZZZZZZZZZZZZZZZZZZZZZZZ"
	maxUUID    = "ffffffff-ffff-ffff-ffff-ffffffffffff"
)

func anyID() *rapid.Generator[job.ID] {
	return rapid.Custom(func(t *rapid.T) (id job.ID) {
		copy(id[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "bytes"))
		return id
	})
}

func TestBothTextFormsOfAnIDAreReadInAnyCase(t *testing.T) {
	t.Parallel()
	for _, pair := range [][2]string{
		{sampleULID, sampleUUID},
		{maxULID, maxUUID},
		{strings.Repeat("0", 26), "00000000-0000-0000-0000-000000000000"},
	} {
		for _, text := range []string{pair[0], strings.ToLower(pair[0]), pair[1], strings.ToUpper(pair[1])} {
			id, err := job.ParseID(text)
			wantNil(t, err)
			if id.String() != pair[0] || id.UUID() != pair[1] {
				t.Errorf("ParseID(%q): got %s and %s, want %s and %s", text, id, id.UUID(), pair[0], pair[1])
			}
		}
	}
}

func TestTheTimeOfAnIDIsItsFirst48Bits(t *testing.T) {
	t.Parallel()
	id, err := job.ParseID(sampleULID)
	wantNil(t, err)
	if want := time.UnixMilli(0x01563e3ab5d3); !id.Time().Equal(want) {
		t.Errorf("got %v, want %v", id.Time(), want)
	}
}

func TestTextsThatAreNoIDAreRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", " ", sampleULID[:25], sampleULID + "0", sampleULID[:25] + " ",
		sampleULID[:25] + "U", sampleULID[:25] + "I", sampleULID[:25] + "L", sampleULID[:25] + "O", // not in Crockford's alphabet
		"80000000000000000000000000", // 129 bits
		sampleULID[:24] + "é", sampleULID[:25] + "\x00",
		"{" + sampleUUID + "}", "urn:uuid:" + sampleUUID, strings.ReplaceAll(sampleUUID, "-", ""),
		strings.Replace(sampleUUID, "-", "_", 1), strings.Replace(sampleUUID, "0", "g", 1),
		sampleUUID[:34] + "é", "0-563e3ab5d3-d676-4c61-efb99302bd5b00", strings.Repeat("x", 1<<20),
	} {
		id, err := job.ParseID(text)
		wantField(t, err, "id", "ULID of 26 characters or a UUID of 36")
		if !id.IsZero() {
			t.Errorf("ParseID(%.40q): got id %s beside the error, want none", text, id)
		}
	}
}

func TestAnyIDSurvivesEveryForm(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		id := anyID().Draw(t, "id")
		for _, text := range []string{id.String(), id.UUID()} {
			if got, err := job.ParseID(text); err != nil || got != id {
				t.Fatalf("ParseID(%q): got %s, %v, want the id again", text, got, err)
			}
		}
		value, err := id.Value()
		if err != nil {
			t.Fatal(err)
		}
		for _, src := range []any{value, id.String(), id.UUID(), [16]byte(id), id[:], []byte(id.String()), []byte(id.UUID())} {
			var got job.ID
			if err := got.Scan(src); err != nil || got != id {
				t.Fatalf("Scan(%T %v): got %s, %v, want %s", src, src, got, err, id)
			}
		}
		encoded, err := json.Marshal(map[string]job.ID{"id": id})
		var decoded map[string]job.ID
		if err == nil {
			err = json.Unmarshal(encoded, &decoded)
		}
		if err != nil || decoded["id"] != id {
			t.Fatalf("through JSON %s: got %s, %v, want %s", encoded, decoded["id"], err, id)
		}
	})
}

func TestIDsOrderAlikeInEveryForm(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := anyID().Draw(t, "a"), anyID().Draw(t, "b")
		want := bytes.Compare(a[:], b[:])
		if got := strings.Compare(a.String(), b.String()); got != want {
			t.Fatalf("ULIDs %s and %s: got order %d, want %d", a, b, got, want)
		}
		if got := strings.Compare(a.UUID(), b.UUID()); got != want {
			t.Fatalf("UUIDs %s and %s: got order %d, want %d", a.UUID(), b.UUID(), got, want)
		}
	})
}

func TestTheZeroIDIsNULLInSQLAndEmptyInJSON(t *testing.T) {
	t.Parallel()
	var zero job.ID
	if v, err := zero.Value(); v != nil || err != nil {
		t.Errorf("Value: got %v, %v, want NULL", v, err)
	}
	if b, err := json.Marshal(zero); string(b) != `""` || err != nil {
		t.Errorf("JSON: got %s, %v, want an empty text", b, err)
	}
	for _, src := range []any{nil, "", []byte{}} {
		id := job.ID{1}
		if err := id.Scan(src); err != nil || !id.IsZero() {
			t.Errorf("Scan(%#v): got %s, %v, want the zero id", src, id, err)
		}
	}
	id := job.ID{1}
	if err := json.Unmarshal([]byte(`""`), &id); err != nil || !id.IsZero() {
		t.Errorf("JSON \"\": got %s, %v, want the zero id", id, err)
	}
	row, err := json.Marshal(job.Row{ID: job.ID{1}})
	wantNil(t, err)
	if bytes.Contains(row, []byte("parent_id")) || bytes.Contains(row, []byte("session")) {
		t.Errorf("a row without parent and session: got %s, want neither named", row)
	}
}

func TestAScanThatFailsLeavesTheIDAlone(t *testing.T) {
	t.Parallel()
	for _, src := range []any{42, 1.5, true, "no id", []byte("no id"), [15]byte{}, time.Now()} {
		id := job.ID{1}
		if err := id.Scan(src); err == nil || id != (job.ID{1}) {
			t.Errorf("Scan(%T): got %s, %v, want an error and the id as it was", src, id, err)
		}
	}
	for _, text := range []string{`42`, `"no id"`, `{}`} {
		id := job.ID{1}
		if err := json.Unmarshal([]byte(text), &id); err == nil || id != (job.ID{1}) {
			t.Errorf("JSON %s: got %s, %v, want an error and the id as it was", text, id, err)
		}
	}
}

func FuzzParseID(f *testing.F) {
	for _, s := range []string{"", sampleULID, sampleUUID, strings.ToLower(sampleULID), maxULID, maxUUID, "8" + maxULID[1:]} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		id, err := job.ParseID(s)
		if err != nil {
			wantField(t, err, "id", "ULID")
			return
		}
		if !strings.EqualFold(s, id.String()) && !strings.EqualFold(s, id.UUID()) {
			t.Errorf("ParseID(%q): got %s, whose forms are not the text", s, id)
		}
	})
}
