//go:build unix

package child

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
)

// maxMessage bounds a message between worker and supervisor: arguments and environment of a child.
const maxMessage = 4 << 20

// request is what a worker asks of its supervisor.
type request struct {
	Seq    int64    `json:"seq"`
	Signal int      `json:"signal,omitempty"` // for the group of child Seq; 0: start it
	Path   string   `json:"path,omitempty"`
	Args   []string `json:"args,omitempty"`
	Env    []string `json:"env,omitempty"`
	Dir    string   `json:"dir,omitempty"`
	MaxRSS int64    `json:"max_rss,omitempty"`
	Tied   bool     `json:"tied,omitempty"`
}

// reply is what the supervisor tells: that a child was started, was not, or has ended.
type reply struct {
	Seq      int64 `json:"seq"`
	Pid      int   `json:"pid,omitempty"`
	Errno    int   `json:"errno,omitempty"` // it was not started
	Ended    bool  `json:"ended,omitempty"`
	Code     int   `json:"code,omitempty"`
	Signal   int   `json:"signal,omitempty"`
	Exceeded int64 `json:"exceeded,omitempty"`
}

// link is one end of the socket between worker and supervisor.
type link struct {
	conn *net.UnixConn
	mu   sync.Mutex // held while a message is written
}

// newLink takes over f, which is a socket.
func newLink(f *os.File) (*link, error) {
	conn, err := net.FileConn(f)
	_ = f.Close() // FileConn works on a copy
	if err != nil {
		return nil, fmt.Errorf("use socket: %w", err)
	}
	unix, ok := conn.(*net.UnixConn)
	if !ok {
		_ = conn.Close() // not ours
		return nil, fmt.Errorf("use socket: it is a %T", conn)
	}
	return &link{conn: unix}, nil
}

// send writes a message, its descriptors with the first byte.
func (l *link) send(v any, files ...*os.File) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode message: %w", err)
	}
	if len(body) > maxMessage {
		return syscall.E2BIG
	}
	var rights []byte
	if len(files) > 0 {
		fds := make([]int, len(files))
		for i, f := range files {
			fds[i] = int(f.Fd())
		}
		rights = syscall.UnixRights(fds...)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, _, err := l.conn.WriteMsgUnix(binary.BigEndian.AppendUint32(nil, uint32(len(body))), rights, nil); err != nil {
		return fmt.Errorf("send message: %w", err)
	}
	if _, err := l.conn.Write(body); err != nil {
		return fmt.Errorf("send message: %w", err)
	}
	return nil
}

// receive reads a message into v and returns the descriptors that came with it.
func (l *link) receive(v any) (files []*os.File, err error) {
	var head [4]byte
	rights := make([]byte, syscall.CmsgSpace(16*4))
	for read := 0; read < len(head); {
		n, m, _, _, err := l.conn.ReadMsgUnix(head[read:], rights)
		if err != nil {
			return nil, err
		}
		if n == 0 && m == 0 {
			return nil, io.EOF
		}
		files = append(files, descriptors(rights[:m])...)
		read += n
	}
	size := binary.BigEndian.Uint32(head[:])
	if size > maxMessage {
		return files, fmt.Errorf("receive message: %d bytes", size)
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(l.conn, body); err != nil {
		return files, err
	}
	return files, json.Unmarshal(body, v)
}

func descriptors(rights []byte) (files []*os.File) {
	messages, err := syscall.ParseSocketControlMessage(rights)
	if err != nil {
		return nil
	}
	for i := range messages {
		fds, err := syscall.ParseUnixRights(&messages[i])
		if err != nil {
			continue
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "received"))
		}
	}
	return files
}

// socketPair returns two connected sockets that no program inherits by accident.
func socketPair() (a, b *os.File, err error) {
	syscall.ForkLock.RLock() // not between socket and close-on-exec: a child forked there would hold our end open
	defer syscall.ForkLock.RUnlock()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	for _, fd := range fds {
		syscall.CloseOnExec(fd)
	}
	return os.NewFile(uintptr(fds[0]), "socket"), os.NewFile(uintptr(fds[1]), "socket"), nil
}
