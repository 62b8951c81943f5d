package tools

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/cmd/internal/config"
	"gpubuild/cmd/internal/session"
	"gpubuild/toolchain"
	"gpubuild/toolchain/cuda"
	"gpubuild/toolchain/install"
)

const (
	// byUse is how the toolkit of the user's own configuration is told.
	byUse = "gpubuild toolchain use"
	// inCache is how a toolkit in our cache is told.
	inCache = "gpubuild's cache"
)

// User reads the user's own configuration; no file is an empty one.
func User(h buildenv.Host) (config.User, error) {
	path := config.UserPath(h)
	data, err := readUser(path)
	if err != nil {
		return config.User{}, err
	}
	return config.ReadUser(path, data)
}

func readUser(path string) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	data, err := os.ReadFile(path)
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

// ours lists the toolkits in our cache.
func ours(m *session.Machine) (extra []cuda.Candidate) {
	for _, in := range install.Installed(m.Host, m.CacheDir) {
		extra = append(extra, cuda.Candidate{Root: in.Root, Origin: inCache})
	}
	return extra
}

// Use writes the toolkit that this user's builds take when nobody says anything else: a version or a directory, or "default" for none. A
// toolkit that is not there would only fail later, and far from here.
func Use(m *session.Machine, what string) (config.User, error) {
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
		if err := toolchain.Usable(cuda.Find(h, append(extra, ours(m)...)), what); err != nil {
			return config.User{}, err
		}
		value = what
	}
	data, err := readUser(path)
	if err != nil {
		return config.User{}, err
	}
	out, err := config.WithCUDA(path, data, value)
	if err != nil {
		return config.User{}, err
	}
	if string(out) != string(data) {
		// Beside and renamed: where it is a link to a file that the user keeps elsewhere, that one is written.
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			real = path
		}
		if err := os.MkdirAll(filepath.Dir(real), 0o700); err != nil {
			return config.User{}, &config.Error{Path: path, Problem: err.Error(), Fix: "name another file by " + config.UserVariable}
		}
		if err := cache.WriteFile(real, out, 0o600); err != nil {
			return config.User{}, &config.Error{Path: path, Problem: err.Error(),
				Fix: "make its directory writable, or name another file by " + config.UserVariable}
		}
	}
	return config.ReadUser(path, out)
}

// Unused says whether the user's own configuration names a toolkit that was removed, and no other one answers to the name.
func Unused(m *session.Machine, u config.User, gone install.Installation) bool {
	named := u.CUDA != "" && (u.CUDA == gone.Root || u.CUDA == gone.CUDA.String() || u.CUDA == gone.Release)
	return named && toolchain.Usable(Installed(m), u.CUDA) != nil
}
