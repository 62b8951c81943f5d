package elsewhere

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"gpubuild/buildenv"
	"gpubuild/cmd/internal/proof"
	"gpubuild/cmd/internal/session"
	"gpubuild/toolchain/loader"
)

// bootstrap gets a gpubuild onto the other side, where it is kept by its SHA-256, and becomes it. It needs sh, mkdir, head, mv, rm and
// uname.
const bootstrap = `umask 077
n=%s h=%s z=%d d=%s
[ -n "$d" ] || d=${GPUBUILD_CACHE:-${XDG_CACHE_HOME:-${HOME:-/nonexistent}/.cache}/gpubuild}/elsewhere
if ! mkdir -p "$d" 2>/dev/null || ! [ -w "$d" ]; then
	d=${TMPDIR:-/tmp}/gpubuild-elsewhere-$(id -u)
	mkdir -p "$d" && [ -O "$d" ] || exit 96
fi
mkdir -p "$d/$h"
b=$d/$h/gpubuild
s=send
if [ -x "$b" ] && [ "$(wc -c <"$b")" -eq $z ]; then s=have; fi
echo
echo "` + greeting + ` $n $s $(uname -m)"
if [ $s = send ]; then
	head -c $z >"$b.$$" && chmod 700 "$b.$$" && mv -f "$b.$$" "$b" || { rm -f "$b.$$"; exit 97; }
fi
exec "$b" ` + Word + ` "$n" "$h" "$d"`

// socketName is where the programs of a run find the lines, in the run's directory.
const socketName = "lines"

// Lines are the connections to a place. One that a program has left serves the next program of the run: each is a job or a login.
type Lines struct {
	ctx     context.Context
	close   context.CancelFunc
	machine *session.Machine
	place   proof.Place
	stderr  io.Writer // of the place's command
	free    chan *line
	open    sync.WaitGroup

	mu                sync.Mutex
	waiting, starting int
}

func newLines(ctx context.Context, m *session.Machine, p proof.Place, stderr io.Writer) *Lines {
	ctx, cancel := context.WithCancel(ctx)
	return &Lines{ctx: ctx, close: cancel, machine: m, place: p, stderr: stderr, free: make(chan *line, 1<<16)}
}

// Listen opens the lines of a run, whose programs find them in its directory, and answers how they are closed. Without them (a path that is
// too long for a socket) each program has a line of its own.
func Listen(ctx context.Context, m *session.Machine, p proof.Place, dir string) func() {
	socket, err := net.Listen("unix", filepath.Join(dir, socketName))
	if err != nil {
		return func() {}
	}
	lines := newLines(ctx, m, p, m.Shell.Err)
	go func() {
		for {
			program, err := socket.Accept()
			if err != nil {
				return
			}
			go lines.serve(program)
		}
	}()
	return func() {
		_ = socket.Close() // its file is in the run's directory
		lines.end()
	}
}

// end ends what runs there, and waits for it.
func (p *Lines) end() {
	p.close()
	p.open.Wait()
}

type frame struct {
	kind    byte
	content []byte
}

// serve connects one program with a line for as long as it needs it.
func (p *Lines) serve(program net.Conn) {
	defer program.Close()
	wanted := make(chan frame)
	go func() {
		defer close(wanted)
		from := bufio.NewReaderSize(program, framePiece)
		for {
			kind, content, err := readFrame(from, false)
			if err != nil {
				return
			}
			select {
			case wanted <- frame{kind, content}:
			case <-p.ctx.Done():
				return
			}
		}
	}()
	request, asked := <-wanted
	if !asked {
		return
	}
	l := p.take(wanted)
	if l == nil { // the program did not wait
		return
	}
	back := &frames{to: program, end: []byte{outputLineEnd}}
	err := l.err
	if err == nil {
		err = l.pass(request, wanted, back)
	}
	if err == nil {
		p.free <- l
		return
	}
	res := l.hangUp()
	if errors.Is(err, errEnded) {
		err = l.lost(res)
	}
	if e, is := errors.AsType[*Error](err); is {
		_ = back.sendJSON(frameLost, refusal{ID: e.ID, What: e.What, Fix: e.Fix}) // the program may be gone
	}
}

// take answers a line: one that is free, or the next that is. As many are started as programs wait. nil: the program is gone.
func (p *Lines) take(gone <-chan frame) *line {
	p.mu.Lock()
	p.waiting++
	if p.starting+len(p.free) < p.waiting {
		p.starting++
		go func() {
			l := p.dial()
			p.mu.Lock()
			defer p.mu.Unlock()
			p.starting--
			p.free <- l
		}()
	}
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.waiting--
	}()
	select {
	case l := <-p.free:
		return l
	case <-gone: // it sends nothing before its program has started
		return nil
	case <-p.ctx.Done():
		return nil
	}
}

// line is a connection to a gpubuild there.
type line struct {
	place   proof.Place
	self    file
	nonce   string
	from    *bufio.Reader
	out     io.ReadCloser  // from reads it
	raw     io.WriteCloser // nil: no command was started
	to      *frames
	said    *tail
	kill    func() // ends the command
	ended   chan struct{}
	result  buildenv.Result
	greeted atomic.Bool
	started host
	err     error // why there is no connection
}

// dial starts the place's command and waits until gpubuild runs there.
func (p *Lines) dial() *line {
	m := p.machine
	l := &line{place: p.place, ended: make(chan struct{})}
	fail := func(err error) *line {
		close(l.ended)
		l.err = err
		return l
	}
	self, err := sized(m, file{Name: "gpubuild", from: m.Self})
	if err != nil {
		return fail(err)
	}
	command, err := m.Host.LookPath(p.place.Command[0])
	if m.Host.IsAbs(p.place.Command[0]) {
		command, err = p.place.Command[0], nil
	}
	if err != nil {
		return fail(&Error{IDUnreachable, p.place.Command[0] + ", which reaches " + p.place.Name + ", is not on PATH", "install it"})
	}
	var random [8]byte
	_, _ = rand.Read(random[:]) // never an error
	l.self, l.nonce = self, hex.EncodeToString(random[:])
	words := []string{"sh", "-c", fmt.Sprintf(bootstrap, l.nonce, self.SHA256, self.Size, buildenv.PosixWords(p.place.Dir))}
	if p.place.Joined {
		words = []string{buildenv.PosixWords(words...)}
	}
	stdin, toThere := io.Pipe()
	fromThere, stdout := io.Pipe()
	l.said, l.out, l.raw, l.to = &tail{to: p.stderr, over: p.ctx.Done()}, fromThere, toThere, &frames{to: toThere}
	l.from = bufio.NewReaderSize(fromThere, framePiece)
	running, kill := context.WithCancel(context.WithoutCancel(p.ctx))
	l.kill = kill
	p.open.Add(1)
	go func() {
		defer p.open.Done()
		// How the command ends is no part of a verdict: what came back is.
		res, err := m.Runner.Run(running, buildenv.Cmd{
			Path: command, Args: slices.Concat(p.place.Command[1:], words), Env: m.Host.Env.Entries(),
			Stdin: stdin, Stdout: stdout, Stderr: l.said,
		})
		if err != nil && res.Code == 0 {
			res.Code = -1
		}
		_ = stdin.Close() // neither is ever an error
		_ = stdout.Close()
		l.result = res
		close(l.ended)
	}()
	context.AfterFunc(p.ctx, func() {
		if !l.greeted.Load() {
			kill() // it may wait in a queue
		}
		l.hangUp()
	})
	if l.err = l.greet(); errors.Is(l.err, errEnded) {
		<-l.ended
		l.err = l.lost(l.result)
	}
	return l
}

// hangUp ends the other side: it sees the end of its input, and has the time that a program has to end. Then the command is ended.
func (l *line) hangUp() buildenv.Result {
	if l.raw == nil {
		return l.result
	}
	_ = l.raw.Close() // never an error
	go func() {
		_, _ = io.Copy(io.Discard, l.out) // a command that cannot write does not end
	}()
	select {
	case <-l.ended:
	case <-time.After(buildenv.ProgramGrace + 2*time.Second):
		l.kill()
		_ = l.out.Close() // never an error
		<-l.ended
	}
	return l.result
}

// greet waits for the other side's shell, and gives it a gpubuild if it has none. Lines before that are a login's.
func (l *line) greet() error {
	for {
		text, err := l.from.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) { // a login's line may be longer
			return errEnded
		}
		said := string(text)
		words := strings.Fields(said)
		switch {
		case len(words) == 4 && words[0] == greeting && words[1] == l.nonce:
			l.greeted.Store(true)
			if here, ok := machineName(l.self.from); ok && here != words[3] {
				return &Error{IDRefused, fmt.Sprintf("%s is %s, and the program is for %s", l.place.Name, words[3], here),
					"build for that machine on one like it"}
			}
			if words[2] == "send" {
				if err := l.self.copy(l.raw); err != nil {
					return err
				}
			}
		case len(words) == 2 && words[0] == ready && words[1] == l.nonce:
			return nil
		case strings.Contains(said, greeting+" "+l.nonce):
			return &Error{IDIncomplete, l.place.Name + ": " + errChanged.Error(), "leave such flags out of its command"}
		case len(words) > 0:
			_, _ = l.said.Write(text) // it is only shown
		}
	}
}

// machineName is what uname calls the processor that a file is for.
func machineName(file string) (string, bool) {
	f, err := elf.Open(file)
	if err != nil {
		return "", false
	}
	defer f.Close()
	name, ok := map[elf.Machine]string{elf.EM_X86_64: "x86_64", elf.EM_AARCH64: "aarch64"}[f.Machine]
	return name, ok
}

// errEnded is the end of the other side's output before a result.
var errEnded = errors.New("the connection ended")

// pass passes on frames between a program and the other side until that has sent its result and the program is gone. Without an error the
// line serves another program.
func (l *line) pass(request frame, wanted <-chan frame, back *frames) error {
	replied := make(chan error, 1)
	go func() {
		for {
			kind, content, err := readFrame(l.from, true)
			switch {
			case errors.Is(err, errChanged):
				err = &Error{IDIncomplete, l.place.Name + ": " + err.Error(), "leave such flags out of its command"}
			case err != nil:
				err = errEnded
			case kind == frameStarted:
				err = json.Unmarshal(content, &l.started)
			case kind == frameRefusal:
				err = errors.New("refused")
			}
			if kind != 0 {
				_ = back.send(kind, content) // the program may be gone
			}
			if err != nil || kind == frameResult {
				replied <- err
				return
			}
		}
	}()
	if l.to.send(request.kind, request.content) != nil {
		return ended(replied)
	}
	for {
		select {
		case f, more := <-wanted:
			if !more {
				select {
				case err := <-replied: // it has its result
					if err == nil {
						err = l.to.send(frameStop, nil)
					}
					return err
				default:
					return errors.New("the program is gone")
				}
			}
			if l.to.send(f.kind, f.content) != nil {
				return ended(replied)
			}
		case err := <-replied:
			if err != nil {
				return err
			}
			for range wanted { // what is left of its input
			}
			return l.to.send(frameStop, nil)
		}
	}
}

// ended is why the other side cannot be written to: what it said last.
func ended(replied <-chan error) error { return cmp.Or(<-replied, errEnded) }

// lost is why a command ended without a result: it has its own codes, of which only ssh's says anything.
func (l *line) lost(res buildenv.Result) error {
	ended := fmt.Sprintf("%s ended with %d", path.Base(l.place.Command[0]), res.Code)
	if last := l.said.last(); last != "" {
		ended += ": " + last
	}
	byHand := "try it by hand: " + buildenv.PosixWords(l.place.Command...)
	switch {
	case l.started.Name != "":
		return &Error{IDIncomplete, fmt.Sprintf("the connection to %s ended before the result came (%s)", l.started, ended),
			"--retry-lost 1 runs such programs again"}
	case l.greeted.Load():
		fix := "see whether there is room for files, and whether programs may be run from its cache directory"
		if needs := loader.NeedsGlibc(l.self.from); needs != "" {
			fix = "this gpubuild needs glibc " + needs + " or newer there; one that is built with CGO_ENABLED=0 needs none"
		}
		return &Error{IDRefused, fmt.Sprintf("%s did not start gpubuild (%s)", l.place.Name, ended), fix}
	case res.Code == 255 || res.Code < 0:
		return &Error{IDUnreachable, fmt.Sprintf("%s cannot be reached (%s)", l.place.Name, ended), byHand}
	}
	return &Error{IDRefused, fmt.Sprintf("%s started nothing (%s)", l.place.Name, ended), byHand}
}

// tail passes on what a command says on stderr until the run is over, and keeps its end for an error.
type tail struct {
	to   io.Writer
	over <-chan struct{}
	kept []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p...)
	t.kept = t.kept[max(0, len(t.kept)-1024):]
	select {
	case <-t.over: // that srun was cancelled
		return len(p), nil
	default:
		return t.to.Write(p)
	}
}

func (t *tail) last() string {
	lines := bytes.Split(bytes.TrimSpace(t.kept), []byte("\n"))
	return strings.TrimSpace(string(lines[len(lines)-1]))
}
