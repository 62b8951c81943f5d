package cache

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gpubuild/buildenv"
)

// Sayings runs commands that ask a program about itself, such as gcc --version, and keeps what it said for as long as everything that the answer
// depends on is the same. What it keeps of a command that Inputs does not know, that failed, or whose program is a script (which may call anything)
// is nothing: such a command runs every time. A file that is damaged, or of another form, counts as not there.
type Sayings struct {
	Dir string // made for its owner alone when something is kept
	Run interface {
		Run(ctx context.Context, c buildenv.Cmd) (buildenv.Result, error)
	}
	// Inputs answers the files, beside the program, and the variables on which an answer depends. ok is false where that is not known. A file that
	// does not exist is an input, too.
	Inputs func(c buildenv.Cmd) (files, variables []string, ok bool)
	Now    func() time.Time
	Told   func(error) // gets why something could not be kept; the answer is none the worse
}

// said is what a file keeps.
type said struct {
	Schema int               `json:"schema"`
	Words  []string          `json:"words"` // path, arguments, directory
	Files  map[string]string `json:"files"`
	Env    map[string]string `json:"env"` // a variable that is not set has no entry
	Stdout []byte            `json:"stdout"`
	Stderr []byte            `json:"stderr"`
}

const (
	saidSchema = 1
	saidLimit  = 1 << 20
	// settled is how long a file must have been left alone before its times can be believed: a file that is written twice within a tick of the file
	// system's clock looks the same after each. FAT keeps two seconds.
	settled = 2 * time.Second
)

// Ask answers a command from what is kept, or runs it.
func (s Sayings) Ask(ctx context.Context, c buildenv.Cmd) (buildenv.Result, error) {
	now, ok := s.situation(c)
	if !ok {
		return s.Run.Run(ctx, c)
	}
	sum := sha256.Sum256([]byte(strings.Join(now.Words, "\x00")))
	path := filepath.Join(s.Dir, hex.EncodeToString(sum[:16])+".json")
	if old, ok := readSaid(path); ok && old.Schema == saidSchema && equal(old.Words, now.Words) && maps.Equal(old.Files, now.Files) && maps.Equal(old.Env, now.Env) {
		return buildenv.Result{Stdout: old.Stdout, Stderr: old.Stderr}, nil
	}
	r, err := s.Run.Run(ctx, c)
	if err != nil || r.Code != 0 || r.Truncated || !s.still(now) {
		return r, err
	}
	after, ok := s.situation(c)
	if !ok || !maps.Equal(after.Files, now.Files) {
		return r, nil // changed while it answered
	}
	now.Stdout, now.Stderr = r.Stdout, r.Stderr
	if err := s.keep(path, now); err != nil && s.Told != nil {
		s.Told(fmt.Errorf("what %s said is not kept: %w", c.Path, err))
	}
	return r, nil
}

func equal(a, b []string) bool { return strings.Join(a, "\x00") == strings.Join(b, "\x00") }

func (s Sayings) keep(path string, now said) error {
	data, err := json.Marshal(now)
	if err != nil {
		return err
	}
	if err := Make(s.Dir); err != nil {
		return err
	}
	return WriteFile(path, data, 0o600)
}

func readSaid(path string) (said, bool) {
	f, err := os.Open(path)
	if err != nil {
		return said{}, false
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, saidLimit+1))
	var old said
	if err != nil || len(data) > saidLimit || json.Unmarshal(data, &old) != nil {
		return said{}, false
	}
	return old, true
}

// situation is everything that the answer depends on, as it is now.
func (s Sayings) situation(c buildenv.Cmd) (said, bool) {
	files, variables, ok := s.Inputs(c)
	if !ok || !compiled(c.Path) {
		return said{}, false
	}
	now := said{Schema: saidSchema, Words: append([]string{c.Path, c.Dir}, c.Args...), Files: map[string]string{}, Env: map[string]string{}}
	for _, path := range append(files, c.Path) {
		is, err := stands(path)
		if err != nil {
			return said{}, false
		}
		now.Files[path] = is
	}
	for _, e := range c.Env {
		name, value, _ := strings.Cut(e, "=")
		for _, v := range variables {
			if name == v {
				now.Env[v] = value
			}
		}
	}
	return now, true
}

// stands words which file a path means and what it is.
func stands(path string) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	id, err := Identify(real)
	if err != nil {
		return "", err
	}
	changed, err := StateTime(real) // a copy with the old times has another one
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s: %s, state %d", real, id, changed), nil
}

// still says whether every input has been left alone long enough for its times to tell of the next change.
func (s Sayings) still(now said) bool {
	for path, is := range now.Files {
		if is == "" {
			continue
		}
		id, err := Identify(path)
		if err != nil {
			return false
		}
		changed, err := StateTime(path)
		if err != nil || s.Now().Sub(time.Unix(0, max(id.MTime, changed))) < settled {
			return false
		}
	}
	return true
}

// compiled says whether a file is a program of machine code, ELF or PE.
func compiled(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	var mark [4]byte
	if _, err := io.ReadFull(f, mark[:]); err != nil {
		return false
	}
	return string(mark[:]) == "\x7fELF" || bytes.HasPrefix(mark[:], []byte("MZ"))
}
