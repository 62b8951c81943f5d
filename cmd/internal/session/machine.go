// Package session opens what a command line is about: the machine, the project with its configuration, and cargo's answer of what would be
// built. It judges nothing and changes nothing of the user's.
package session

import (
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/memo"
	"gpubuild/buildenv/proc"
	"gpubuild/cmd/internal/console"
	"gpubuild/gpu/driver"
	"gpubuild/gpu/verify"
	"gpubuild/toolchain/cargo"
)

// Machine is what every verb works with. It is made once, before the command line is read, and not changed after that.
type Machine struct {
	Host     buildenv.Host
	Runner   Runner
	Children *proc.Children // those that Runner has
	Shell    *console.Shell
	Stdin    io.Reader
	Self     string // our own executable, for children that are ourselves
	CacheDir string
	NoCache  error // why the cache is not used, and CacheDir is cache.Nowhere
	Began    time.Time
	Puts     *atomic.Int64 // of Memo; nil: they are not counted
	Temp     *Temporary
	Real     RealDriver
	Waited   *atomic.Bool // the user knows that cargo waits for a lock; nil: each wait is printed
	// JSONWritten: the machine-readable answer was written, or has no place; nil: nobody asks.
	JSONWritten *atomic.Bool
	Silent      *atomic.Pointer[[]string]    // of Driver; nil: it is asked each time
	Asking      Runner                       // of the driver, where it helps to choose tools; nil: Runner
	Nodes       func(buildenv.Host) []string // the GPUs' device nodes; nil: verify.DeviceNodes. Only a test binary passes others
}

// RealDriver makes the predicate that says whether a loaded driver is that of a
// real GPU. Only a test binary passes another one than verify.RealDriver.
type RealDriver func(buildenv.Host) func(verify.Loaded) (bool, string)

// Runner runs a process to its end.
type Runner = buildenv.Runner

// Memo is the persistent cache.
func (m *Machine) Memo() memo.Store { return memo.Open(m.Host, m.CacheDir, m.Began).Counting(m.Puts) }

// Driver is how the GPU driver of this machine is asked.
func (m *Machine) Driver() driver.Machine {
	d := driver.Machine{Host: m.Host, Runner: m.Runner, Self: m.Self, Silent: m.Silent}
	if m.CacheDir != "" {
		kept := m.Memo()
		d.Memo = &kept
	}
	return d
}

// Shown is a path as a person reads it: relative to the current directory when it lies below.
func (m *Machine) Shown(path string) string {
	if m.Host.Below(path, m.Host.Cwd) && !m.Host.SamePath(path, m.Host.Cwd) {
		return path[len(strings.TrimRight(m.Host.Clean(m.Host.Cwd), `/\`))+1:] // of a root itself the separator is the end
	}
	return path
}

// Speaking is the machine with a shell that takes over cargo's own flags for how loud and in what colour to speak; fetch is its FetchHint.
func (m *Machine) Speaking(l cargo.Line, fetch string) *Machine {
	other, shell := *m, *m.Shell
	other.Shell, shell.FetchHint = &shell, fetch
	shell.Quiet = l.Has("--quiet") || m.Host.Env.Get("CARGO_TERM_QUIET") == "true"
	shell.Verbose = l.Verbose > 0
	switch l.Color {
	case "always":
		shell.Colour, shell.OutColour = true, true
	case "never":
		shell.Colour, shell.OutColour = false, false
	}
	return &other
}

// Quiet is the machine with a shell that prints warnings and errors only.
func (m *Machine) Quiet() *Machine {
	other, shell := *m, *m.Shell
	other.Shell, shell.Quiet = &shell, true
	return &other
}

// Command is a program that the user names, by its path or as a shell finds it, with the user's own streams.
func (m *Machine) Command(words []string, env buildenv.Env) (buildenv.Cmd, error) {
	h, path := m.Host, words[0]
	h.Env = env
	var err error
	if !strings.ContainsAny(path, `/\`) {
		path, err = h.LookPath(path)
	} else if _, absent := h.Files.Stat(h.Abs(path)); absent != nil {
		err = errors.New(path + " does not exist")
	} else {
		path = h.Abs(path)
	}
	if err != nil {
		return buildenv.Cmd{}, &exit.UsageError{What: err.Error(), Fix: "install it or give its path"}
	}
	return buildenv.Cmd{Path: path, Args: words[1:], Env: env.Entries(), Stdin: m.Stdin, Stdout: m.Shell.Out, Stderr: m.Shell.Err,
		Grace: buildenv.ProgramGrace}, nil
}

// NoteJSON notes that the machine-readable answer is written, or has no place.
func (m *Machine) NoteJSON() {
	if m.JSONWritten != nil {
		m.JSONWritten.Store(true)
	}
}
