package child

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// Bounds of a frame: what is larger did not come from us.
const (
	maxHeader = 4 << 20
	maxBody   = 16 << 20
)

// sendWithin is how long the other side may leave a frame unread before it counts as gone.
const sendWithin = 10 * time.Second

// ErrGarbled reports bytes that are no frame.
var ErrGarbled = errors.New("child: garbled frame")

// Frame is one message between a worker and a child: a kind, a header in JSON and bytes that are carried as they are.
type Frame struct {
	Kind   byte
	Header json.RawMessage
	Body   []byte
}

// Decode reads the header.
func (f *Frame) Decode(v any) error {
	if err := json.Unmarshal(f.Header, v); err != nil {
		return fmt.Errorf("%w: %w", ErrGarbled, err)
	}
	return nil
}

// Conn carries frames. One goroutine may receive; any number may send.
type Conn struct {
	conn net.Conn
	read *bufio.Reader
	mu   sync.Mutex // held while a frame is written
}

// NewConn takes over f, which is a socket.
func NewConn(f *os.File) (*Conn, error) {
	conn, err := net.FileConn(f)
	_ = f.Close() // FileConn works on a copy
	if err != nil {
		return nil, fmt.Errorf("use socket: %w", err)
	}
	return &Conn{conn: conn, read: bufio.NewReaderSize(conn, 32<<10)}, nil
}

// Send writes a frame. An error means that the other side is gone or does not read.
func (c *Conn) Send(kind byte, header any, body []byte) error {
	head, err := json.Marshal(header)
	if err != nil {
		return fmt.Errorf("encode frame: %w", err)
	}
	frame := make([]byte, 0, 9+len(head)+len(body))
	frame = append(frame, kind)
	frame = binary.BigEndian.AppendUint32(frame, uint32(len(head)))
	frame = binary.BigEndian.AppendUint32(frame, uint32(len(body)))
	frame = append(append(frame, head...), body...)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.conn.SetWriteDeadline(time.Now().Add(sendWithin)); err != nil {
		return fmt.Errorf("send frame: %w", err)
	}
	if _, err := c.conn.Write(frame); err != nil {
		return fmt.Errorf("send frame: %w", err)
	}
	return nil
}

// Receive waits for a frame. io.EOF means that the other side is gone.
func (c *Conn) Receive() (Frame, error) {
	var head [9]byte
	if _, err := io.ReadFull(c.read, head[:]); err != nil {
		return Frame{}, err
	}
	n, m := binary.BigEndian.Uint32(head[1:]), binary.BigEndian.Uint32(head[5:])
	if n > maxHeader || m > maxBody {
		return Frame{}, ErrGarbled
	}
	both := make([]byte, n+m)
	if _, err := io.ReadFull(c.read, both); err != nil {
		return Frame{}, err
	}
	return Frame{Kind: head[0], Header: both[:n:n], Body: both[n:]}, nil
}

// Close ends the connection.
func (c *Conn) Close() { _ = c.conn.Close() }
