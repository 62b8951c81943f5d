package elsewhere

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/xtaci/smux"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/lazyregexp"
	"gpubuild/cmd/internal/proof"
	"gpubuild/cmd/internal/session"
	"gpubuild/gpu/verify"
)

// Serve is the gpubuild on the other side: words are the nonce, its own SHA-256 and the directory of the store. What it finds goes back in
// frames, the results included; its error is of the store.
func Serve(ctx context.Context, m *session.Machine, words []string) error {
	if len(words) != 3 {
		return &exit.UsageError{What: Word + " is not for people", Fix: "gpubuild prove PROGRAM --on ssh:HOST"}
	}
	// The connection may go at any time; what was started must then be ended, which a SIGPIPE would not leave time for.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	if !checked(m.Self, words[1]) {
		_ = os.Remove(m.Self) // the next run sends it again
		return fmt.Errorf("%s was changed since it was sent", m.Self)
	}
	_ = os.Chtimes(m.Self+".seen", time.Time{}, time.Now()) // else it counts as used when it came
	if err := m.Shell.Data(ready + " " + words[0] + "\n"); err != nil {
		return err
	}
	// A sender that is stopped for a while (Ctrl-Z) is no lost one: that, only this process can see by the end of its input.
	ctx, stop := context.WithCancel(ctx)
	session, err := smux.Server(&lines{from: bufio.NewReader(m.Stdin), to: m.Shell.Out, gone: stop}, multiplexed(24*time.Hour))
	if err != nil {
		return err
	}
	s := &server{m: m, store: store{words[2]}}
	s.name, s.at = hostOf(m.Host)
	defer stop()
	go func() {
		for {
			stream, err := session.AcceptStream()
			if err != nil {
				stop()
				return
			}
			s.running.Go(func() { s.program(ctx, stream) })
		}
	}()
	<-ctx.Done()
	s.running.Wait()
	return s.store.prune(s.limit.Load(), s.name, time.Now())
}

// server runs the programs of a connection.
type server struct {
	m       *session.Machine
	name    string // of this machine
	at      string // with its Slurm job or pod
	store   store
	limit   atomic.Int64 // of the store
	running sync.WaitGroup
	taking  sync.Mutex // files: what two programs need is sent once
	earlier control
}

type program struct {
	*server
	to   *frames
	from *bufio.Reader
	stop func()
}

// program runs one, and says why it could not. Where it was ended nobody waits for that, or sees that the connection ends.
func (s *server) program(ctx context.Context, stream io.ReadWriteCloser) {
	defer stream.Close()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	p := &program{s, &frames{to: stream}, bufio.NewReader(stream), stop}
	err := p.serve(ctx)
	if err == nil || ctx.Err() != nil {
		return
	}
	out := Error{What: err.Error(), Fix: exit.Hint(err)}
	if e, is := errors.AsType[*Error](err); is {
		out.ID = e.ID
	}
	_ = p.to.sendJSON(frameRefusal, out) // the connection may be gone
}

func (s *program) serve(ctx context.Context) error {
	var req request
	kind, content, err := readFrame(s.from)
	if err != nil {
		return err
	}
	if kind != frameRequest {
		return fmt.Errorf("no request came, but a frame of kind %.200q", kind)
	}
	if err := json.Unmarshal(content, &req); err != nil {
		return fmt.Errorf("no request came: %w", err)
	}
	s.limit.Store(req.Limit)
	if req.Task.Judge {
		gpus, _ := proof.Here(ctx, s.m)
		for i := range gpus { // a forward-compatibility package takes more than the driver says
			if strings.Contains(s.m.Host.Env.Get("LD_LIBRARY_PATH"), "compat") || s.m.Host.IsDir("/usr/local/cuda/compat") {
				gpus[i].Driver = ""
			}
		}
		if err := s.to.sendJSON(frameGPUs, gpus); err != nil {
			return err
		}
	}
	if err := s.receive(req.Files); err != nil {
		return err
	}
	runs := filepath.Join(s.store.dir, "runs")
	if err := os.MkdirAll(runs, 0o700); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(runs, runOf(s.name)+"*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	lock := filepath.Join(dir, lockName)
	if free, err := cache.Lock(ctx, lock, nil); err == nil {
		defer func() { _ = free() }() // its file goes now
	} else {
		_ = os.Remove(lock) // a file system without locks: prune leaves the directory alone
	}
	for _, f := range req.Files {
		if err := s.store.place(f, dir); err != nil {
			return err
		}
	}
	if why := req.Needs.TooOld(s.m.Host, s.name); why != "" {
		return &Error{IDRefused, why, "build on a system as old as that one"}
	}
	if err := s.to.send(frameStarted, []byte(s.at)); err != nil {
		return err
	}
	kept, err := s.run(ctx, dir, req)
	if err != nil {
		return err
	}
	s.earlier.keep(kept.Evidence.Control, s.at, req.Env)
	return s.to.sendJSON(frameResult, kept)
}

// receive asks for the files that the store has not, and takes them in.
func (s *program) receive(files []file) error {
	s.taking.Lock()
	defer s.taking.Unlock()
	missing, size := []string{}, map[string]int64{}
	for _, f := range files {
		if _, asked := size[f.SHA256]; !asked && !s.store.has(f.SHA256) {
			missing = append(missing, f.SHA256)
			size[f.SHA256] = f.Size
		}
	}
	if err := s.to.sendJSON(frameMissing, missing); err != nil {
		return err
	}
	for _, sum := range missing {
		if err := s.store.receive(s.from, sum, size[sum]); err != nil {
			return err
		}
	}
	return nil
}

// run runs the program with the streams of the connection. When that ends, the program does.
func (s *program) run(ctx context.Context, dir string, req request) (proof.Proof, error) {
	h := s.m.Host
	there := *s.m
	shell := *s.m.Shell
	shell.Out, shell.Err, shell.Quiet = stream{s.to, frameErr}, stream{s.to, frameErr}, true
	there.Shell, there.CacheDir = &shell, filepath.Join(dir, "cache")
	if err := os.Mkdir(there.CacheDir, 0o700); err != nil {
		return proof.Proof{}, err
	}
	env := h.Env
	for _, v := range req.Env {
		name, value, _ := strings.Cut(v, "=")
		env = env.Set(name, value)
	}
	if lib := filepath.Join(dir, "lib"); h.IsDir(lib) {
		env = h.Apply(env, proof.AppendLibraries(h, lib))
	}
	t := req.Task
	paths := []*string{&t.Binary, &t.CUPTI, &t.Probe.Library, &t.Probe.Control, &t.Probe.Watch}
	for i := range t.Others {
		paths = append(paths, &t.Others[i])
	}
	for _, p := range paths {
		if *p != "" {
			*p = filepath.Join(dir, filepath.FromSlash(*p))
		}
	}
	s.earlier.use(&t, req.Env)
	t.Dir = filepath.Join(dir, "work", filepath.FromSlash(t.Dir))
	if err := os.MkdirAll(t.Dir, 0o700); err != nil {
		return proof.Proof{}, err
	}
	input, feed := io.Pipe()
	defer input.Close()
	go s.listen(feed)
	return proof.Serve(ctx, &there, t, env, proof.Streams{In: input, Out: stream{s.to, frameOut}, Err: stream{s.to, frameErr}})
}

// listen hands the program its input, and ends it when the other side is gone.
func (s *program) listen(feed *io.PipeWriter) {
	defer s.stop()
	defer feed.Close()
	for {
		_, content, err := readFrame(s.from) // frameInput
		switch {
		case err != nil:
			return
		case len(content) == 0:
			_ = feed.Close() // never an error
		default:
			_, _ = feed.Write(content) // an error where the program does not read any more
		}
	}
}

// hostOf names this machine, and with it what runs it. Sources: srun(1), "OUTPUT ENVIRONMENT VARIABLES"; a pod's host name is its own.
func hostOf(h buildenv.Host) (name, at string) {
	text, _ := h.ReadFile("/proc/sys/kernel/hostname", buildenv.System) // without /proc it has none
	name = cmp.Or(h.Env.Get("SLURMD_NODENAME"), strings.TrimSpace(string(text)))
	switch job, step := h.Env.Get("SLURM_JOB_ID"), h.Env.Get("SLURM_STEP_ID"); {
	case job != "":
		return name, strings.TrimSuffix(name+", Slurm job "+job+"."+step, ".")
	case h.Env.Get("KUBERNETES_SERVICE_HOST") != "":
		return name, name + ", pod " + name
	}
	return name, name
}

// control is one that was recorded for a program of this connection. It serves the later ones with the same variables, since it takes as
// long as a small program. No verdict rests on it alone: a kernel must be in the program's own record, and where a verdict rests on silence
// verify.Run records another control after the program.
type control struct {
	mu  sync.Mutex
	env []string
	verify.Control
}

// ofOneProgram are the variables that differ between the programs of a run, and that no CUDA driver reads.
var ofOneProgram = lazyregexp.New(`^(NEXTEST|CARGO)`)

func shared(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), ofOneProgram.MatchString)
}

// keep notes a control for the later programs.
func (c *control) keep(from verify.Control, at string, env []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if from.Outcome == verify.ControlRecorded && from.With == "" {
		c.Control, c.With, c.env = from, at, shared(env)
	}
}

// use gives a task the control, with the CUPTI that recorded it: its directory in the bundle is a number.
func (c *control) use(t *proof.Task, env []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	number := func(cupti string) string { return filepath.Base(filepath.Dir(cupti)) }
	for _, cupti := range append([]string{t.CUPTI}, t.Others...) {
		if c.Outcome != "" && slices.Equal(c.env, shared(env)) && cupti != "" && number(cupti) == number(c.Loaded.LibCUPTI) {
			t.Control, t.CUPTI, t.Others = c.Control, cupti, nil
			return
		}
	}
}
