// Package elsewhere runs programs on another machine under the probe, and brings their verdicts back.
//
// Open starts the place's command (ssh, srun, or one of the user's) once for all programs of a run, with a shell script behind it. Over its
// standard input travel a gpubuild and, for each program, a stream of its own (smux): frames of one byte (kind), four bytes (length,
// big-endian) and the content, and the files that the other side lacks, which it keeps by their SHA-256. Serve is the gpubuild there.
// Programs that cargo or nextest start reach Open's process by a socket. What came back is judged here, as a program of this machine is.
// Limits: the place has the architecture of this machine, and passes on bytes unchanged (no terminal, no labels).
package elsewhere

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/xtaci/smux"

	"gpubuild/buildenv"
	"gpubuild/cmd/internal/console"
	"gpubuild/cmd/internal/proof"
	"gpubuild/cmd/internal/session"
	"gpubuild/toolchain/explain"
	"gpubuild/toolchain/loader"
)

// bootstrap gets a gpubuild onto the other side, where it is kept by its SHA-256, and becomes it. It needs sh, mkdir, head, mv, rm and
// uname. It is sent as one line: ssh gives it to the user's shell first, and csh takes no line feed in a quoted word.
var bootstrap = strings.ReplaceAll(`umask 077;
n=%s h=%s z=%d d=%s;
[ -n "$d" ] || d=${GPUBUILD_CACHE:-${XDG_CACHE_HOME:-${HOME:-/nonexistent}/.cache}/gpubuild}/elsewhere;
if ! [ -d "$d" ] && ! mkdir -p "$d" 2>/dev/null || ! [ -w "$d" ]; then
	d=${TMPDIR:-/tmp}/gpubuild-elsewhere-$(id -u);
	mkdir -p "$d" && [ -O "$d" ] || exit 96;
fi;
b=$d/$h/gpubuild t=$d/$h/gpubuild.$$;
if [ -x "$b" ]; then s=have; else s=send; fi;
{ read -r a </proc/sys/kernel/arch; } 2>/dev/null || a=$(uname -m);
echo;
echo "`+greeting+` $n $s $a -${SLURM_JOB_ID:-}.${SLURM_STEP_ID:-}";
if [ $s = send ]; then
	mkdir -p "$d/$h" && head -c $z >"$t" && [ "$(wc -c <"$t")" -eq $z ] && chmod 700 "$t" && mv -f "$t" "$b" || { rm -f "$t"; exit 97; };
fi;
exec "$b" `+Word+` "$n" "$h" "$d"`, "\n", " ")

// How long a place is waited for.
const (
	waitingPeriod = 30 * time.Second // how often the wait is reported
	loginLimit    = 5 * time.Minute  // without any output, where a person may have to answer a login
	limitsInAll   = 10               // one that goes on printing has this many limits
	longestLine   = 1000             // of its stderr; a longer one is shown in pieces
	mostLines     = 200              // of its stderr; nobody reads more of a login's or a queue's words
)

// Open listens for the programs of a run. Its place's command is started when the first one comes, and again for the next one after it was
// lost; all programs go through it at once, each with its own number. leave ends it.
func Open(ctx context.Context, m *session.Machine, to *proof.Place) (connected *proof.Place, leave func(), err error) {
	if to == nil || to.Socket != "" {
		return to, func() {}, nil
	}
	p := *to
	o := &opened{m: m, place: p}
	if o.self, err = sized(m, file{From: m.Self}); err != nil {
		return nil, nil, err
	}
	temporary := os.TempDir()
	if len(temporary) > 60 { // a socket's path has 107 bytes at most, unix(7)
		temporary = "/tmp"
	}
	dir, err := os.MkdirTemp(temporary, "gpubuild-on-")
	if err != nil {
		return nil, nil, err
	}
	p.Socket = filepath.Join(dir, "link")
	if path.Base(p.Command[0]) == "srun" { // it passes its environment on, which then is that of this process
		p.Passed = m.Host.Env.Entries()
	}
	listener, err := net.Listen("unix", p.Socket)
	if err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(dir))
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go o.serve(ctx, conn)
		}
	}()
	return &p, func() {
		_ = listener.Close() // never an error
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.link != nil {
			o.link.leave()
		}
		_ = os.RemoveAll(dir) // its own
	}, nil
}

// opened is a place for the programs of a run.
type opened struct {
	m     *session.Machine
	place proof.Place
	self  file
	mu    sync.Mutex
	link  *link // the newest
}

// serve takes one program's frames to the other side and back, and says why nothing more comes.
func (o *opened) serve(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	to := &frames{to: conn}
	l, err := o.join(ctx)
	if err != nil {
		_ = to.sendJSON(frameLost, err) // its sender may be gone
		return
	}
	left := make(chan bool)
	if stream := l.stream(); stream != nil {
		go func() {
			_, _ = io.Copy(struct{ io.Writer }{stream}, conn) // until the sender is gone, or the link lost
			_ = stream.Close()                                // the program there is ended
			_, _ = io.Copy(io.Discard, conn)
			close(left)
		}()
		for in := bufio.NewReader(stream); ; {
			kind, content, err := readFrame(in)
			if err == nil {
				err = to.send(kind, content)
			}
			if err != nil {
				break
			}
		}
	}
	select {
	case <-left:
	case <-l.over:
		_ = to.sendJSON(frameLost, l.why)
	}
}

// join is the link, which is started where there is none.
func (o *opened) join(ctx context.Context) (*link, *Error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.link != nil {
		select {
		case <-o.link.over:
		default:
			return o.link, nil
		}
	}
	l, err := start(ctx, o.m, o.place, o.self)
	if err == nil {
		o.link = l
	}
	return l, err
}

// link is one start of a place's command.
type link struct {
	m       *session.Machine
	place   proof.Place
	self    file
	nonce   string
	from    *bufio.Reader
	stdin   io.WriteCloser
	said    *explain.Tail // on stderr, and on stdout before the greeting
	heard   signs         // something came before the greeting
	greeted signs         // the shell there answered; then each time that it takes a part of gpubuild
	step    string        // Slurm's name of it, or a point
	job     string        // the name of the Slurm job, where srun makes one of its own
	kill    func(why error)
	session *smux.Session
	ready   chan struct{} // closed when the other side is
	begun   chan struct{} // closed when something has come of the session
	over    chan struct{} // closed at the end
	why     *Error        // of the end
}

func start(ctx context.Context, m *session.Machine, p proof.Place, self file) (*link, *Error) {
	command, err := m.Host.LookPath(p.Command[0])
	if m.Host.IsAbs(p.Command[0]) {
		command, err = p.Command[0], nil
	}
	if err != nil {
		return nil, &Error{IDUnreachable, p.Command[0] + ", which reaches " + p.Name + ", is not on PATH", "install it"}
	}
	nonce := rand.Text()
	words := []string{"sh", "-c", fmt.Sprintf(bootstrap, nonce, self.SHA256, self.Size, buildenv.PosixWords(p.Dir))}
	if p.Joined {
		words = []string{buildenv.PosixWords(words...)}
	}
	stdin, toThere := io.Pipe()
	fromThere, stdout := io.Pipe()
	said := &explain.Tail{}
	running, kill := context.WithCancelCause(context.WithoutCancel(ctx))
	l := &link{m: m, place: p, self: self, nonce: nonce, from: bufio.NewReader(fromThere), stdin: toThere, said: said, kill: kill,
		heard: make(signs, 1), greeted: make(signs, 1), ready: make(chan struct{}), begun: make(chan struct{}), over: make(chan struct{})}
	env := m.Host.Env
	if path.Base(command) == "srun" && env.Get("SLURM_JOB_ID") == "" { // --job-name among the user's words is stronger
		l.job = "gpubuild-" + nonce
		env = env.Set("SLURM_JOB_NAME", l.job)
	}
	shown := &shownLines{shell: m.Shell, by: path.Base(command)}
	m.Shell.Status("Starting", "on %s", p.Name)
	ended := make(chan error, 1)
	go l.wait()
	go func() {
		err := l.talk()
		_ = toThere.Close() // the other side sees the end of its input; never an error
		defer l.killLater().Stop()
		ended <- err
		_, _ = io.Copy(io.Discard, fromThere) // a command that cannot write does not end
	}()
	go func() {
		// How the command ends is no part of a verdict: what came back is.
		res, err := m.Runner.Run(running, buildenv.Cmd{Path: command, Args: slices.Concat(p.Command[1:], words), Env: env.Entries(),
			Stdin: stdin, Stdout: io.MultiWriter(l.heard, stdout), Stderr: io.MultiWriter(l.heard, shown, said),
			Grace: buildenv.ProgramGrace}) // srun gives its job back
		if err != nil && res.Code == 0 {
			res.Code = -1
		}
		shown.end()
		_ = stdin.Close() // neither is ever an error
		_ = stdout.Close()
		given := running.Err() != nil
		if errors.Is(err, fs.ErrNotExist) {
			kill(&Error{IDUnreachable, p.Command[0] + ", which reaches " + p.Name + ", is not there", "install it"})
		}
		kill(nil)
		why, known := errors.AsType[*Error](<-ended)
		if given && l.session == nil { // srun may have got a job, and ended before it knew of it
			l.cancel()
		}
		if !known { // else the command was only slow to end
			why, known = errors.AsType[*Error](context.Cause(running))
		}
		if l.why = why; !known {
			l.why = l.lost(res)
		}
		close(l.over)
	}()
	return l, nil
}

// wait reports that the place has not started gpubuild yet, and gives up one that says nothing.
func (l *link) wait() {
	began, limit, flag := time.Now(), l.place.Connect, "connect-timeout"
	switch {
	case limit > 0:
	case slices.ContainsFunc(l.place.Command, func(word string) bool { // it may wait for as long as a cluster's queue takes
		return slices.Contains([]string{"srun", "salloc", "kubectl", "oc"}, path.Base(word))
	}):
		limit, flag = math.MaxInt64, "queue-timeout"
	case l.m.Shell.ErrTerminal:
		limit = loginLimit
	default:
		limit = silence
	}
	still, quiet, all := time.NewTicker(waitingPeriod), time.NewTimer(limit), time.NewTimer(min(limit, math.MaxInt64/limitsInAll)*limitsInAll)
	defer still.Stop()
	heard, greeted, ready, what := l.heard, l.greeted, l.ready, "has not answered: nothing came from it for"
	for {
		select {
		case <-l.begun:
			return
		case <-l.over:
			return
		case <-ready: // a program's request goes there at once, and is confirmed as soon as it is read
			heard, greeted, ready = nil, nil, nil // the greeting may be seen after this
			limit, what = cmp.Or(l.place.Connect, silence), "started gpubuild, which does not answer: nothing came from it for"
			all.Stop()
			still.Stop()
			quiet.Reset(limit)
			continue
		case <-still.C:
			l.m.Shell.Alert("Waiting", "for %s: it has not started after %s (%s%s limits this)", l.place.Name,
				time.Since(began).Round(time.Second), l.place.Prefix, flag)
			continue
		case <-heard:
			quiet.Reset(limit)
			continue
		case <-greeted: // it has begun, and needs to print nothing more: what counts is that it takes the gpubuild that is sent
			heard, limit, what = nil, cmp.Or(l.place.Connect, silence), "began, but did not start gpubuild: nothing happened for"
			all.Stop()
			quiet.Reset(limit)
			continue
		case <-all.C:
			limit *= limitsInAll
			what = "prints, but has not answered for"
		case <-quiet.C:
		}
		l.kill(&Error{IDUnreachable, fmt.Sprintf("%s %s %s", l.place.Name, what, limit),
			fmt.Sprintf("try it by hand: %s\n      %sconnect-timeout 10m waits longer", l.byHand(), l.place.Prefix)})
		return
	}
}

// byHand is the place's command as it can be pasted.
func (l *link) byHand() string { return buildenv.Words(l.m.Host.OS, l.place.Command...) }

// killLater kills the command if it does not end.
func (l *link) killLater() *time.Timer {
	return time.AfterFunc(buildenv.ProgramGrace+2*time.Second, func() { l.kill(nil) })
}

// signs notes that something was written.
type signs chan bool

func (s signs) Write(p []byte) (int, error) {
	select {
	case s <- true:
	default:
	}
	return len(p), nil
}

// shownLines shows a person what a place's command writes to stderr (a login's address, why Slurm waits) as lines of gpubuild's own: such
// bytes cannot steer a terminal.
type shownLines struct {
	shell *console.Shell
	by    string
	line  []byte
	shown int
}

func (s *shownLines) Write(p []byte) (int, error) {
	for _, b := range p {
		if b == '\n' || b == '\r' || len(s.line) == longestLine {
			s.end()
		}
		s.line = append(s.line, b)
	}
	return len(p), nil
}

func (s *shownLines) end() {
	if text := strings.TrimSpace(string(s.line)); text != "" {
		if s.shown++; s.shown <= mostLines {
			s.shell.Alert(s.by, "%s", text)
		} else if s.shown == mostLines+1 {
			s.shell.Note("what else %s prints is not shown", s.by)
		}
	}
	s.line = s.line[:0]
}

// talk greets the other side and returns why the connection ended.
func (l *link) talk() error {
	err := l.greet()
	if err != nil {
		return err
	}
	from := bufio.NewReader(&opening{l.from, sync.OnceFunc(func() { close(l.begun) })})
	if l.session, err = smux.Client(&lines{from: from, to: l.stdin, gone: func() {}}, multiplexed(silence)); err != nil {
		return err
	}
	defer l.session.Close() // what it is made of has ended; never an error
	close(l.ready)
	_, err = l.session.AcceptStream() // none comes: this is the end
	switch {
	case errors.Is(err, smux.ErrInvalidProtocol):
		return changed(l.place.Name)
	case l.session.IsClosed():
		l.cancel()
		return &Error{IDIncomplete, fmt.Sprintf("nothing came from %s for %s", l.place.Name, silence),
			l.place.Prefix + "retry-lost 1 runs such programs again"}
	}
	return errEnded
}

// opening notes that something was read.
type opening struct {
	io.Reader
	came func()
}

func (o *opening) Read(p []byte) (n int, err error) {
	if n, err = o.Reader.Read(p); n > 0 {
		o.came()
	}
	return n, err
}

// cancel cancels the Slurm job that was lost with its node, or the step of our own job: srun cannot end it, and it would hold the GPU.
func (l *link) cancel() {
	id, _, _ := strings.Cut(l.step, ".")
	switch {
	case id == "" && l.job == "":
		return
	case id == "":
		id = "--name=" + l.job
	case l.m.Host.Env.Get("SLURM_JOB_ID") != "":
		id = l.step
	}
	scancel, err := l.m.Host.LookPath("scancel")
	if err == nil {
		_, err = l.m.Runner.Run(context.Background(), buildenv.Cmd{Path: scancel, Args: []string{id}, Env: l.m.Host.Env.Entries(),
			Timeout: time.Minute})
	}
	if err != nil {
		l.m.Shell.Warning("the Slurm job %s may still hold its GPU: %v", id, err)
	}
}

// stream is one more program's; nil: the link was lost.
func (l *link) stream() io.ReadWriteCloser {
	select {
	case <-l.ready:
		if s, err := l.session.OpenStream(); err == nil {
			return s
		}
	case <-l.over:
	}
	return nil
}

// leave ends the other side: it is asked to, unless it has not begun, then the command is.
func (l *link) leave() {
	select {
	case <-l.ready:
		_ = l.stdin.Close() // the other side sees the end of its input; never an error
		defer l.killLater().Stop()
	default:
		l.kill(nil)
	}
	<-l.over
}

// changed is what came back in another form.
func changed(place string) *Error {
	return &Error{IDIncomplete, place + ": what came back was changed on the way: the command must pass on bytes as they are " +
		"(no terminal, no --label)", "leave such flags out of its command"}
}

// errEnded is the end of the other side's output before a result.
var errEnded = errors.New("the connection ended")

// greet waits for the other side's shell, and gives it a gpubuild if it has none. Lines before that are a login's.
func (l *link) greet() error {
	for {
		text, err := l.from.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) { // a login's line may be longer
			return errEnded
		}
		line := string(text)
		words := strings.Fields(line)
		switch {
		case len(words) == 5 && words[0] == greeting && words[1] == l.nonce && !strings.Contains(line, "\r"):
			l.step = words[4][1:]
			here := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[l.m.Host.Arch] // as uname calls it
			if here != "" && here != words[3] {
				return &Error{IDRefused, fmt.Sprintf("%s is %s, and the program is for %s", l.place.Name, words[3], here),
					"build for that machine on one like it"}
			}
			_, _ = l.greeted.Write(nil)
			if words[2] == "send" {
				if err := copyFile(l.self, io.MultiWriter(l.stdin, l.greeted)); err != nil {
					return err
				}
			}
		case len(words) == 2 && words[0] == ready && words[1] == l.nonce:
			return nil
		case strings.Contains(line, greeting+" "+l.nonce):
			return changed(l.place.Name)
		default: // only the error of a command that ends quotes it, as nologin's
			_, _ = l.said.Write(text)
		}
	}
}

// lost is why a command ended without a result: it has its own codes, of which only ssh's says anything.
func (l *link) lost(res buildenv.Result) *Error {
	said := strings.Split(strings.TrimSpace(string(l.said.Text())), "\n")
	ended := fmt.Sprintf("%s ended with %d: %.200s", path.Base(l.place.Command[0]), res.Code, strings.TrimSpace(said[len(said)-1]))
	ended = strings.TrimSuffix(ended, ": ")
	needs := loader.NeedsGlibc(l.m.Self)
	refused := func(has string) *Error {
		return &Error{IDRefused, fmt.Sprintf("this gpubuild needs glibc %s, and %s has %s (%s)", needs, l.place.Name, has, ended),
			"`CGO_ENABLED=0 go build ./cmd/gpubuild` makes one that needs none"}
	}
	switch {
	case bytes.Contains(l.said.Text(), []byte("DUE TO TIME LIMIT")): // slurmstepd's words
		return &Error{IDTimeout, fmt.Sprintf("the time limit of the Slurm job ended it (%s)", l.place.Name),
			`[on.NAME] args = ["--time=60"] asks Slurm for an hour`}
	case l.session != nil:
		return &Error{IDIncomplete, fmt.Sprintf("the connection to %s ended before the result came (%s)", l.place.Name, ended),
			l.place.Prefix + "retry-lost 1 runs such programs again"}
	case l.step != "" && bytes.Contains(l.said.Text(), []byte("GLIBC_")): // the loader's words of a version that it lacks
		return refused("an older one")
	case l.step != "" && needs != "" && (res.Code == 127 || strings.HasSuffix(ended, "not found")): // musl: the shell misses glibc's loader
		return refused("none: it may be a musl system")
	case l.step != "":
		fix := "see whether there is room for files, whether programs may be run from its cache directory, and whether its glibc is " +
			"older than this gpubuild: one that is built with CGO_ENABLED=0 needs none"
		return &Error{IDRefused, fmt.Sprintf("%s did not start gpubuild (%s)", l.place.Name, ended), fix}
	}
	id, what := IDRefused, "started nothing"
	if (res.Code == 255 || res.Code < 0) && !bytes.Contains(l.said.Text(), []byte("Permission denied")) { // ssh's words of a key
		id, what = IDUnreachable, "cannot be reached"
	}
	return &Error{id, fmt.Sprintf("%s %s (%s)", l.place.Name, what, ended), "try it by hand: " + l.byHand()}
}
