package pgstore

import (
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/weirq/weir/pkg/job"
)

// raw returns ids in the type that the driver encodes as binary uuids.
func raw(ids []job.ID) [][16]byte {
	b := make([][16]byte, len(ids))
	for i, id := range ids {
		b[i] = id
	}
	return b
}

// orNull returns id, or NULL for the zero ID.
func orNull(id job.ID) pgtype.UUID { return pgtype.UUID{Bytes: id, Valid: !id.IsZero()} }

// fromRaw is the way back.
func fromRaw(b [][16]byte) []job.ID {
	if len(b) == 0 {
		return nil
	}
	ids := make([]job.ID, len(b))
	for i := range b {
		ids[i] = b[i]
	}
	return ids
}
