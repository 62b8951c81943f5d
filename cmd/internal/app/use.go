package app

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"gpubuild/buildenv/cache"
	"gpubuild/cmd/internal/config"
	"gpubuild/toolchain"
	"gpubuild/toolchain/cuda"
	"gpubuild/toolchain/install"
)

// byUse is how the toolkit of the user's own configuration is told.
const byUse = "gpubuild toolchain use"

// user reads the user's own configuration; no file is an empty one.
func (a *app) user() (config.User, error) {
	path := config.UserPath(a.Host)
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

// useToolkit sets, shows or drops the toolkit that this user's builds take when nobody says anything else.
func (a *app) useToolkit(o Options, rest []string) error {
	u, err := a.user()
	if err != nil {
		return err
	}
	if len(rest) > 1 {
		return &usageError{"use takes one toolkit", byUse + " 13.4, " + byUse + " DIR, or " + byUse + " default"}
	}
	if len(rest) == 1 {
		if u, err = a.setToolkit(rest[0]); err != nil {
			return err
		}
	}
	if o.JSON != nil {
		return a.answer(o, "toolchain", true, nil, struct {
			CUDA string `json:"cuda"` // empty: none
			Path string `json:"path"`
		}{u.CUDA, u.Path})
	}
	if u.CUDA == "" {
		a.Shell.Note("no toolkit of your own choice in %s: builds take the newest that fits", u.Path)
		return nil
	}
	fmt.Fprintln(a.Shell.Out, u.CUDA)
	for _, stronger := range []string{"GPUBUILD_CUDA"} {
		if v := a.Host.Env.Get(stronger); v != "" {
			a.Shell.Note("%s=%s is set here and wins over it", stronger, v)
		}
	}
	return nil
}

// setToolkit writes the choice. A toolkit that is not there would only fail later, and far from here.
func (a *app) setToolkit(what string) (config.User, error) {
	path := config.UserPath(a.Host)
	if path == "" {
		return config.User{}, &config.Error{Path: "your configuration", Problem: "there is no home directory to keep it in", Fix: "set " + config.UserVariable + " to a file"}
	}
	value := ""
	if what != "default" {
		var extra []cuda.Candidate
		if strings.ContainsAny(what, `/\`) || a.Host.IsDir(a.Host.Abs(what)) && !toolchain.IsVersion(what) {
			what = a.Host.Abs(what)
			extra = append(extra, cuda.Candidate{Root: what, Origin: byUse})
		}
		for _, in := range install.Installed(a.Host, a.CacheDir) {
			extra = append(extra, cuda.Candidate{Root: in.Root, Origin: "gpubuild's cache"})
		}
		found := cuda.Find(a.Host, extra)
		if err := toolchain.Usable(found, what); err != nil {
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
			return config.User{}, &config.Error{Path: path, Problem: err.Error(), Fix: "make its directory writable, or name another file by " + config.UserVariable}
		}
	}
	return config.ReadUser(path, out)
}
