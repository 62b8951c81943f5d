package nvcc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/proc"
)

// phases are the options that say what a call makes, of which nvcc takes one.
var phases = set("c compile dc device-c ptx cubin fatbin")

// recorded runs nvcc with cl.exe, and after it succeeded asks it by -M what the passes of such a call read, the host's included. Where that
// fails, as of a kernel that no host compiler takes, nothing is known.
func (r *run) recorded(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) int {
	code := r.plain(ctx, stdin, stdout, stderr)
	if code != 0 || r.host.Env.Get("OUT_DIR") == "" {
		return code
	}
	p, failed := &preprocessed{}, error(nil)
	if r.compiles() {
		args := slices.DeleteFunc(slices.Clone(r.dryrun), func(w string) bool {
			return strings.HasPrefix(w, "-") && phases[strings.TrimLeft(w, "-")]
		})
		res, err := r.runner.Run(ctx, buildenv.Cmd{Path: r.real, Args: append(args, "-M"), Env: r.env})
		if err != nil || res.Truncated {
			failed = errors.New("nvcc -M failed")
		}
		for _, path := range prerequisites(string(res.Stdout)) {
			p.headers = append(p.headers, filepath.Clean(path)) // nvcc writes Z:/a and Z:\a
		}
	}
	r.list(p, failed)
	return 0
}

// linkTo makes a link; on Windows a junction, for which an account needs no privilege, and of directories alone: nobody looks for a file of
// the toolkit's root by its place.
func linkTo(h buildenv.Host, target, at string) error {
	if h.OS != buildenv.Windows {
		return os.Symlink(target, at)
	}
	if !h.IsDir(target) {
		return nil
	}
	if strings.ContainsAny(target+at, `&^%!"`) { // cmd.exe would read them
		return fmt.Errorf("%s, %s: a character that cmd.exe does not leave alone", target, at)
	}
	_, err := proc.Runner{}.Run(context.Background(), buildenv.Cmd{Path: h.Join(h.Env.Get("SystemRoot"), "System32", "cmd.exe"),
		Args: []string{"/d", "/c", "mklink", "/J", at, target}, Env: h.Env.Entries()})
	if same(at, target) {
		return nil
	}
	return errors.Join(fmt.Errorf("%s: no junction was made", at), err)
}

// same reports whether a link leads to a file or directory: what Readlink says of a junction differs between versions of Windows and Go.
func same(at, to string) bool {
	is, err := os.Stat(at)
	want, failed := os.Stat(to)
	return err == nil && failed == nil && os.SameFile(is, want)
}
