package chaos_test

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// startShifted starts a process whose wall clock is off by so many seconds; the monotonic one is true. A Go program reads its
// clock by code that the kernel maps into each process, the vDSO, which a preloaded library such as libfaketime does not
// replace (and Debian's redis-server hangs with that). So the process is held before its first instruction, and in its own
// copy of that code what tells the wall clock becomes a system call to whose answer the offset is added.
func startShifted(cmd *exec.Cmd, off time.Duration) error {
	runtime.LockOSThread() // a tracer is a thread
	defer runtime.UnlockOSThread()
	attr := syscall.SysProcAttr{}
	if cmd.SysProcAttr != nil {
		attr = *cmd.SysProcAttr // it may be that of all processes
	}
	attr.Ptrace = true
	cmd.SysProcAttr = &attr
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("%w: %w", errShift, err)
	}
	pid := cmd.Process.Pid
	var status syscall.WaitStatus
	_, err := syscall.Wait4(pid, &status, 0, nil)
	switch {
	case err == nil && !status.Stopped():
		err = fmt.Errorf("%w: it is not held at its start: %v", errShift, status)
	case err == nil:
		err = errors.Join(shiftClock(pid, off), syscall.PtraceDetach(pid))
	}
	if err != nil {
		err = errors.Join(err, cmd.Process.Kill())
		_ = cmd.Wait() // it was killed
	}
	return err
}

// shiftStopped is startShifted for a process that was sent SIGSTOP.
func shiftStopped(pid int, off time.Duration) error {
	err := standsOutside(pid)
	for range 10 { // the signal may be on its way
		if err == nil {
			return shiftClock(pid, off)
		}
		pause(10 * time.Millisecond)
		err = standsOutside(pid)
	}
	return fmt.Errorf("%w: %w", errShift, err)
}

// standsOutside makes sure that no thread of a process runs, or stands within the vDSO.
func standsOutside(pid int) error {
	from, to, err := vdso(pid)
	if err != nil {
		return err
	}
	names, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/syscall", pid))
	if err != nil {
		return err
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		at := int64(0)
		words := strings.Fields(string(text)) // the last is the address
		if _, err := fmt.Sscanf(words[len(words)-1], "0x%x", &at); err != nil || from <= at && at < to {
			return fmt.Errorf("a thread stands at %q", text)
		}
	}
	return nil
}

// vdso returns where that code lies in a process.
func vdso(pid int) (from, to int64, err error) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	for line := range strings.Lines(string(maps)) {
		if strings.Contains(line, "[vdso]") {
			_, err = fmt.Sscanf(line, "%x-%x", &from, &to)
		}
	}
	if from == 0 || err != nil {
		return 0, 0, fmt.Errorf("%w: it has no vDSO: %w", errShift, err)
	}
	return from, to, nil
}

// shiftClock replaces what tells the wall clock in a process that stands still.
func shiftClock(pid int, off time.Duration) error {
	from, to, err := vdso(pid)
	if err != nil {
		return err
	}
	mem, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("%w: %w", errShift, err)
	}
	defer mem.Close()
	image := make([]byte, to-from)
	if _, err := mem.ReadAt(image, from); err != nil {
		return fmt.Errorf("%w: %w", errShift, err)
	}
	file, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return fmt.Errorf("%w: %w", errShift, err)
	}
	list, err := file.DynamicSymbols()
	if err != nil {
		return fmt.Errorf("%w: %w", errShift, err)
	}
	shifted := shiftedCode(off)
	for _, s := range list {
		code, ok := shifted[s.Name]
		if !ok {
			continue
		}
		if s.Size < uint64(len(code)) {
			return fmt.Errorf("%w: %s is of %d bytes", errShift, s.Name, s.Size)
		}
		if _, err := mem.WriteAt(code, from+int64(s.Value)); err != nil {
			return fmt.Errorf("%w: %w", errShift, err)
		}
		delete(shifted, s.Name)
	}
	if len(shifted) > 0 {
		return fmt.Errorf("%w: the vDSO is another one than was known", errShift)
	}
	return nil
}

// shiftedCode returns the functions that add an offset to the wall clock.
func shiftedCode(off time.Duration) map[string][]byte {
	seconds := binary.LittleEndian.AppendUint32(nil, uint32(int32(off/time.Second)))
	return map[string][]byte{
		"__vdso_clock_gettime": bytes.Join([][]byte{
			{0xb8, 0xe4, 0, 0, 0},                        // mov eax, 228: clock_gettime(which: edi, answer: rsi)
			{0x0f, 0x05},                                 // syscall
			{0x85, 0xff, 0x75, 0x07},                     // unless edi = 0, the wall clock, to the last line
			append([]byte{0x48, 0x81, 0x06}, seconds...), // add qword [rsi], seconds
			{0xc3}, // ret
		}, nil),
		"__vdso_gettimeofday": bytes.Join([][]byte{
			{0xb8, 0x60, 0, 0, 0},                        // mov eax, 96: gettimeofday(answer: rdi, zone: rsi)
			{0x0f, 0x05},                                 // syscall
			{0x48, 0x85, 0xff, 0x74, 0x07},               // if rdi = 0, to the last line
			append([]byte{0x48, 0x81, 0x07}, seconds...), // add qword [rdi], seconds
			{0xc3}, // ret
		}, nil),
		"__vdso_time": bytes.Join([][]byte{
			{0xb8, 0xc9, 0, 0, 0},                  // mov eax, 201: time(answer: rdi)
			{0x0f, 0x05},                           // syscall
			append([]byte{0x48, 0x05}, seconds...), // add rax, seconds
			{0x48, 0x85, 0xff, 0x74, 0x03},         // if rdi = 0, to the last line
			{0x48, 0x89, 0x07},                     // mov [rdi], rax
			{0xc3},                                 // ret
		}, nil),
	}
}
