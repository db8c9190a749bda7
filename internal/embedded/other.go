//go:build !(linux || darwin || freebsd)

package embedded

import (
	"errors"
	"syscall"
)

// On these systems no server is started as a process: StartPostgres says so, StartRedis runs miniredis.
const supported = false

type stopStep struct{}

var stopPostgres, stopOthers []stopStep

func detached(*account) *syscall.SysProcAttr { return nil }

func (p *process) pause() error          { return errors.ErrUnsupported }
func (p *process) resume() error         { return errors.ErrUnsupported }
func (p *process) kill() error           { return errors.ErrUnsupported }
func (p *process) stop([]stopStep) error { return errors.ErrUnsupported }

type account struct{}

func unprivileged() (*account, error)    { return nil, errors.ErrUnsupported }
func (a *account) own(string) error      { return errors.ErrUnsupported }
func (a *account) canEnter(string) error { return errors.ErrUnsupported }
func freeBytes(string) (uint64, error)   { return 0, errors.ErrUnsupported }

func foreign(int, string, string) bool { return false }
