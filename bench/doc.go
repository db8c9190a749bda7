// Command bench compares Weir with its peers on this machine: `go run ./bench --quick --json`. The comparison itself is
// the module in ./peers, so that the peers never enter the requirements of this one; this command only starts it.
package main
