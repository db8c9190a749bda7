#!/bin/sh
# Counts the words and bytes of a job's payload. The payload comes on standard input, what is printed is the result.
set -eu
payload=$(cat)

case $payload in
*'"busy"'*)
	echo "the printer is busy" >&2
	exit 75 # try again later; no attempt is used
	;;
*'"text"'*) ;;
*)
	echo "the payload has no text" >&2 # the error of this attempt, which is made again later
	exit 1
	;;
esac

words=$(printf %s "$payload" | wc -w)
bytes=$(printf %s "$payload" | wc -c)
printf '{"job": "%s", "attempt": %d, "words": %d, "bytes": %d}\n' "$WEIR_JOB_ID" "$WEIR_JOB_ATTEMPT" "$words" "$bytes"
