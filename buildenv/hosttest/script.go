package hosttest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"gpubuild/buildenv"
	"gpubuild/buildenv/lazyregexp"
)

// Step is one command that a test expects and what comes of it.
type Step struct {
	Path   string                   // the program's path, or only its name when it holds no separator
	Args   []string                 // all its arguments; nil: any
	Prefix []string                 // its first arguments, when Args is nil
	Check  func(buildenv.Cmd) error // looks at the rest of it: environment, directory; may be nil
	Do     func(buildenv.Cmd) error // acts for the program: writes files; may be nil
	Result buildenv.Result          // what comes back; a Code other than 0 comes as *buildenv.ExitError, too
	Err    error                    // what kept it from running, instead of Result
	Many   bool                     // it may be asked any number of times, none included
}

func (s Step) String() string {
	args := s.Args
	if args == nil {
		args = append(slices.Clone(s.Prefix), "…")
	}
	return strings.Join(append([]string{s.Path}, args...), " ")
}

func (s Step) means(c buildenv.Cmd) bool {
	name := c.Path
	if !strings.ContainsAny(s.Path, `/\`) {
		name = name[strings.LastIndexAny(name, `/\`)+1:]
	}
	switch {
	case name != s.Path:
		return false
	case s.Args != nil:
		return slices.Equal(s.Args, c.Args)
	}
	return len(c.Args) >= len(s.Prefix) && slices.Equal(s.Prefix, c.Args[:len(s.Prefix)])
}

// Script is a runner that knows beforehand what it will be asked. Each step answers once, the first one that fits first; steps may be
// asked in any order and at the same time. An unexpected command and a step that nothing asked for fail the test.
type Script struct {
	t     testing.TB
	mu    sync.Mutex
	steps []Step
	used  []int
	asked []buildenv.Cmd
}

// NewScript makes a runner of steps and looks at the end of the test whether all were used.
func NewScript(t testing.TB, steps ...Step) *Script {
	s := &Script{t: t, steps: steps, used: make([]int, len(steps))}
	t.Cleanup(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for i, st := range s.steps {
			if s.used[i] == 0 && !st.Many {
				t.Errorf("never run: %s", st)
			}
		}
	})
	return s
}

// Asked lists the commands so far, in order.
func (s *Script) Asked() []buildenv.Cmd {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

// Run answers a command as its step says. A cancelled ctx is answered with its error, before anything is looked at.
func (s *Script) Run(ctx context.Context, c buildenv.Cmd) (buildenv.Result, error) {
	s.t.Helper()
	if err := ctx.Err(); err != nil {
		return buildenv.Result{}, fmt.Errorf("%s: %w", c.Path, err)
	}
	st, ok := s.take(c)
	if !ok {
		s.t.Errorf("unexpected command: %s", c)
		return buildenv.Result{}, fmt.Errorf("%s: not in the script", c)
	}
	if st.Check != nil {
		if err := st.Check(c); err != nil {
			s.t.Errorf("%s: %v", c, err)
		}
	}
	if st.Do != nil {
		if err := st.Do(c); err != nil {
			return buildenv.Result{}, err
		}
	}
	if st.Err != nil {
		return buildenv.Result{}, st.Err
	}
	r := st.Result
	if c.Stdout != nil {
		if _, err := c.Stdout.Write(r.Stdout); err != nil {
			return buildenv.Result{}, err
		}
		r.Stdout = nil
	}
	if c.Stderr != nil {
		if _, err := c.Stderr.Write(r.Stderr); err != nil {
			return buildenv.Result{}, err
		}
		r.Stderr = nil
	}
	if r.Code != 0 {
		return r, &buildenv.ExitError{Cmd: c, Result: r}
	}
	return r, nil
}

func (s *Script) take(c buildenv.Cmd) (Step, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, c)
	for i, st := range s.steps {
		if st.means(c) && (st.Many || s.used[i] == 0) {
			s.used[i]++
			return st, true
		}
	}
	return Step{}, false
}

// Commands reads the $ sections of a machine's file as steps that may be asked any number of times.
func Commands(data []byte) ([]Step, error) {
	a, err := archive(data)
	if err != nil {
		return nil, err
	}
	var out []Step
	for _, f := range a.Files {
		if !strings.HasPrefix(f.Name, "$") {
			continue
		}
		st, err := command(f)
		if err != nil {
			return nil, fmt.Errorf("section %s: %w", f.Name, err)
		}
		out = append(out, st)
	}
	return out, nil
}

func command(f txtar.File) (Step, error) {
	name, attrs := attributes(f.Name)
	words, err := split(strings.TrimPrefix(name, "$"))
	if err != nil {
		return Step{}, err
	}
	if len(words) == 0 {
		return Step{}, fmt.Errorf("no command")
	}
	st := Step{Path: words[0], Args: words[1:], Many: true, Result: buildenv.Result{Stdout: f.Data}}
	for _, a := range attrs {
		key, value, _ := strings.Cut(a, "=")
		switch key {
		case "exit":
			if st.Result.Code, err = strconv.Atoi(value); err != nil {
				return Step{}, err
			}
		case "stderr":
			st.Result.Stdout, st.Result.Stderr = nil, f.Data
		default:
			return Step{}, fmt.Errorf("unknown attribute +%s", a)
		}
	}
	return st, nil
}

var (
	scriptWord = lazyregexp.New(`(?:'[^']*'|"[^"]*"|[^ \t'"])+`)
	quotedPart = lazyregexp.New(`'([^']*)'|"([^"]*)"`)
)

// split takes words apart at blanks; quotes keep a word together and nothing is an escape.
func split(s string) ([]string, error) {
	if rest := strings.TrimSpace(scriptWord.ReplaceAllString(s, "")); rest != "" {
		return nil, fmt.Errorf("a quote %.1s is never closed", rest)
	}
	words := scriptWord.FindAllString(s, -1)
	for i, w := range words {
		words[i] = quotedPart.ReplaceAllString(w, "$1$2")
	}
	return words, nil
}
