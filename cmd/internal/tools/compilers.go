package tools

import (
	"context"
	"encoding/json"
	"io"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/memo"
	"gpubuild/cmd/internal/session"
	"gpubuild/toolchain"
	"gpubuild/toolchain/hostcc"
	"gpubuild/toolchain/msvc"
)

// Compilers lists the host compilers: Visual Studio's on Windows, where nvcc takes no other, else gcc and clang.
func Compilers(ctx context.Context, m *session.Machine) ([]hostcc.Compiler, *msvc.Found) {
	return compilers(ctx, m, m.Host, commandCache{m, m.Host})
}

func compilers(ctx context.Context, m *session.Machine, h buildenv.Host, run session.Runner, asked ...string,
) ([]hostcc.Compiler, *msvc.Found) {
	if h.OS != buildenv.Windows {
		return hostcc.Find(ctx, h, run, asked...), nil
	}
	found := msvc.Find(h, h.Arch)
	for _, p := range found.Problems {
		m.Shell.Detail("%s", p)
	}
	return toolchain.Compilers(h, found), &found
}

// commandKind names the cache entries of commandCache; the number changes with the meaning of what is kept or watched.
const commandKind = "command-1"

// commandCache runs commands that ask a compiler about itself, such as gcc --version, and keeps what it answers for as long as the
// program, the other files and the variables on which that depends are the same. A command of which these are not known, one that fails,
// and a program that is a script, which may call anything, run every time.
type commandCache struct {
	machine *session.Machine
	host    buildenv.Host
}

// output is what is kept of a command.
type output struct {
	Stdout []byte `json:"stdout"`
	Stderr []byte `json:"stderr"`
}

func (cc commandCache) Run(ctx context.Context, c buildenv.Cmd) (buildenv.Result, error) {
	files, variables, known := hostcc.Inputs(cc.host, c)
	if !known || !machineCode(cc.host, c.Path) {
		return cc.machine.Runner.Run(ctx, c)
	}
	parts := append([]string{c.Path, c.Dir}, c.Args...)
	for _, e := range c.Env {
		if name, _, _ := strings.Cut(e, "="); slices.Contains(variables, name) {
			parts = append(parts, e)
		}
	}
	store, key := cc.machine.Memo(), memo.Key(parts...)
	var kept output
	if data, ok := store.Get(commandKind, key); ok && json.Unmarshal(data, &kept) == nil {
		return buildenv.Result{Stdout: kept.Stdout, Stderr: kept.Stderr}, nil
	}
	inputs := store.Watch(append(files, c.Path)...) // before it runs: what changes meanwhile makes the entry invalid
	r, err := cc.machine.Runner.Run(ctx, c)
	if err != nil || r.Code != 0 || r.Truncated {
		return r, err
	}
	data, err := json.Marshal(output{r.Stdout, r.Stderr})
	if err == nil {
		err = store.Put(commandKind, key, inputs, data)
	}
	if err != nil { // costs time only
		cc.machine.Shell.Detail("what %s answered is not kept: %v", c.Path, err)
	}
	return r, nil
}

// machineCode says whether a file is a program of machine code, ELF or PE.
func machineCode(h buildenv.Host, path string) bool {
	f, err := h.Files.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	var mark [4]byte
	if _, err := io.ReadFull(f, mark[:]); err != nil {
		return false
	}
	return string(mark[:]) == "\x7fELF" || string(mark[:2]) == "MZ"
}
