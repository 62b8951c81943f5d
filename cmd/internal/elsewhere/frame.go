package elsewhere

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/xtaci/smux"

	"gpubuild/cmd/internal/proof"
	"gpubuild/cmd/internal/receipt"
	"gpubuild/toolchain/loader"
)

// Kinds of frames. Upper case: to the other side.
const (
	frameRequest = 'Q' // request
	frameInput   = 'I' // of the program; empty: its end
	frameGPUs    = 'g' // []runs.Target, where the task asks for them
	frameMissing = 'm' // the SHA-256 of each file that is not there; each follows as it is, then only frames again
	frameStarted = 's' // where: the machine, and its Slurm job or pod
	frameOut     = 'o'
	frameErr     = 'e'
	frameResult  = 'r' // proof.Proof
	frameRefusal = 'x' // Error
	frameLost    = 'l' // Error, by the link on this side
	greeting     = "gpubuild-there"
	ready        = "gpubuild-ready"
	Word         = "__gpubuild-there" // the word that gpubuild is started with on the other side
	silence      = time.Minute        // how long nothing may come from the other side
)

// file is one that the program needs there.
type file struct {
	Name   string `json:"name"` // below the run's directory, with slashes
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
	Run    bool   `json:"run,omitempty"`
	From   string `json:"from,omitempty"` // here
}

// request is everything that is to be done. Paths in Task are below the run's directory.
type request struct {
	Files []file       `json:"files"`
	Task  proof.Task   `json:"task"`
	Env   []string     `json:"env,omitempty"`
	Needs loader.Glibc `json:"needs"`
	Limit int64        `json:"limit,omitempty"` // bytes that are kept
}

// frames writes whole frames; several goroutines may share it.
type frames struct {
	mu sync.Mutex
	to io.Writer
}

func (f *frames) send(kind byte, content []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	head := [5]byte{kind}
	binary.BigEndian.PutUint32(head[1:], uint32(len(content)))
	_, err := f.to.Write(append(head[:], content...))
	return err
}

func (f *frames) sendJSON(kind byte, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return f.send(kind, data)
}

// stream is a stream of the program as frames of one kind.
type stream struct {
	frames *frames
	kind   byte
}

func (s stream) Write(p []byte) (int, error) {
	return len(p), s.frames.send(s.kind, p)
}

func readFrame(r *bufio.Reader) (kind byte, content []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(head[1:])
	if n > receipt.Limit {
		return 0, nil, fmt.Errorf("a frame of %d bytes", n)
	}
	content = make([]byte, n)
	_, err = io.ReadFull(r, content)
	return head[0], content, err
}

// lines is a connection over what passes on whole lines only, as srun does without --unbuffered: each piece has its length in front and a
// line feed behind.
type lines struct {
	from *bufio.Reader
	to   io.Writer
	gone func() // nothing can be written any more
	left uint32 // of the piece that is being read
}

func (l *lines) Write(p []byte) (int, error) {
	piece := binary.BigEndian.AppendUint32(nil, uint32(len(p)))
	_, err := l.to.Write(append(append(piece, p...), '\n'))
	if err != nil {
		l.gone()
	}
	return len(p), err
}

func (l *lines) Read(p []byte) (n int, err error) {
	if l.left == 0 {
		if err := binary.Read(l.from, binary.BigEndian, &l.left); err != nil {
			return 0, err
		}
	}
	n, err = l.from.Read(p[:min(len(p), int(l.left))])
	if l.left -= uint32(n); l.left == 0 && err == nil {
		if end, err := l.from.ReadByte(); err != nil || end != '\n' {
			return n, cmp.Or(err, smux.ErrInvalidProtocol)
		}
	}
	return n, err
}

func (l *lines) Close() error { return nil } // its streams are closed by who made them

// multiplexed is how programs share a connection: each has a stream, by version 2 of the protocol, in which one that does not read holds up
// no other. Much may be sent unread: leave for more takes 50 ms through srun. within is how long the other side may say nothing.
func multiplexed(within time.Duration) *smux.Config {
	c := smux.DefaultConfig()
	c.Version, c.KeepAliveInterval, c.KeepAliveTimeout, c.MaxStreamBuffer, c.MaxReceiveBuffer = 2, silence/4, within, 4<<20, 1<<30
	return c
}
