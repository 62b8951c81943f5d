package tools

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/exit"
	"gpubuild/cmd/internal/config"
	"gpubuild/cmd/internal/session"
	"gpubuild/toolchain"
	"gpubuild/toolchain/cuda"
	"gpubuild/toolchain/install"
)

const (
	// byUse is the origin of the toolkit in the user's own configuration.
	byUse = toolchain.ByUse
	// inCache is the origin of a toolkit in our cache.
	inCache = "gpubuild's cache"
)

// User reads the user's own configuration; no file is an empty one, unless the user names it.
func User(h buildenv.Host) (config.User, error) {
	path := config.UserPath(h)
	data, err := readUser(h, path)
	if err == nil && data == nil && h.Env.Get(config.UserVariable) != "" {
		err = &config.Error{Path: path, Problem: config.UserVariable + " names this file, and it does not exist",
			Fix: "correct or unset the variable; `gpubuild toolchain use VERSION` writes such a file"}
	}
	if err != nil {
		return config.User{}, err
	}
	return config.ReadUser(path, data)
}

func readUser(h buildenv.Host, path string) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	data, err := h.ReadFile(path, buildenv.Note)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, &config.Error{Path: path, Problem: err.Error(), Fix: "make it readable, or name another file by " + config.UserVariable}
	}
	return data, nil
}

// Installed lists the toolkits of this machine, those in our cache included.
func Installed(m *session.Machine) []cuda.Toolkit { return cuda.Find(m.Host, ours(m)) }

// Default is what Installed lists, with the directory of the toolkit that builds try first where neither a flag nor the project names one,
// and who chose it: GPUBUILD_CUDA, `use`, or nobody.
func Default(m *session.Machine, find func([]cuda.Candidate) []cuda.Toolkit) (found []cuda.Toolkit, root, by string, err error) {
	wish, by := m.Host.Env.Get("GPUBUILD_CUDA"), "GPUBUILD_CUDA"
	if wish == "" {
		u, err := User(m.Host)
		if err != nil {
			return nil, "", "", err
		}
		wish, by = u.CUDA, byUse
	}
	extra := ours(m)
	switch {
	case wish == "":
		by = ""
	case strings.ContainsAny(wish, `/\`):
		wish = m.Host.Abs(wish)
		extra = append([]cuda.Candidate{{Root: wish, Origin: by}}, extra...)
	}
	found = find(extra)
	first, err := toolchain.First(found, wish)
	if err != nil && wish != "" && wish != "fetch" {
		m.Shell.Warning("%s asks for CUDA toolkit %s, and no usable one here is that", by, wish)
	}
	return found, first.Root, by, nil
}

// Started finds toolkits as a build does: it starts each nvcc once.
func Started(ctx context.Context, m *session.Machine) func([]cuda.Candidate) []cuda.Toolkit {
	return func(extra []cuda.Candidate) []cuda.Toolkit {
		found := findToolkits(ctx, m.Host, m.Runner, extra)
		for i, t := range found {
			if t.Problem != "" {
				continue
			}
			if problem := startNVCC(ctx, m, m.Runner, t.NVCC); problem != "" {
				found[i].Problem = toolchain.NVCCFails + problem
			}
		}
		return found
	}
}

// First is the toolkit that a build here would take, where somebody chose one: a flag, GPUBUILD_CUDA, the project or the user.
func First(ctx context.Context, s *session.Session, flag string) (*cuda.Toolkit, error) {
	if flag == "fetch" {
		return nil, &exit.UsageError{What: "toolkit=fetch is for verbs that build", Fix: "gpubuild toolchain install"}
	}
	o := Options{Prefix: "--", Toolkit: flag}
	w, err := wishOf(s, s.Machine.Host.Env, nil, o)
	if err != nil || w.CUDA == "" || w.CUDA == "fetch" {
		return nil, err
	}
	g, err := guard(ctx, s, o, nil, w)
	if err != nil {
		return nil, err
	}
	t, err := first(cuda.Find(s.Machine.Host, w.extra), w.CUDA)
	if err != nil {
		return nil, err
	}
	return &t, g.Check(toolchain.Set{Toolkit: &t})
}

// first is toolchain.First with the remedy of a verb that fetches nothing.
func first(found []cuda.Toolkit, wish string) (cuda.Toolkit, error) {
	t, err := toolchain.First(found, wish)
	var missing *toolchain.MissingError
	if !errors.As(err, &missing) {
		return t, err
	}
	there := *missing
	if !toolchain.IsVersion(wish) {
		there.Fix = "gpubuild toolchain list"
	}
	return t, &there
}

func ours(m *session.Machine) (extra []cuda.Candidate) {
	for _, in := range install.Installed(m.Host, m.CacheDir) {
		extra = append(extra, cuda.Candidate{Root: in.Root, Origin: inCache})
	}
	return extra
}

// Use writes the toolkit that this user's builds take when nobody says anything else: a version or a directory, or "default" for none. A
// toolkit that is not there would only fail later, and far from here.
func Use(ctx context.Context, m *session.Machine, what string) (config.User, error) {
	h, path := m.Host, config.UserPath(m.Host)
	if path == "" {
		return config.User{}, &config.Error{Path: "your configuration", Problem: "there is no home directory to keep it in",
			Fix: "set " + config.UserVariable + " to a file"}
	}
	value := ""
	if what != "default" {
		var extra []cuda.Candidate
		if strings.ContainsAny(what, `/\`) || h.IsDir(h.Abs(what)) && !toolchain.IsVersion(what) {
			what = h.Abs(what)
			extra = append(extra, cuda.Candidate{Root: what, Origin: byUse})
		}
		t, err := first(cuda.Find(h, append(extra, ours(m)...)), what)
		if err != nil {
			return config.User{}, err
		}
		problem := startNVCC(ctx, m, m.Runner, t.NVCC)
		if problem != "" {
			problem = toolchain.NVCCFails + problem
		} else if t.NVCC == "" && t.Include == "" { // libraries alone serve a program that runs
			problem = cuda.Bare
		}
		if problem != "" {
			what := "working toolkit in " + t.Root + ": " + problem
			return config.User{}, &toolchain.MissingError{What: what, Fix: "gpubuild toolchain list"}
		}
		value = what
	}
	data, err := readUser(h, path)
	if err != nil {
		return config.User{}, err
	}
	out, err := config.WithCUDA(path, data, value)
	if err != nil {
		return config.User{}, err
	}
	if string(out) != string(data) {
		// A file renamed into place would replace a link to a file that the user keeps elsewhere, so the link's target is written.
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			real = path
		}
		if err := os.MkdirAll(filepath.Dir(real), 0o700); err != nil {
			return config.User{}, &config.Error{Path: path, Problem: err.Error(), Fix: "name another file by " + config.UserVariable}
		}
		// A new file is created empty, with the mode that the umask leaves it; then, as one that was there, it is replaced by a rename.
		f, err := os.OpenFile(real, os.O_RDONLY|os.O_CREATE, 0o644)
		var mode fs.FileInfo
		if err == nil {
			mode, err = f.Stat()
			err = errors.Join(err, f.Close())
		}
		if err == nil && !mode.Mode().IsRegular() {
			err = errors.New("it is no regular file") // /dev/null: no configuration
		}
		if err == nil {
			err = cache.WriteFile(real, out, mode.Mode().Perm())
		}
		if err != nil {
			return config.User{}, &config.Error{Path: path, Problem: err.Error(),
				Fix: "make its directory writable, or name another file by " + config.UserVariable}
		}
	}
	return config.ReadUser(path, out)
}
