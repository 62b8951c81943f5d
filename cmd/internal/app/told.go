package app

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/features"
)

// told is what `features` said of a question, kept word for word with everything that was looked at for it: cargo's answer is kept, too (answers), but
// to judge it every manifest of the workspace is read, which takes longer than to see that none has changed.
type told struct {
	app  *app
	path string
	seen *seenFiles
	// what rowsOf has found
	rows            []watched
	known, packages map[string]bool
}

const toldSchema = 2

// passing are variables that a terminal or a session sets and that neither cargo nor we read.
var passing = []string{"_", "OLDPWD", "PWD", "SHLVL", "WINDOWID", "SSH_", "XDG_SESSION", "XDG_VTNR", "XDG_SEAT", "VSCODE_", "TERM_PROGRAM", "TERM_SESSION", "GPG_TTY", "TMUX", "STY", "WT_SESSION",
	"ITERM_", "KITTY_", "STARSHIP_", "LS_COLORS", "DBUS_", "INVOCATION_ID", "JOURNAL_STREAM", "HISTFILE", "COLUMNS", "LINES"}

// toldOf is where the answer to the present words is kept; nil where they have to be answered anew each time: another form than text goes into files or
// holds the time. On Windows a directory's time need not tell that a name in it came or went.
func (a *app) toldOf(o Options) *told {
	if o.JSON != nil || o.SARIF != "" || o.HTML != "" || o.JUnit != "" || o.Receipt != "" || a.onGitHub() || a.host.OS == buildenv.Windows {
		return nil
	}
	sum := sha256.New()
	fmt.Fprintln(sum, toldSchema, answersSchema, version(), a.shell.Colour, a.shell.Guarded)
	fmt.Fprintf(sum, "%q %q %q\n", a.host.Cwd, a.words, a.look(a.self))
	for _, e := range a.host.Env.Entries() {
		if !hasPrefix(strings.ToUpper(e), passing) {
			fmt.Fprintf(sum, "%q\n", e)
		}
	}
	return &told{app: a, path: a.host.Join(a.cacheDir, "told", hex.EncodeToString(sum.Sum(nil)[:16]))}
}

func hasPrefix(s string, list []string) bool {
	for _, p := range list {
		if strings.HasPrefix(s, p) && (strings.HasSuffix(p, "_") && p != "_" || strings.HasPrefix(s[len(p):], "=") || len(p) > 6) {
			return true
		}
	}
	return false
}

// again says what was said before if nothing has changed since; ok is false where it has to be found out anew.
func (t *told) again() (ok bool, err error) {
	data, err := t.app.host.ReadFile(t.path, 64<<20)
	if err != nil {
		return false, nil
	}
	head, rest, _ := bytes.Cut(data, []byte("\n"))
	var schema, code, lines, out, said int
	var sum uint32
	if n, err := fmt.Sscanf(string(head), "%d %d %d %d %d %x", &schema, &code, &lines, &out, &said, &sum); n != 6 || err != nil || schema != toldSchema || sum != crc32.ChecksumIEEE(rest) {
		return false, nil
	}
	list, rest, ok := readWatched(rest, lines)
	if !ok || out < 0 || said < 0 || len(rest) != out+said || len(list) == 0 || !t.app.unchanged(list) {
		return false, nil
	}
	t.app.concluded = true
	if _, err := t.app.shell.Out.Write(rest[:out]); err != nil {
		return true, err
	}
	if _, err := t.app.shell.Err.Write(rest[out:]); err != nil {
		return true, err
	}
	if code != codeDone {
		return true, codeError(code)
	}
	return true, nil
}

// look makes every read of the machine from now on one that is remembered, so that it is known what the answer was made of.
func (t *told) look() {
	t.seen = &seenFiles{under: t.app.host.Files, stats: map[string]statSeen{}, read: map[string]bool{}, links: map[string]string{}}
	t.app.host.Files = t.seen
	t.app.beside = t.prepare
}

// keep runs what says the answer, and keeps its words. That they cannot be kept costs time only.
func (t *told) keep(say func() error) error {
	shell := t.app.shell
	out, said := &bytes.Buffer{}, &bytes.Buffer{}
	outWas, errWas := shell.Out, shell.Err
	shell.Out, shell.Err = io.MultiWriter(outWas, out), io.MultiWriter(errWas, said)
	err := say()
	shell.Out, shell.Err = outWas, errWas
	var code codeError
	if err != nil && !errors.As(err, &code) {
		return err
	}
	list, sound := t.watched()
	if !sound {
		return err
	}
	var b bytes.Buffer
	if !writeWatched(&b, list) {
		return err
	}
	b.Write(out.Bytes())
	b.Write(said.Bytes())
	head := fmt.Sprintf("%d %d %d %d %d %x\n", toldSchema, int(code), len(list), out.Len(), said.Len(), crc32.ChecksumIEEE(b.Bytes())) // the file is not flushed to the disk
	bad := cache.Make(filepath.Dir(t.path))
	if bad == nil {
		bad = cache.Keep(t.path, slices.Concat([]byte(head), b.Bytes()), 0o600)
		prune(filepath.Dir(t.path), keptAnswers)
	}
	if bad != nil {
		shell.Detail("the answer is not kept: %v", bad)
	}
	return err
}

// prepare makes the rows of all that was looked at so far, for watched, which is waited for.
func (t *told) prepare() {
	t.seen.mu.Lock()
	defer t.seen.mu.Unlock()
	t.rowsOf(t.seen.order)
	t.seen.order = nil
}

// watched lists what the answer was made of; false where something changed in the meantime. In a package's own directories, that a file is there or is not
// is what the directory's time tells, so that a large workspace needs few looks.
func (t *told) watched() ([]watched, bool) {
	s := t.seen
	s.mu.Lock()
	defer s.mu.Unlock()
	t.app.host.Files = s.under
	t.rowsOf(s.order)
	for path, real := range s.links {
		t.rows = append(t.rows, watched{path, linkTo + real})
	}
	return t.rows, !s.changed
}

// rowsOf adds what paths are. A path comes once when it is looked at and once more when it is read.
func (t *told) rowsOf(paths []string) {
	if t.packages == nil {
		t.packages, t.known = map[string]bool{}, map[string]bool{}
	}
	a, s, in, own := t.app, t.seen, t.unpackedIn(), t.app.cacheDir+"/"
	for _, path := range paths {
		if dir, ok := strings.CutSuffix(path, "/"+features.ManifestName); ok && s.read[path] {
			t.packages[dir], t.packages[dir+"/src"] = true, true
		}
	}
	for _, path := range paths {
		if strings.HasPrefix(path, own) {
			continue
		}
		st := s.stats[path]
		at := max(0, strings.LastIndexByte(path, '/'))
		if dir := path[:at]; t.packages[dir] && (st.fi == nil || !s.read[path] && isTargetFile(strings.TrimPrefix(path[at:], "/"))) {
			path = dir
		}
		if above := unpacked(path, in); above != "" {
			path = above
		}
		if t.known[path] {
			continue
		}
		t.known[path] = true
		st, seen := s.stats[path]
		if !seen { // a directory in place of what lies in it
			st.fi, st.err = s.under.Stat(path)
		}
		w := watched{Path: path}
		if st.err == nil {
			w.Is = a.identity(path, st.fi)
			if a.began.Sub(st.fi.ModTime()) < young {
				w.Is += byContent + a.contentBy(s.under, path, st.fi)
			}
		}
		t.rows = append(t.rows, w)
	}
}

// isTargetFile says whether cargo looks for a file of this name to see what a package has; it does not read it then.
func isTargetFile(name string) bool {
	return name == "build.rs" || name == "main.rs" || name == "lib.rs"
}

// unpackedIn are the directories below CARGO_HOME in which cargo unpacks packages once and never changes them.
// Source: the cargo book, "Cargo Home": registry/src/<index>/<package>, git/checkouts/<repository>/<revision>.
func (t *told) unpackedIn() []string {
	h := t.app.host
	home := h.Env.Get("CARGO_HOME")
	if home == "" {
		home = h.Join(h.Home, ".cargo")
	}
	return []string{h.Join(home, "registry", "src") + "/", h.Join(home, "git", "checkouts") + "/"}
}

// unpacked answers the directory of the package that a path belongs to, where it is one that never changes.
func unpacked(path string, in []string) string {
	for _, at := range in {
		if rest, below := strings.CutPrefix(path, at); below {
			if parts := strings.SplitN(rest, "/", 3); len(parts) == 3 {
				return at + parts[0] + "/" + parts[1]
			}
		}
	}
	return ""
}

// seenFiles remembers what was looked at, and answers the same again: one answer is made of one state of the machine.
type seenFiles struct {
	under   buildenv.Files
	mu      sync.Mutex
	stats   map[string]statSeen
	order   []string        // what is new in stats and read, for told.prepare
	read    map[string]bool // files whose content was read, directories whose names were
	links   map[string]string
	changed bool // something was another file when it was read than when it was looked at
}

type statSeen struct {
	fi  fs.FileInfo
	err error
}

func (s *seenFiles) Stat(path string) (fs.FileInfo, error) {
	s.mu.Lock()
	st, known := s.stats[path]
	s.mu.Unlock()
	if !known {
		st.fi, st.err = s.under.Stat(path)
		s.note(path, st)
	}
	return st.fi, st.err
}

func (s *seenFiles) note(path string, st statSeen) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if was, known := s.stats[path]; known {
		s.changed = s.changed || (was.err == nil) != (st.err == nil) || st.err == nil && (!was.fi.ModTime().Equal(st.fi.ModTime()) || was.fi.Size() != st.fi.Size())
		return
	}
	if st.err != nil {
		st.fi = nil
	}
	s.stats[path] = st
	s.order = append(s.order, path)
}

func (s *seenFiles) Open(path string) (fs.File, error) {
	f, err := s.under.Open(path)
	if err != nil {
		s.note(path, statSeen{err: err})
		return nil, err
	}
	fi, err := f.Stat()
	s.note(path, statSeen{fi, err})
	s.mark(path)
	return f, nil
}

func (s *seenFiles) ReadDir(path string) ([]fs.DirEntry, error) {
	fi, err := s.under.Stat(path)
	s.note(path, statSeen{fi, err})
	s.mark(path)
	return s.under.ReadDir(path)
}

func (s *seenFiles) mark(path string) {
	s.mu.Lock()
	if !s.read[path] {
		s.read[path] = true
		s.order = append(s.order, path)
	}
	s.mu.Unlock()
}

func (s *seenFiles) EvalSymlinks(path string) (string, error) {
	real, err := s.under.EvalSymlinks(path)
	s.mu.Lock()
	s.links[path] = real
	s.mu.Unlock()
	return real, err
}
