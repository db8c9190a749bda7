//go:build race

package testenv

// Race is whether the race detector is on, which makes everything several times slower.
const Race = true
