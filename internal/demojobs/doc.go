// Package demojobs has the handlers that cmd/worker and `weir demo` share: enough to see a queue at work without writing Go.
//
//	checksum  {"path": "docs/a.md"}       SHA-256, lines and bytes of a file below the base directory, as its result
//	sleep     {"ms": 500}                 waits; a cancelled context ends it
//	fail      {"times": 2}                fails its first two attempts
//	echo      anything                    its payload is its result
//
// Payloads are not trusted: checksum opens nothing outside its base directory, by whatever path or link.
package demojobs
