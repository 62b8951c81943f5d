package elsewhere

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/cmd/internal/config"
	"gpubuild/cmd/internal/proof"
	"gpubuild/cmd/internal/session"
	"gpubuild/toolchain/install/tree"
	"gpubuild/toolchain/loader"
)

// bootstrap gets a gpubuild onto the other side, where it is kept by its SHA-256, and becomes it. It needs sh, mkdir, head, mv, rm and
// uname.
const bootstrap = `umask 077
n=%s h=%s z=%d d=%s
[ -n "$d" ] || d=${GPUBUILD_CACHE:-${XDG_CACHE_HOME:-${HOME:-/nonexistent}/.cache}/gpubuild}/elsewhere
if ! [ -d "$d" ] && ! mkdir -p "$d" 2>/dev/null || ! [ -w "$d" ]; then
	d=${TMPDIR:-/tmp}/gpubuild-elsewhere-$(id -u)
	mkdir -p "$d" && [ -O "$d" ] || exit 96
fi
b=$d/$h/gpubuild t=$d/$h/gpubuild.$$
if [ -x "$b" ]; then s=have; else s=send; fi
{ read -r a </proc/sys/kernel/arch; } 2>/dev/null || a=$(uname -m)
echo
echo "` + greeting + ` $n $s $a"
if [ $s = send ]; then
	mkdir -p "$d/$h" && head -c $z >"$t" && [ "$(wc -c <"$t")" -eq $z ] && chmod 700 "$t" && mv -f "$t" "$b" || { rm -f "$t"; exit 97; }
fi
exec "$b" ` + Word + ` "$n" "$h" "$d"`

// answerDelay is how long the other side may take, beyond the program's own time, to end it and to send the result.
const answerDelay = time.Minute

// waitingPeriod is how often a wait for the program's start is said.
const waitingPeriod = 30 * time.Second

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
		m.Shell.Note("%s; once more (%sretry-lost)", e.What, p.Prefix)
	}
}

// once is one try.
func once(ctx context.Context, m *session.Machine, p proof.Place, req request, s proof.Streams) (proof.Proof, error) {
	command, err := m.Host.LookPath(p.Command[0])
	if m.Host.IsAbs(p.Command[0]) {
		command, err = p.Command[0], nil
	}
	if err != nil {
		return proof.Proof{}, &Error{IDUnreachable, p.Command[0] + ", which reaches " + p.Name + ", is not on PATH", "install it"}
	}
	nonce := rand.Text()
	words := []string{"sh", "-c", fmt.Sprintf(bootstrap, nonce, req.self.SHA256, req.self.Size, buildenv.PosixWords(p.Dir))}
	if p.Joined {
		words = []string{buildenv.PosixWords(words...)}
	}
	stdin, toThere := io.Pipe()
	fromThere, stdout := io.Pipe()
	said := &tail{to: s.Err}
	running, kill := context.WithCancel(context.WithoutCancel(ctx))
	defer kill()
	ended := make(chan buildenv.Result, 1)
	go func() {
		// How the command ends is no part of a verdict: what came back is.
		res, err := m.Runner.Run(running, buildenv.Cmd{Path: command, Args: slices.Concat(p.Command[1:], words), Env: m.Host.Env.Entries(),
			Stdin: stdin, Stdout: stdout, Stderr: said})
		if err != nil && res.Code == 0 {
			res.Code = -1
		}
		_ = stdin.Close() // neither is ever an error
		_ = stdout.Close()
		ended <- res
	}()
	m.Shell.Status("Starting", "on %s", p.Name)
	c := &client{place: p, nonce: nonce, req: req, streams: s, shell: m, from: bufio.NewReaderSize(fromThere, framePiece),
		to: &frames{to: toThere}, raw: toThere, said: said}
	type reply struct {
		proof proof.Proof
		err   error
	}
	replied, began := make(chan reply, 1), make(chan bool, 1)
	go func() {
		got, err := c.talk(began)
		replied <- reply{got, err}
	}()
	// leave ends the other side: it is asked to, then the command is.
	leave := func() buildenv.Result {
		_ = toThere.Close() // the other side sees the end of its input; never an error
		go func() {
			_, _ = io.Copy(io.Discard, fromThere) // a command that cannot write does not end
		}()
		select {
		case res := <-ended:
			return res
		case <-time.After(buildenv.ProgramGrace + 2*time.Second):
		}
		kill()
		_ = fromThere.Close() // never an error
		return <-ended
	}
	var queue, over <-chan time.Time
	start, still := time.Now(), time.NewTicker(waitingPeriod)
	defer still.Stop()
	if p.Queue > 0 {
		queue = time.After(p.Queue)
	}
	for {
		select {
		case r := <-replied:
			if res := leave(); errors.Is(r.err, errEnded) {
				r.err = c.lost(res)
			}
			if e, is := errors.AsType[*Error](r.err); is && bytes.Contains(said.kept, []byte("DUE TO TIME LIMIT")) { // slurmstepd's words
				*e = Error{IDTimeout, fmt.Sprintf("the time limit of the Slurm job ended it (%s)", c.started),
					`[on.NAME] args = ["--time=60"] asks Slurm for an hour`}
			}
			return r.proof, r.err
		case <-still.C:
			m.Shell.Loud("Waiting", "for %s: the program has not started after %s (%squeue-timeout limits this)", p.Name,
				time.Since(start).Round(time.Second), p.Prefix)
		case <-began:
			still.Stop()
			queue = nil
			if req.Task.Timeout > 0 {
				over = time.After(req.Task.Timeout + answerDelay)
			}
		case <-queue:
			kill()
			leave()
			return proof.Proof{}, &Error{IDQueue, fmt.Sprintf("%s did not start the program within %s", p.Name, p.Queue),
				"wait longer: " + p.Prefix + "queue-timeout"}
		case <-over:
			leave()
			cancelJob(ctx, m, p, c.started)
			return proof.Proof{}, &Error{IDTimeout, fmt.Sprintf("%s sent no result within %s", p.Name, req.Task.Timeout+answerDelay),
				"look at that machine"}
		case <-ctx.Done():
			leave()
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

// errEnded is the end of the other side's output before a result.
var errEnded = errors.New("the connection ended")

// client is this side of one connection.
type client struct {
	place   proof.Place
	nonce   string
	req     request
	streams proof.Streams
	shell   *session.Machine
	from    *bufio.Reader
	to      *frames
	raw     io.WriteCloser
	said    *tail
	greeted bool
	started host
}

// talk sends what the other side lacks, passes the program's streams on, and returns the result.
func (c *client) talk(began chan<- bool) (proof.Proof, error) {
	var none proof.Proof
	if err := c.greet(); err != nil {
		return none, err
	}
	if err := c.to.sendJSON(frameRequest, c.req); err != nil {
		return none, errEnded
	}
	sent := make(chan error, 1)
	for {
		kind, content, err := readFrame(c.from)
		if errors.Is(err, errChanged) {
			return none, &Error{IDIncomplete, c.place.Name + ": " + err.Error(), "leave such flags out of its command"}
		}
		if err != nil {
			select {
			case err := <-sent:
				return none, cmp.Or(err, errEnded)
			default:
				return none, errEnded
			}
		}
		var sums []string
		var kept proof.Proof
		var refused refusal
		into, holds := map[byte]any{frameMissing: &sums, frameStarted: &c.started, frameResult: &kept, frameRefusal: &refused}[kind]
		if holds && json.Unmarshal(content, into) != nil {
			return none, &Error{IDIncomplete, c.place.Name + " sent something that cannot be read", ""}
		}
		switch kind {
		case frameMissing:
			go func() { // what the other side says is read meanwhile: it may refuse them, with a full disk
				err := c.sendFiles(sums)
				if sent <- err; err != nil {
					_ = c.raw.Close() // the other side sees the end of its input; never an error
				}
			}()
		case frameStarted:
			c.shell.Shell.Status("Running", "on %s", c.started)
			began <- true
			go c.input()
		case frameOut:
			_, err = c.streams.Out.Write(content)
		case frameErr:
			_, err = c.streams.Err.Write(content)
		case frameResult:
			if kept.Evidence.Control.With == "" {
				control{c.started.Same, kept.Evidence.Control}.keep(c.place.Memo, c.started)
			}
			return judged(c.shell, c.req, c.started, kept)
		case frameRefusal:
			id := IDIncomplete
			if c.started.Name == "" {
				id = IDRefused
			}
			return none, &Error{cmp.Or(refused.ID, id), c.place.Name + ": " + refused.What, refused.Fix}
		default:
			err = &Error{IDIncomplete, fmt.Sprintf("%s sent something unknown (%q)", c.place.Name, kind), ""}
		}
		if err != nil {
			return none, err
		}
	}
}

// greet waits for the other side's shell, and gives it a gpubuild if it has none. Lines before that are a login's.
func (c *client) greet() error {
	for {
		text, err := c.from.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) { // a login's line may be longer
			return errEnded
		}
		line := string(text)
		words := strings.Fields(line)
		switch {
		case len(words) == 4 && words[0] == greeting && words[1] == c.nonce:
			c.greeted = true
			here := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[c.shell.Host.Arch] // as uname calls it
			if here != "" && here != words[3] {
				return &Error{IDRefused, fmt.Sprintf("%s is %s, and the program is for %s", c.place.Name, words[3], here),
					"build for that machine on one like it"}
			}
			if words[2] == "send" {
				if err := c.copy(c.req.self, c.raw); err != nil {
					return err
				}
			}
		case len(words) == 2 && words[0] == ready && words[1] == c.nonce:
			return nil
		case strings.Contains(line, greeting+" "+c.nonce):
			return &Error{IDIncomplete, c.place.Name + ": " + errChanged.Error(), "leave such flags out of its command"}
		case len(words) > 0:
			_, _ = c.said.Write([]byte(line)) // it is only shown
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
		c.shell.Shell.Status("Sending", "%s to %s", tree.Size(size), c.place.Name)
	}
	for _, f := range files {
		if err := c.to.send(frameFile, []byte(f.SHA256)); err != nil {
			return errEnded
		}
		if err := c.copy(f, stream{c.to, frameData}); err != nil {
			return err
		}
		if err := c.to.send(frameFileEnd, nil); err != nil {
			return errEnded
		}
	}
	return nil
}

// copy writes a file as long as it was when it was hashed.
func (c *client) copy(f file, to io.Writer) error {
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

// lost is why a command ended without a result: it has its own codes, of which only ssh's says anything.
func (c *client) lost(res buildenv.Result) error {
	ended := fmt.Sprintf("%s ended with %d", path.Base(c.place.Command[0]), res.Code)
	if last := c.said.last(); last != "" {
		ended += ": " + last
	}
	switch {
	case c.started.Name != "":
		return &Error{IDIncomplete, fmt.Sprintf("the connection to %s ended before the result came (%s)", c.started, ended),
			c.place.Prefix + "retry-lost 1 runs such programs again"}
	case c.greeted:
		fix := "see whether there is room for files, and whether programs may be run from its cache directory"
		if needs := loader.NeedsGlibc(c.req.self.from); needs != "" {
			fix = "this gpubuild needs glibc " + needs + " or newer there; one that is built with CGO_ENABLED=0 needs none"
		}
		return &Error{IDRefused, fmt.Sprintf("%s did not start gpubuild (%s)", c.place.Name, ended), fix}
	case res.Code == 255 || res.Code < 0:
		return &Error{IDUnreachable, fmt.Sprintf("%s cannot be reached (%s)", c.place.Name, ended),
			"try it by hand: " + buildenv.PosixWords(c.place.Command...)}
	}
	return &Error{IDRefused, fmt.Sprintf("%s started nothing (%s)", c.place.Name, ended),
		"try it by hand: " + buildenv.PosixWords(c.place.Command...)}
}

// tail passes on what a command says on stderr, and keeps its end for an error.
type tail struct {
	to   io.Writer
	kept []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p...)
	t.kept = t.kept[max(0, len(t.kept)-1024):]
	return t.to.Write(p)
}

func (t *tail) last() string {
	lines := bytes.Split(bytes.TrimSpace(t.kept), []byte("\n"))
	return strings.TrimSpace(string(lines[len(lines)-1]))
}

// prepare lists what a task needs there: a bundle, and what the user sends.
func prepare(ctx context.Context, m *session.Machine, p proof.Place, t proof.Task) (request, error) {
	h := m.Host
	limit, err := config.ParseSize(p.Limit)
	if err != nil {
		return request{}, err
	}
	b, err := collect(ctx, m, p, t)
	if err != nil {
		return request{}, err
	}
	req := request{Task: t, Limit: limit, Needs: b.Prove.Glibc}
	for _, from := range b.Files {
		f := file{Name: from.Name, SHA256: from.SHA256, Size: from.Size, Run: true, from: from.From}
		if from.From == m.Self {
			req.self = f
			continue
		}
		req.Files = append(req.Files, f)
		if from.Link != "" {
			f.Name = from.Link
			req.Files = append(req.Files, f)
		}
	}
	if data, err := os.ReadFile(controlFile(p.Memo)); p.Memo != "" && err == nil && json.Unmarshal(data, &req.Earlier) != nil {
		req.Earlier = control{} // the program has one of its own
	}
	req.Task.Binary, req.Task.CUPTI, req.Task.Others = b.Programs[0], b.Prove.CUPTI, b.Prove.Others
	req.Task.Probe.Library, req.Task.Probe.Control, req.Task.Probe.Watch = b.Prove.Probe, b.Prove.Control, b.Prove.Watch
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
	for _, name := range p.SendEnv {
		value, set := h.Env.Lookup(name)
		if !set {
			return req, &exit.UsageError{What: p.Prefix + "send-env " + name + " is not set here", Fix: "set it, or leave the flag out"}
		}
		req.Env = append(req.Env, name+"="+value)
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
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		f, err := sized(m, file{Name: path.Join("work", filepath.ToSlash(rel)), from: name})
		out = append(out, f)
		return err
	})
	if err != nil {
		return nil, &exit.UsageError{What: "--send " + name + ": " + err.Error(), Fix: "name a file or a directory that can be read"}
	}
	return out, nil
}
