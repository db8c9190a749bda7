// Package config reads Weir's settings into one typed struct, [Config], and remembers where each value came from.
//
// A setting is looked for in three layers; a later one wins:
//
//  1. the built-in default, in the `default` tag of its field;
//  2. the YAML file named by the caller or by WEIR_CONFIG (weir.yaml is a small one, weir.full.yaml names every key);
//  3. the environment: WEIR_ and the path of the key in capitals, joined by _ (timing.lease is WEIR_TIMING_LEASE).
//
// Load reads all three and refuses what it does not understand: an unknown or repeated key, a value of the wrong type, a
// duration without a unit, a number out of range, settings that contradict each other, a named file that is not there.
// All faults are reported together, each with its key and its file and line or variable.
//
// # Values
//
// Durations need a unit: 250ms, 15s, 1h30m, 14d, 1d12h. Whole numbers are written in decimal, without quotes. Text that YAML
// takes for something else (a number, a date, null) needs quotes. The word auto, where a key allows it, asks for the derived default.
//
// Some settings are lists. In a variable they have one compact form: WEIR_WORKER_QUEUES="critical=50*4,mail=20" is
// name=slots*weight (no weight is 1; a name with a comma, an equals sign, a double quote, a control character or outer spaces is
// written as a Go string literal in double quotes), WEIR_LIMITS="tenant:*=3,stripe=100/1s" is name=limit for locks and name=limit/per for
// rates, WEIR_QUEUES="mail=40+200/1s" is name=limit+starts/per or one of the two, WEIR_SWEEPER_DUTIES_OFF="expire,rotate" is plain words. A list replaces that of the layer
// below as a whole. Names of queues and keys are data: their case, dots and letters are kept as they are.
//
// A variable whose value is the empty string counts as not set. An unknown WEIR_ variable is an error, except WEIR_CONFIG,
// those that begin with WEIR_TEST_, WEIR_JOB_ or WEIR_DEMO_, and those that Kubernetes makes for a service
// whose name begins with weir (WEIR_SERVICE_HOST, WEIR_SWEEPER_PORT_9466_TCP and the like).
//
// # Secrets
//
// A [Secret] prints as [redacted]; Reveal gives its text. Each secret can be kept in a file that url_file (WEIR_POSTGRES_URL_FILE) names:
// one newline at its end is cut off. Relative paths count from the working directory. A secret and its file in one layer are an error; a secret
// from a higher layer replaces a file from a lower one, and the other way round. No error of this package contains a secret or an
// excerpt of one, so a malformed URL is named by its setting alone.
//
// Only main programs import this package. Libraries take their own Config structs.
package config
