package cargo

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/lazyregexp"
)

// GraphAnswer is what cargo said it would build.
type GraphAnswer struct {
	Graph  []byte // unit graph, JSON
	Reason string // why there is none; empty with a graph
}

// Request is a question about a build and how to put it.
type Request struct {
	Line   Line
	Asking Asking
	Notice func(string)       // gets at once what cargo waits for, in cargo's words without colours; may be nil
	Status func(string)       // given cargo's other progress lines as they come, colours and line ends included; nil: they stay in Stderr
	Mkdir  func(string) error // makes a directory and its parents, for us alone; nil: the real one
}

// Graph asks cargo what a command line builds. The unit graph is asked for unless a configuration has [unstable] settings, which the
// question would wake; then, and when this cargo knows no unit graph, Reason says why there is no answer. When cargo itself refuses
// the command line the error is a *RefusedError with cargo's words. Nothing is written outside the private directory, but for Cargo.lock
// where it is missing or outdated and Asking.NoLockWrite is not set, as the build itself would write it.
func Graph(ctx context.Context, h buildenv.Host, run buildenv.Runner, t Tool, q Request) (GraphAnswer, error) {
	if _, ok := UnitGraph(h, t, q.Line, q.Asking); !ok {
		return GraphAnswer{}, exit.Usagef("ask about build, check, run, test, bench, clippy, rustc or doc",
			"`%s` builds nothing that cargo could be asked about", q.Line.verbWord())
	}
	mkdir := q.Mkdir
	if mkdir == nil {
		mkdir = func(dir string) error { return os.MkdirAll(dir, 0o700) }
	}
	for _, d := range q.Asking.Private.Dirs(h) {
		if err := mkdir(d); err != nil {
			return GraphAnswer{}, fmt.Errorf("private directory for cargo's answers: %w", err)
		}
	}
	if known := rustcInfo(h, q.Asking.Private); h.Check(known, buildenv.Record) != nil {
		_ = os.Remove(known) // cargo would wait for a pipe; what cannot be removed it says itself
	}
	config := readConfig(h, t, q.Line)
	_, wakes := config.find("unstable")
	if wakes.table != nil || len(t.unstableVars()) > 0 {
		if q.Asking.nightly = nightly(ctx, run, t, q.Line); !q.Asking.nightly && wakes.table != nil {
			reason := "cargo's configuration has [unstable] settings (" + wakes.origin + ") that the unit graph would wake"
			return GraphAnswer{Reason: reason}, nil
		}
	}
	cmd, _ := UnitGraph(h, t, q.Line, q.Asking)
	res, err := ask(ctx, run, cmd, q)
	if forgotten(h, q, err) {
		res, err = ask(ctx, run, cmd, q)
	}
	if err == nil {
		unread := slices.IndexFunc(config, func(is layer) bool { return is.unread != nil })
		switch {
		case !bytes.HasPrefix(res.Stdout, []byte(`{"version":`)):
			return GraphAnswer{Reason: "this cargo answered --unit-graph with something else"}, nil
		case unread >= 0 && !q.Asking.nightly: // cargo understands it
			return GraphAnswer{Reason: "not understood: " + config[unread].origin + ", which may have [unstable] settings"}, nil
		}
		return GraphAnswer{Graph: res.Stdout}, nil
	}
	var refused *RefusedError
	if !errors.As(err, &refused) {
		return GraphAnswer{}, err
	}
	if why := graphRefused(refused.Stderr); why != "" {
		return GraphAnswer{Reason: why}, nil
	}
	return GraphAnswer{}, refused
}

// Accepts asks cargo whether it takes the flags of a command line, and for nothing else: it reads them all before it answers -h. What it
// refuses is a *RefusedError. Limit: cargo-clippy answers -h whatever else is said.
func Accepts(ctx context.Context, run buildenv.Runner, t Tool, l Line, colour bool) error {
	end := len(l.Args)
	if verbs[l.Verb].rest == restWords {
		end -= len(l.Positional)
	}
	l.Args = slices.Insert(slices.Clone(l.Args), end, "-h")
	_, err := ask(ctx, run, t.cmd(Asking{Colour: colour}.env(t), l.Words()), Request{})
	return err
}

// Packages is cargo's metadata of a command line whose graph it has answered: of everything that the build needs, else of the workspace
// alone; nil where cargo gives none. Its words where it refuses the first are said, too.
func Packages(ctx context.Context, h buildenv.Host, run buildenv.Runner, t Tool, l Line, p Private, workspace bool) (data []byte,
	refused string) {
	for _, noDeps := range []bool{false, true} {
		if workspace && !noDeps {
			continue
		}
		res, err := ask(ctx, run, Metadata(h, t, l, p, noDeps), Request{})
		if err == nil {
			return res.Stdout, refused
		}
		refused = cmp.Or(refused, string(res.Stderr))
	}
	return nil, refused
}

// forgotten removes what cargo keeps of rustc's answers in the private directory, and reports whether to ask again: where that file is
// damaged, cargo 1.95 refuses every command line, with words about rustc, and keeps the file.
func forgotten(h buildenv.Host, q Request, err error) bool {
	var refused *RefusedError
	if !errors.As(err, &refused) || !bytes.Contains(refused.Stderr, []byte("rustc")) &&
		!bytes.Contains(refused.Stderr, []byte("target-specific")) {
		return false
	}
	return os.Remove(rustcInfo(h, q.Asking.Private)) == nil
}

// rustcInfo is where cargo keeps what rustc answered.
func rustcInfo(h buildenv.Host, p Private) string { return h.Join(p.Dirs(h)[1], ".rustc_info.json") }

// ask runs a question. A status other than 0 becomes a *RefusedError.
func ask(ctx context.Context, run buildenv.Runner, c buildenv.Cmd, q Request) (buildenv.Result, error) {
	w := &stderrWatch{notice: q.Notice, status: q.Status}
	lines := &buildenv.Lines{Each: w.line}
	c.Stderr = lines
	res, err := run.Run(ctx, c)
	lines.End()
	res.Stderr = w.text.Bytes()
	if err == nil {
		return res, nil
	}
	var exit *buildenv.ExitError
	if ctx.Err() == nil && errors.As(err, &exit) && exit.Result.Signal == "" && !exit.Result.TimedOut {
		return res, refusal(exit.Result.Code, res.Stderr, err, q)
	}
	if exit != nil && len(exit.Result.Stderr) == 0 {
		exit.Result.Stderr = res.Stderr // the words of a cargo that crashed are kept here and nowhere else
	}
	return res, err
}

var usageLine = lazyregexp.New(`(?m)^(.*Usage:.*?cargo \S+).*unit-graph.*$`)

// refusal adds a fix where cargo's own words lack one, and takes out of them what only our question brought in: --locked, which the user
// did not write, and the flags of the question.
func refusal(code int, stderr []byte, err error, q Request) *RefusedError {
	r := &RefusedError{Code: code, Stderr: stderr, Err: err}
	text := stripANSI(string(stderr))
	ours := q.Asking.NoLockWrite && !q.Line.Has("--locked", "--frozen")
	switch {
	case strings.Contains(text, "--locked was passed") && strings.Contains(text, "cannot create the lock file"):
		r.Fix = "cargo generate-lockfile"
		if r.Locked, r.NoLock = ours, ours; ours {
			r.Stderr = []byte("error: there is no Cargo.lock, which says what versions would be built\n")
		}
	case strings.Contains(text, "--locked was passed"):
		r.Fix = "run `cargo update --workspace` or any build first"
		if r.Locked = ours; ours {
			r.Stderr = []byte("error: Cargo.lock does not hold what the manifests ask for\n")
		}
	case strings.Contains(text, "flag specified: lockfile-path"):
		r.NoPrivateLock = true
	case Unfetched(text) != "":
		r.Unfetched = Unfetched(text)
	case strings.Contains(text, "no such command: `+"):
		r.Fix = "+toolchain is rustup's: the cargo on PATH is not rustup's proxy"
	case usageLine.Match(stderr):
		r.Stderr = usageLine.ReplaceAll(stderr, []byte("$1 [OPTIONS]"))
	}
	return r
}

// stderrWatch collects cargo's stderr (64 MiB at most) except its progress, which is passed on as it comes: on a fresh machine the
// question downloads every package, as the build would, and another cargo's lock can hold it up for long.
type stderrWatch struct {
	text           bytes.Buffer
	notice, status func(string)
}

func (w *stderrWatch) line(b []byte) {
	text := strings.TrimSpace(stripANSI(string(b)))
	verb, _, _ := strings.Cut(text, " ")
	switch {
	case verb == "Blocking" && w.notice != nil:
		w.notice(text)
	case progressVerbs[verb] && w.status != nil:
		w.status(string(b))
	case strings.HasPrefix(text, "warning: unused config key `build.build-dir`"): // of ours, by a cargo that is older than it
	case w.text.Len() < 64<<20:
		w.text.Write(b)
	}
}

// progressVerbs begin the lines that say what cargo does before it compiles (status verbs of cargo 1.95's sources), and
// those of rustup's proxy, which may fetch a whole toolchain first.
var progressVerbs = map[string]bool{
	"Updating": true, "Downloading": true, "Downloaded": true, "Locking": true, "Adding": true,
	"Removing": true, "Downgrading": true, "Upgrading": true, "Fetching": true, "Cloning": true,
	"Unpacking": true, "Syncing": true, "Blocking": true, "info:": true,
}

// graphRefused distinguishes a cargo that knows or allows no unit graph from one that refuses the command line. The words are those of
// cargo 1.44 to 1.95.
func graphRefused(stderr []byte) string {
	text := stripANSI(string(stderr))
	says := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(text, w) })
	}
	switch {
	case says("unit-graph") &&
		says("unexpected argument '--unit-graph'", "Found argument", "wasn't expected", "is unstable", "nightly channel"):
		return "this cargo refuses --unit-graph"
	case says("the option `Z` is only accepted on the nightly", "`-Z` flag is only accepted on the nightly"):
		return "this cargo takes no unstable flag"
	}
	return ""
}

// nightly reports whether unstable settings are in force anyway: they belong to the build, and the question must have them, too.
func nightly(ctx context.Context, run buildenv.Runner, t Tool, l Line) bool {
	if t.Env.Get("RUSTC_BOOTSTRAP") == "1" {
		return true
	}
	res, err := ask(ctx, run, Version(t, l), Request{})
	v, _ := ParseVersion(res.Stdout)
	return err == nil && v.Nightly()
}

// Places are where cargo builds.
type Places struct {
	WorkspaceRoot   string
	TargetDirectory string // artifacts for people
	BuildDirectory  string // everything between; the same one unless build.build-dir says otherwise
}

// Locate asks cargo where it will build, --target-dir included.
func Locate(ctx context.Context, h buildenv.Host, run buildenv.Runner, t Tool, l Line) (Places, error) {
	cmd := MetadataNoDeps(h, t, l)
	res, err := ask(ctx, run, cmd, Request{})
	if err != nil {
		return Places{}, err
	}
	var m struct {
		Target string `json:"target_directory"`
		Build  string `json:"build_directory"`
		Root   string `json:"workspace_root"`
	}
	if err := json.Unmarshal(res.Stdout, &m); err != nil {
		return Places{}, misunderstood(cmd, "no JSON", err)
	}
	if m.Target == "" || m.Root == "" {
		return Places{}, misunderstood(cmd, "no target_directory or workspace_root", nil)
	}
	m.Build = cmp.Or(m.Build, m.Target) // before cargo 1.91
	return Places{WorkspaceRoot: m.Root, TargetDirectory: m.Target, BuildDirectory: m.Build}, nil
}
