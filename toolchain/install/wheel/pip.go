// Package wheel fetches pinned wheels with the user's own pip, so that mirrors, proxies and credentials hold. It decides which pip and
// with which arguments; it never unpacks, and trusts no file
// before its hash is checked.
package wheel

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/toolchain/install/tree"
)

// Pip is a way to start the user's pip that works.
type Pip struct {
	Name string // pip 23.2.1 of /usr/bin/python3

	path string
	args []string // before pip's own
	env  buildenv.Env
	run  buildenv.Runner
}

// Find looks for the user's pip. An interpreter is tried before a script called pip, which may
// belong to an interpreter that is gone. Each is asked for its version, because python3 without
// pip is common and Windows has a python3 that only opens a shop. dir is an empty directory.
func Find(ctx context.Context, h buildenv.Host, run buildenv.Runner, dir string) (Pip, error) {
	commands := [][]string{{"python3", "-m", "pip"}, {"python", "-m", "pip"}, {"pip3"}, {"pip"}}
	if h.OS == buildenv.Windows {
		commands = append([][]string{{"py", "-3", "-m", "pip"}}, commands...)
	}
	var tried []string
	for _, words := range commands {
		path, err := h.LookPath(words[0])
		if err != nil {
			continue
		}
		p := Pip{path: path, args: words[1:], env: h.Env, run: run}
		version, err := p.version(ctx, dir)
		if ctx.Err() != nil {
			return Pip{}, ctx.Err()
		}
		shown := strings.Join(append([]string{path}, words[1:]...), " ")
		var major, minor int
		_, _ = fmt.Sscanf(version, "%d.%d", &major, &minor)
		switch {
		case err != nil || version == "":
		case major < 20 || major == 20 && minor < 3: // it takes --platform only once (pip's NEWS, 20.3, #6121)
			shown += ", which is older than 20.3"
		default:
			p.Name = "pip " + version + " of " + path
			return p, nil
		}
		tried = append(tried, shown)
	}
	if len(tried) == 0 {
		for _, words := range commands {
			tried = append(tried, words[0])
		}
		tried[len(tried)-1] += ", none of them on PATH"
	}
	e := &NoPipError{Tried: tried, Install: "py -m ensurepip"}
	if h.OS != buildenv.Windows {
		e.Install = h.InstallCommand(buildenv.Package{Debian: "python3-pip", Fedora: "python3-pip", Arch: "python-pip"})
	}
	return Pip{}, e
}

// version returns 23.2.1. The module is asked, not pip, where there is an interpreter: `-m pip --version` loads all of pip and takes
// five times as long.
func (p Pip) version(ctx context.Context, dir string) (string, error) {
	args := []string{"--version"}
	if n := len(p.args); n > 0 {
		args = append(slices.Clone(p.args[:n-2]), "-c", "import pip; print('pip', pip.__version__)")
	}
	r, err := p.run.Run(ctx, p.command(dir, args...))
	if words := strings.Fields(string(r.Stdout)); len(words) > 1 && words[0] == "pip" {
		return words[1], err
	}
	return "", err
}

// command passes the whole environment, so that the user's index, proxy and certificates hold. pip starts in a directory of ours,
// because `python -m` looks for modules where it starts, and a cloned repository could contain a "pip". Its temporary files go there,
// too, so that none stay elsewhere if it is killed.
func (p Pip) command(dir string, args ...string) buildenv.Cmd {
	env := p.env
	for _, name := range []string{"TMPDIR", "TEMP", "TMP"} {
		env = env.Set(name, dir)
	}
	return buildenv.Cmd{Path: p.path, Args: args, Dir: dir, Env: env.Entries()}
}

// Download has pip fetch wheels, all in one run, and checks their hashes. scratch is an empty directory.
func (p Pip) Download(ctx context.Context, wheels []tree.Archive, to, scratch string, progress tree.Progress) error {
	what, total := wheels[0].String(), int64(0)
	var pins strings.Builder
	for _, w := range wheels {
		total += w.Size
		fmt.Fprintf(&pins, "%s==%s --hash=sha256:%s\n", w.Package, w.Version, w.SHA256)
	}
	if len(wheels) > 1 {
		what = fmt.Sprintf("%d wheels", len(wheels)) // the plan named them
	}
	requirements := filepath.Join(scratch, "requirements.txt")
	if err := os.WriteFile(requirements, []byte(pins.String()), 0o600); err != nil {
		return err
	}
	progress(tree.Event{Text: what, Total: total})
	stop := watch(scratch, func(n int64) {
		progress(tree.Event{Text: what, Done: min(n, total), Total: total})
	})
	_, err := p.run.Run(ctx, p.command(scratch, slices.Concat(p.args, downloadArgs(wheels, to, requirements))...))
	stop()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return fetchError(wheels, err)
	}
	for _, w := range wheels {
		file := filepath.Join(to, w.File)
		err := w.Check(file)
		if errors.Is(err, fs.ErrNotExist) {
			err = failed([]string{w.File}, errors.New("pip ended well, but the file is not there"))
		} else if _, ok := errors.AsType[*tree.HashError](err); ok {
			err = errors.Join(err, os.Remove(file))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func downloadArgs(wheels []tree.Archive, to, requirements string) []string {
	args := []string{"download", "--quiet", "--disable-pip-version-check", "--no-input", "--progress-bar", "off",
		"--no-deps", "--require-hashes", "--only-binary=:all:"}
	var tags []string
	for _, w := range wheels {
		if t := tag(w.File); !slices.Contains(tags, t) {
			tags = append(tags, t)
			args = append(args, "--platform", t)
		}
	}
	return append(args, "--dest", to, "--requirement", requirements)
}

// tag is the platform tag by which pip finds a wheel; the first of several is as good as any.
func tag(file string) string {
	name := strings.TrimSuffix(file, ".whl")
	t, _, _ := strings.Cut(name[strings.LastIndexByte(name, '-')+1:], ".")
	return t
}

// watch reports several times a second how many bytes of wheels are below dir, where pip writes them before it moves them. stop ends it.
func watch(dir string, report func(int64)) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		tick := time.NewTicker(250 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-done:
				close(ended)
				return
			case <-tick.C:
			}
			var n int64
			_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
				if err == nil && strings.HasSuffix(path, ".whl") {
					if fi, err := d.Info(); err == nil {
						n += fi.Size()
					}
				}
				return nil // what pip has moved meanwhile is not counted
			})
			if n > 0 {
				report(n)
			}
		}
	}()
	return func() { close(done); <-ended }
}

// NoPipError says that none of the ways to start pip worked.
type NoPipError struct {
	Tried   []string
	Install string // the command that installs pip
}

func (e *NoPipError) Error() string {
	return "no pip to fetch the toolkit with (tried " + strings.Join(e.Tried, ", ") + ")"
}

func (e *NoPipError) ExitCode() int { return exit.Missing }

func (e *NoPipError) Hint() string {
	return "let GPUBUILD_REDIST be, and NVIDIA's redistributable archives are taken; " +
		"or install pip (" + e.Install + ") " +
		"or, where CUDA is installed already, name its directory with --gpu-toolkit"
}

// failed says that pip could not fetch wheels, and what to do about it: pip's own words say which of these it is.
func failed(wheels []string, err error) error {
	return exit.Errorf(0, "check the network, HTTPS_PROXY, PIP_INDEX_URL (a mirror may lack NVIDIA's wheels), PIP_REQUIRE_VIRTUALENV and "+
		"the free space; what was fetched already is kept, so run the same command again", "fetch %s: %w", strings.Join(wheels, ", "), err)
}

// fetchError makes an error of what pip wrote.
func fetchError(wheels []tree.Archive, err error) error {
	var names []string
	for _, w := range wheels {
		names = append(names, w.String())
	}
	if ended, ok := errors.AsType[*buildenv.ExitError](err); ok {
		text := string(ended.Result.Stdout) + string(ended.Result.Stderr)
		if strings.Contains(text, "THESE PACKAGES DO NOT MATCH THE HASHES") {
			wrong := wheels[0]
			for _, w := range wheels {
				if strings.Contains(text, w.SHA256) {
					wrong = w
				}
			}
			return &tree.HashError{File: wrong.File, Want: wrong.SHA256}
		}
	}
	return failed(names, err)
}
