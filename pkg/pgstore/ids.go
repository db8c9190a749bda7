package pgstore

import "github.com/weirq/weir/pkg/job"

// raw returns ids in the type that the driver encodes as binary uuids.
func raw(ids []job.ID) [][16]byte {
	b := make([][16]byte, len(ids))
	for i, id := range ids {
		b[i] = id
	}
	return b
}

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
