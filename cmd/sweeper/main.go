package main

import "github.com/weirq/weir/pkg/run"

func main() { run.Sweeper() }
