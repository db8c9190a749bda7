package coord

import (
	"embed"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/*.lua
var sources embed.FS

var (
	wakeScript     = script("wake")
	registerScript = script("register")

	acquireScript = script("acquire")
	renewScript   = script("renew")
	releaseScript = script("release")
	writeScript   = script("write")
	holdersScript = script("holders")

	reserveScript   = script("reserve")
	unreserveScript = script("unreserve")
	holdScript      = script("hold")
)

// script loads one embedded file. A missing file is a programmer's mistake, found by any test.
func script(name string) *redis.Script {
	source, err := sources.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err)
	}
	return redis.NewScript(string(source))
}
