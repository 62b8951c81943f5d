package elsewhere

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/exit"
	"gpubuild/cmd/internal/proof"
	"gpubuild/cmd/internal/session"
)

// Serve is the gpubuild on the other side: words are the nonce, its own SHA-256 and the directory of the store. What it finds, the result
// included, goes back in frames; its error is only for a connection that is gone.
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
	if err := m.Shell.Data(ready + " " + words[0] + "\n"); err != nil {
		return err
	}
	to := &frames{to: m.Shell.Out}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	err := (&server{m: m, store: store{words[2]}, to: to, from: bufio.NewReaderSize(m.Stdin, framePiece), stop: stop}).serve(ctx)
	if err == nil {
		return nil
	}
	if errors.Is(err, context.Canceled) {
		err = &Error{IDIncomplete, "gpubuild had to end there before the program did: a cancelled job, or its time limit", ""}
	}
	out := refusal{What: err.Error(), Fix: exit.Hint(err)}
	if e, is := errors.AsType[*Error](err); is {
		out.ID = e.ID
	}
	return to.sendJSON(frameRefusal, out)
}

// server runs one program.
type server struct {
	m     *session.Machine
	store store
	to    *frames
	from  *bufio.Reader
	stop  func()
}

func (s *server) serve(ctx context.Context) error {
	var req request
	kind, content, err := readFrame(s.from)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(content, &req); err != nil || kind != frameRequest {
		return fmt.Errorf("no request came: %q %w", kind, err)
	}
	if err := bounded(req.Files); err != nil {
		return err
	}
	if err := s.receive(ctx, req.Files); err != nil {
		return err
	}
	runs := filepath.Join(s.store.dir, "runs")
	if err := os.MkdirAll(runs, 0o700); err != nil {
		return err
	}
	at := hostOf(s.m.Host)
	dir, err := os.MkdirTemp(runs, runOf(at.Name)+"*")
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
	if why := req.Needs.TooOld(s.m.Host, at.Name); why != "" {
		return &Error{IDRefused, why, "build on a system as old as that one"}
	}
	at.Same = circumstances(s.m.Host, at, req.Env)
	if err := s.to.sendJSON(frameStarted, at); err != nil {
		return err
	}
	kept, err := s.run(ctx, dir, req, at)
	if err != nil {
		return err
	}
	if err := s.to.sendJSON(frameResult, kept); err != nil {
		return err
	}
	return s.store.prune(req.Limit, at.Name, time.Now())
}

// maxFiles is how many files one request may have.
const maxFiles = 200_000

// bounded checks a request's list before anything of it is asked for: how many files it has, and that each has a name of its own, a size
// and a SHA-256.
func bounded(files []file) error {
	if len(files) > maxFiles {
		return fmt.Errorf("the request has %d files, and at most %d are taken", len(files), maxFiles)
	}
	named := map[string]bool{}
	for _, f := range files {
		switch name := path.Clean(f.Name); {
		case !filepath.IsLocal(filepath.FromSlash(f.Name)):
			return fmt.Errorf("%.80q leads out of the run's directory", f.Name)
		case named[name]:
			return fmt.Errorf("the request has two files of the name %.80q", name)
		case !isSum(f.SHA256) || f.Size < 0:
			return fmt.Errorf("%.80q comes with the SHA-256 %.80q and %d bytes", f.Name, f.SHA256, f.Size)
		default:
			named[name] = true
		}
	}
	return nil
}

// receive asks for the files that the store has not, and takes them in: those that it asked for, each as long as the request says.
func (s *server) receive(ctx context.Context, files []file) error {
	missing := []string{}
	size := map[string]int64{} // of the files that are asked for and have not come
	for _, f := range files {
		if _, asked := size[f.SHA256]; !asked && !s.store.has(f.SHA256) {
			missing = append(missing, f.SHA256)
			size[f.SHA256] = f.Size
		}
	}
	if err := s.to.sendJSON(frameMissing, missing); err != nil {
		return err
	}
	var in *incoming
	for left := len(missing); left > 0; {
		kind, content, err := readFrame(s.from)
		switch {
		case err != nil:
		case ctx.Err() != nil:
			err = ctx.Err()
		case kind == frameFile && in == nil:
			if n, asked := size[string(content)]; asked {
				in, err = s.store.receive(string(content), n)
			} else {
				err = fmt.Errorf("a file came that nobody asked for: %.80q", content)
			}
		case kind == frameData && in != nil:
			err = in.add(content)
		case kind == frameFileEnd && in != nil:
			delete(size, in.sum)
			err, in, left = s.store.keep(in), nil, left-1
		default:
			err = fmt.Errorf("a frame %q came among the files", kind)
		}
		if err != nil {
			if in != nil {
				return errors.Join(err, in.drop())
			}
			return err
		}
	}
	return nil
}

// run runs the program with the streams of the connection. When that ends, the program does.
func (s *server) run(ctx context.Context, dir string, req request, at host) (proof.Proof, error) {
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
	in := func(p *string) {
		if *p != "" {
			*p = filepath.Join(dir, filepath.FromSlash(*p))
		}
	}
	for _, p := range []*string{&t.Binary, &t.CUPTI, &t.Probe.Library, &t.Probe.Control, &t.Probe.Watch} {
		in(p)
	}
	for i := range t.Others {
		in(&t.Others[i])
	}
	req.Earlier.use(&t, at)
	t.Dir = filepath.Join(dir, "work", filepath.FromSlash(t.Dir))
	if err := os.MkdirAll(t.Dir, 0o700); err != nil {
		return proof.Proof{}, err
	}
	input, feed := io.Pipe()
	go func() { s.listen(feed) }()
	return proof.Serve(ctx, &there, t, env, proof.Streams{In: input, Out: stream{s.to, frameOut}, Err: stream{s.to, frameErr}})
}

// listen hands the program its input, and ends it when the other side asks for that or is gone.
func (s *server) listen(feed *io.PipeWriter) {
	open := true
	for {
		kind, content, err := readFrame(s.from)
		switch {
		case err != nil:
			s.stop()
			_ = feed.Close() // never an error
			return
		case kind == frameInput && len(content) == 0:
			open = false
			_ = feed.Close() // never an error
		case kind == frameInput && open:
			if _, err := feed.Write(content); err != nil {
				open = false // the program does not read any more
			}
		}
	}
}

// hostOf names this machine and what runs it. Sources: srun(1), "OUTPUT ENVIRONMENT VARIABLES"; a pod's host name is its own.
func hostOf(h buildenv.Host) host {
	out := host{Slurm: h.Env.Get("SLURM_JOB_ID")}
	if step := h.Env.Get("SLURM_STEP_ID"); out.Slurm != "" && step != "" {
		out.Slurm += "." + step
	}
	name, _ := h.ReadFile("/proc/sys/kernel/hostname", 256) // without /proc it has none
	out.Name = strings.TrimSpace(string(name))
	if h.Env.Get("KUBERNETES_SERVICE_HOST") != "" {
		out.Pod = out.Name
	}
	if node := h.Env.Get("SLURMD_NODENAME"); node != "" {
		out.Name = node
	}
	return out
}
