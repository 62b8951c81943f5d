package elsewhere

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"sync"

	"gpubuild/cmd/internal/proof"
	"gpubuild/cmd/internal/receipt"
	"gpubuild/toolchain/loader"
)

// Kinds of frames. Upper case: to the other side.
const (
	frameRequest = 'Q' // request
	frameFile    = 'F' // the SHA-256 of the file that follows
	frameData    = 'D' // a piece of it
	frameFileEnd = 'Z'
	frameInput   = 'I' // of the program; empty: its end
	frameMissing = 'm' // the SHA-256 of each file that is not there
	frameStarted = 's' // host
	frameOut     = 'o'
	frameErr     = 'e'
	frameResult  = 'r' // proof.Proof
	frameRefusal = 'x' // refusal
	framePiece   = 1 << 16
	greeting     = "gpubuild-there"
	ready        = "gpubuild-ready"
	Word         = "__gpubuild-there" // the word that gpubuild is started with on the other side
	resultLimit  = receipt.Limit
	frameEnd     = '\n'
)

// file is one that the program needs there.
type file struct {
	Name   string `json:"name"` // below the run's directory, with slashes
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
	Run    bool   `json:"run,omitempty"`
	from   string
}

// request is everything that is to be done. Paths in Task are below the run's directory.
type request struct {
	Files   []file       `json:"files"`
	Task    proof.Task   `json:"task"`
	Env     []string     `json:"env,omitempty"`
	Needs   loader.Glibc `json:"needs"`
	Limit   int64        `json:"limit,omitempty"` // bytes that are kept
	Earlier control      `json:"earlier"`         // of an earlier program of the run
	self    file
}

// host is where a program was started.
type host struct {
	Name  string `json:"name"`
	Slurm string `json:"slurm,omitempty"`
	Pod   string `json:"pod,omitempty"`
	Same  string `json:"same,omitempty"` // circumstances
}

func (h host) String() string {
	switch {
	case h.Slurm != "":
		return h.Name + ", Slurm job " + h.Slurm
	case h.Pod != "":
		return h.Name + ", pod " + h.Pod
	}
	return h.Name
}

// refusal is why the other side did not run the program.
type refusal struct {
	ID   string `json:"id,omitempty"` // empty: an error that is no matter of the place
	What string `json:"what"`
	Fix  string `json:"fix,omitempty"`
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
	whole := append(append(head[:], content...), frameEnd)
	_, err := f.to.Write(whole)
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
	for done := 0; done < len(p); done += framePiece {
		if err := s.frames.send(s.kind, p[done:min(len(p), done+framePiece)]); err != nil {
			return done, err
		}
	}
	return len(p), nil
}

// readFrame reads the next frame.
func readFrame(r *bufio.Reader) (kind byte, content []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(head[1:])
	if n > resultLimit {
		return 0, nil, errChanged
	}
	content = make([]byte, n)
	if _, err := io.ReadFull(r, content); err != nil {
		return 0, nil, err
	}
	if end, err := r.ReadByte(); err != nil {
		return 0, nil, err
	} else if end != frameEnd {
		return 0, nil, errChanged
	}
	return head[0], content, nil
}

var errChanged = fmt.Errorf("what came back was changed on the way: the command must pass on bytes as they are (no terminal, no --label)")
