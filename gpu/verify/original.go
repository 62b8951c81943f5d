package verify

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/regular"
)

// original is the program's file as it was before the run.
type original struct {
	path        string
	id          cache.Identity
	script      []byte         // the text, if another program runs it
	line        string         // its first line behind #!, as it is
	interpreter cache.Identity // that program, if it was found
}

const longestScript = 16 << 20

// remember notes what a program's file is. env is where `#!/usr/bin/env NAME` looks NAME up.
func remember(h buildenv.Host, file string, env buildenv.Env) (o original, err error) {
	o.path = file
	if o.id, err = cache.Identify(file); err != nil || h.OS != buildenv.Linux {
		return o, err
	}
	f, err := regular.Open(file)
	if errors.Is(err, fs.ErrPermission) {
		return o, nil // it may be run, and not read
	}
	if err != nil {
		return o, err
	}
	defer f.Close()
	if o.script, err = io.ReadAll(io.LimitReader(f, 2)); err != nil || string(o.script) != "#!" {
		o.script = nil
		return o, err
	}
	if o.script, err = io.ReadAll(io.NewSectionReader(f, 0, longestScript)); err != nil {
		return o, err
	}
	first, _, _ := bytes.Cut(o.script[2:], []byte("\n"))
	o.line = strings.Trim(string(first), " \t")
	words := strings.Fields(o.line)
	if len(words) > 1 && path.Base(words[0]) == "env" { // env(1): -S, and NAME=VALUE before the program
		for words = words[1:]; len(words) > 1 && (strings.HasPrefix(words[0], "-") || strings.Contains(words[0], "=")); {
			words = words[1:]
		}
		h.Env = env
		if found, err := h.LookPath(words[0]); err == nil && !strings.Contains(words[0], "/") {
			words[0] = found
		}
	}
	if len(words) > 0 {
		o.interpreter, _ = cache.Identify(words[0]) // without it no process is one of it
	}
	return o, nil
}

// changed reports whether the file is another one now, or holds something else. One that was only touched does not.
func (o original) changed() bool {
	now, err := cache.Identify(o.path)
	if err != nil || now == o.id {
		return err != nil
	}
	if now.Inode != o.id.Inode || now.Device != o.id.Device || now.Size != o.id.Size {
		return true
	}
	if o.script == nil {
		return false // nobody can write into a program that runs
	}
	text, err := os.ReadFile(o.path)
	return err != nil || !bytes.Equal(text, o.script)
}

// refused words why the system does not run the file.
func (o original) refused(err syscall.Errno) error {
	switch {
	case errors.Is(err, syscall.ENOEXEC):
		return exit.Errorf(exit.Usage, "build it for this machine: leave --target out, or give one that fits",
			"%s: this machine does not run it: it is for another processor, or no program", o.path)
	case o.script == nil || !errors.Is(err, fs.ErrNotExist):
		return BinaryError(o.path, err)
	case strings.HasSuffix(o.line, "\r"):
		return BinaryError(o.path, errors.New("its first line ends with CR LF, which is part of the interpreter's name: write it with LF"))
	}
	interpreter, _, _ := strings.Cut(o.line, " ")
	return BinaryError(o.path, fmt.Errorf("its interpreter %s does not exist", interpreter))
}
