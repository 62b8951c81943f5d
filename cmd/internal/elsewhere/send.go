package elsewhere

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"gpubuild/buildenv"
	"gpubuild/cmd/internal/proof"
	"gpubuild/cmd/internal/session"
	"gpubuild/toolchain/install/tree"
)

// answerDelay is how long the other side may take, beyond the program's own time, to end it and to send the result.
const answerDelay = time.Minute

// Send runs a task at a place. A program that ran has a proof, whatever it shows; an *Error is why there is none.
func Send(ctx context.Context, m *session.Machine, p proof.Place, t proof.Task, s proof.Streams) (proof.Proof, error) {
	req, err := prepare(ctx, m, p, t)
	if err != nil {
		return proof.Proof{}, err
	}
	for left := p.Retry; ; left-- {
		got, err := once(ctx, m, p, req, s)
		e, lost := errors.AsType[*Error](err)
		if !lost || left <= 0 || e.ID == IDRefused || e.ID == IDQueue {
			return got, err
		}
		m.Shell.Note("%s; once more (--retry-lost)", e.What)
	}
}

// once is one try: on a line of the run, or on one of its own.
func once(ctx context.Context, m *session.Machine, p proof.Place, req request, s proof.Streams) (proof.Proof, error) {
	conn, err := net.Dial("unix", filepath.Join(p.Memo, socketName))
	hangUp := func() {}
	if err != nil {
		lines := newLines(context.WithoutCancel(ctx), m, p, s.Err)
		here, there := net.Pipe()
		go lines.serve(there)
		conn, hangUp = here, lines.end
	}
	var closing sync.Once
	leave := func() {
		closing.Do(func() {
			_ = conn.Close() // never an error
			hangUp()
		})
	}
	defer leave()
	c := &client{place: p, req: req, streams: s, shell: m, from: bufio.NewReaderSize(conn, framePiece), to: &frames{to: conn}}
	type reply struct {
		proof proof.Proof
		err   error
	}
	replied, began := make(chan reply, 1), make(chan bool, 1)
	go func() {
		got, err := c.talk(began)
		replied <- reply{got, err}
	}()
	var queue, over <-chan time.Time
	if p.Queue > 0 {
		queue = time.After(p.Queue)
	}
	for {
		select {
		case r := <-replied:
			return r.proof, r.err
		case <-began:
			queue = nil
			if req.Task.Timeout > 0 {
				over = time.After(req.Task.Timeout + answerDelay)
			}
		case <-queue:
			return proof.Proof{}, &Error{IDQueue, fmt.Sprintf("%s did not start the program within %s", p.Name, p.Queue),
				"wait longer: --queue-timeout"}
		case <-over:
			leave()
			cancelJob(ctx, m, p, c.started)
			return proof.Proof{}, &Error{IDTimeout, fmt.Sprintf("%s sent no result within %s", p.Name, req.Task.Timeout+answerDelay),
				"look at that machine"}
		case <-ctx.Done():
			return proof.Proof{}, ctx.Err()
		}
	}
}

// cancelJob cancels the Slurm job of a program that was lost with its node: srun cannot end it, and it would hold the GPU.
func cancelJob(ctx context.Context, m *session.Machine, p proof.Place, at host) {
	if at.Slurm == "" || m.Host.Base(p.Command[0]) != "srun" {
		return
	}
	id := at.Slurm
	if m.Host.Env.Get("SLURM_JOB_ID") == "" { // a job of its own, not a step of ours
		id, _, _ = strings.Cut(id, ".")
	}
	scancel, err := m.Host.LookPath("scancel")
	if err == nil {
		_, err = m.Runner.Run(ctx, buildenv.Cmd{Path: scancel, Args: []string{id}, Env: m.Host.Env.Entries(), Timeout: time.Minute})
	}
	if err != nil {
		m.Shell.Warning("the Slurm job %s may still hold its GPU: %v", id, err)
	}
}

// client is a program's side of a line.
type client struct {
	place   proof.Place
	req     request
	streams proof.Streams
	shell   *session.Machine
	from    *bufio.Reader
	to      *frames
	started host
}

// talk sends what the other side lacks, passes the program's streams on, and returns the result.
func (c *client) talk(began chan<- bool) (proof.Proof, error) {
	var none proof.Proof
	if err := c.to.sendJSON(frameRequest, c.req); err != nil {
		return none, &Error{IDIncomplete, c.place.Name + ": " + errEnded.Error(), ""}
	}
	for {
		kind, content, err := readFrame(c.from, true)
		if err != nil {
			return none, &Error{IDIncomplete, c.place.Name + ": " + errEnded.Error(), ""}
		}
		switch kind {
		case frameMissing:
			var sums []string
			if err := json.Unmarshal(content, &sums); err != nil {
				return none, err
			}
			if err := c.sendFiles(sums); err != nil {
				return none, err
			}
		case frameStarted:
			if err := json.Unmarshal(content, &c.started); err != nil {
				return none, err
			}
			c.shell.Shell.Status("Running", "on %s", c.started)
			began <- true
			go c.input()
		case frameOut:
			_, err = c.streams.Out.Write(content)
		case frameErr:
			_, err = c.streams.Err.Write(content)
		case frameResult:
			var kept proof.Kept
			if err := json.Unmarshal(content, &kept); err != nil {
				return none, &Error{IDIncomplete, c.place.Name + " sent a result that cannot be read: " + err.Error(), ""}
			}
			return judged(c.shell, c.req, c.started, kept)
		case frameRefusal, frameLost:
			var r refusal
			if err := json.Unmarshal(content, &r); err != nil {
				return none, err
			}
			if kind == frameLost {
				return none, &Error{r.ID, r.What, r.Fix}
			}
			return none, &Error{cmp.Or(r.ID, IDIncomplete), c.place.Name + ": " + r.What, r.Fix}
		default:
			err = &Error{IDIncomplete, fmt.Sprintf("%s sent something unknown (%q)", c.place.Name, kind), ""}
		}
		if err != nil {
			return none, err
		}
	}
}

// sendFiles sends the files of these sums.
func (c *client) sendFiles(sums []string) error {
	var files []file
	size := int64(0)
	for _, sum := range sums {
		i := slices.IndexFunc(c.req.Files, func(f file) bool { return f.SHA256 == sum })
		if i < 0 {
			return &Error{IDIncomplete, fmt.Sprintf("%s asks for a file that is not part of the program", c.place.Name), ""}
		}
		files, size = append(files, c.req.Files[i]), size+c.req.Files[i].Size
	}
	if len(files) > 0 {
		c.shell.Shell.Status("Sending", "%d files, %s to %s", len(files), tree.Size(size), c.place.Name)
	}
	for _, f := range files {
		if err := c.to.send(frameFile, []byte(f.SHA256)); err != nil {
			return errEnded
		}
		if err := f.copy(stream{c.to, frameData}); err != nil {
			return err
		}
		if err := c.to.send(frameFileEnd, nil); err != nil {
			return errEnded
		}
	}
	return nil
}

// copy writes a file as long as it was when it was hashed.
func (f file) copy(to io.Writer) error {
	in, err := os.Open(f.from)
	if err != nil {
		return err
	}
	defer in.Close()
	n, err := io.CopyBuffer(struct{ io.Writer }{to}, io.LimitReader(in, f.Size), make([]byte, framePiece))
	switch {
	case err != nil:
		return errEnded
	case n != f.Size:
		return fmt.Errorf("%s became shorter while it was sent", f.from)
	}
	return nil
}

// input passes on what the program is to read.
func (c *client) input() {
	if c.streams.In != nil {
		// The program may end first: then nobody takes the rest.
		_, _ = io.CopyBuffer(struct{ io.Writer }{stream{c.to, frameInput}}, struct{ io.Reader }{c.streams.In}, make([]byte, framePiece))
	}
	_ = c.to.send(frameInput, nil) // as above
}
