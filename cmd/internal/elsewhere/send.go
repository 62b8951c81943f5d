package elsewhere

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/regular"
	"gpubuild/cmd/internal/config"
	"gpubuild/cmd/internal/proof"
	"gpubuild/cmd/internal/session"
	"gpubuild/gpu/runs"
	"gpubuild/toolchain/install/tree"
)

// Send runs a task at a place. A program that ran has a proof, whatever it shows; an *Error is why there is none.
func Send(ctx context.Context, m *session.Machine, to proof.Place, t proof.Task, s proof.Streams) (proof.Proof, error) {
	p, leave, err := Open(ctx, m, &to)
	if err != nil {
		return proof.Proof{}, err
	}
	defer leave()
	req, err := prepare(ctx, m, *p, t)
	if err != nil {
		return proof.Proof{}, err
	}
	for left := p.Retry; ; left-- {
		got, err := once(ctx, m, *p, req, s)
		e, lost := errors.AsType[*Error](err)
		if !lost || left <= 0 || e.ID == IDRefused || e.ID == IDQueue {
			return got, err
		}
		m.Shell.Note("%s; once more (%sretry-lost)", e.What, p.Prefix)
	}
}

func once(ctx context.Context, m *session.Machine, p proof.Place, req request, s proof.Streams) (proof.Proof, error) {
	conn, err := net.Dial("unix", p.Socket)
	if err != nil {
		return proof.Proof{}, err
	}
	defer conn.Close()
	leave := func() { _ = conn.Close() } // never an error
	defer context.AfterFunc(ctx, leave)()
	c := &client{place: p, req: req, streams: s, shell: m, conn: conn, to: &frames{to: conn},
		queue: time.AfterFunc(cmp.Or(p.Queue, math.MaxInt64), leave)}
	got, err := c.talk(bufio.NewReader(conn))
	switch late := !c.queue.Stop(); {
	case ctx.Err() != nil:
		err = ctx.Err()
	case c.started == "" && late:
		err = &Error{IDQueue, fmt.Sprintf("%s did not start the program within %s", p.Name, p.Queue),
			"wait longer: " + p.Prefix + "queue-timeout"}
	case errors.Is(err, errEnded):
		err = &Error{IDIncomplete, "the connection to " + p.Name + " ended before the result came", ""}
	}
	return got, err
}

// client is one program's side of a connection.
type client struct {
	place   proof.Place
	req     request
	streams proof.Streams
	shell   *session.Machine
	conn    net.Conn
	to      *frames
	queue   *time.Timer // closes conn
	started string      // where
}

// talk sends what the other side lacks, passes the program's streams on, and returns the result.
func (c *client) talk(from *bufio.Reader) (proof.Proof, error) {
	var none proof.Proof
	_ = c.to.sendJSON(frameRequest, c.req) // where the link is lost it says why
	sent := make(chan error, 1)
	for {
		kind, content, err := readFrame(from)
		if err != nil {
			select {
			case err = <-sent:
			default:
				err = nil
			}
			return none, cmp.Or(err, errEnded)
		}
		var sums []string
		var kept proof.Proof
		var refused Error
		var gpus []runs.Target
		into, holds := map[byte]any{frameMissing: &sums, frameResult: &kept, frameRefusal: &refused,
			frameLost: &refused, frameGPUs: &gpus}[kind]
		if holds && json.Unmarshal(content, into) != nil {
			return none, &Error{IDIncomplete, c.place.Name + " sent something that cannot be read", ""}
		}
		switch kind {
		case frameGPUs:
			var refused Error
			program := slices.IndexFunc(c.req.Files, func(f file) bool { return f.Name == c.req.Task.Binary })
			if refused.What, refused.Fix, err = proof.NoKernelRuns(c.shell, c.req.Files[program].From, gpus); refused.What != "" {
				return none, &Error{IDRefused, c.place.Name + ": " + refused.What, refused.Fix}
			}
		case frameMissing:
			go func() { // what the other side says is read meanwhile: it may refuse them, with a full disk
				if err := c.sendFiles(sums); err != nil {
					sent <- err
					_ = c.conn.Close() // the other side sees the end of its input; never an error
				}
			}()
		case frameStarted:
			c.started = string(content)
			c.shell.Shell.Status("Running", "on %s", c.started)
			c.queue.Stop()
			go c.input()
		case frameOut:
			_, err = c.streams.Out.Write(content)
		case frameErr:
			_, err = c.streams.Err.Write(content)
		case frameResult:
			return judged(c.shell, c.req, c.started, kept)
		case frameRefusal:
			id := IDIncomplete
			if c.started == "" {
				id = IDRefused
			}
			return none, &Error{cmp.Or(refused.ID, id), c.place.Name + ": " + refused.What, refused.Fix}
		case frameLost:
			return none, &refused
		}
		if err != nil {
			return none, err
		}
	}
}

func (c *client) sendFiles(sums []string) error {
	files, size := map[string]file{}, int64(0)
	for _, f := range c.req.Files {
		files[f.SHA256] = f
	}
	for _, sum := range sums {
		f, is := files[sum]
		if !is {
			return &Error{IDIncomplete, fmt.Sprintf("%s asked for a file that it was not offered: %.64q", c.place.Name, sum), ""}
		}
		size += f.Size
	}
	if len(sums) > 0 {
		c.shell.Shell.Status("Sending", "%s to %s", tree.Size(size), c.place.Name)
	}
	for _, sum := range sums {
		if err := copyFile(files[sum], c.conn); err != nil {
			return err
		}
	}
	return nil
}

// copyFile writes a file as long as it was when it was hashed.
func copyFile(f file, to io.Writer) error {
	in, err := regular.Open(f.From)
	if err != nil {
		return err
	}
	defer in.Close()
	if _, err = io.CopyN(to, in, f.Size); errors.Is(err, io.EOF) {
		err = fmt.Errorf("%s became shorter while it was sent", f.From)
	}
	return err
}

// input passes on what the program is to read.
func (c *client) input() {
	if c.streams.In != nil {
		_, _ = io.Copy(stream{c.to, frameInput}, c.streams.In) // the program may end first: then nobody takes the rest
	}
	_ = c.to.send(frameInput, nil) // as above
}

// prepare lists what a task needs there: a bundle, and what the user sends.
func prepare(ctx context.Context, m *session.Machine, p proof.Place, t proof.Task) (request, error) {
	h := m.Host
	limit, err := config.ParseSize(p.Limit)
	if err != nil {
		return request{}, err
	}
	req, err := collect(ctx, m, p, t)
	if err != nil {
		return req, err
	}
	t.Binary, t.CUPTI, t.Others, t.Probe = req.Task.Binary, req.Task.CUPTI, req.Task.Others, req.Task.Probe
	req.Task, req.Limit = t, limit
	root := h.Real(h.Abs(p.Root))
	if dir, err := filepath.Rel(root, h.Real(h.Cwd)); err == nil && filepath.IsLocal(dir) {
		req.Task.Dir = filepath.ToSlash(dir)
	}
	var work []file
	for _, name := range p.Send {
		if work, err = sent(m, root, name, work); err != nil {
			return req, err
		}
	}
	slices.SortFunc(work, func(a, b file) int { return strings.Compare(a.Name, b.Name) }) // one --send may be below another
	req.Files = append(req.Files, slices.Compact(work)...)
	for _, v := range h.Env.Entries() { // what cargo and nextest set for this program
		if p.Passed != nil && !slices.Contains(p.Passed, v) {
			req.Env = append(req.Env, v)
		}
	}
	for _, name := range p.SendEnv {
		value, set := h.Env.Lookup(name)
		if !set {
			return req, &exit.UsageError{What: name + " is not set here, which " + p.Prefix + "send-env names", Fix: "set it, or leave the flag out"}
		}
		req.Env = append(req.Env, name+"="+value)
	}
	for _, text := range slices.Concat(t.Args, req.Env) {
		if !utf8.ValidString(text) { // JSON would change it
			return req, &exit.UsageError{What: fmt.Sprintf("%.99q is not UTF-8 and cannot be sent", text), Fix: "use UTF-8"}
		}
	}
	return req, nil
}

// sent adds the files of one --send: a file, or everything below a directory, at the same place below the directory of the run.
func sent(m *session.Machine, root, name string, out []file) ([]file, error) {
	from := m.Host.Real(m.Host.Abs(name))
	if rel, err := filepath.Rel(root, from); err != nil || !filepath.IsLocal(rel) {
		return nil, &exit.UsageError{What: fmt.Sprintf("--send %s is not below %s, so the program would not find it there", name, root),
			Fix: "copy it below that directory"}
	}
	err := filepath.WalkDir(from, func(name string, d os.DirEntry, err error) error {
		target := m.Host.Real(name) // a link to a file that is sent, too, is sent as that file
		if info, gone := os.Stat(target); err != nil || gone != nil || !info.Mode().IsRegular() || !m.Host.Below(target, from) {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		f, err := sized(m, file{Name: path.Join("work", filepath.ToSlash(rel)), From: name})
		out = append(out, f)
		return err
	})
	if err != nil {
		return nil, &exit.UsageError{What: "--send " + name + ": " + err.Error(), Fix: "name a file or a directory that can be read"}
	}
	return out, nil
}
