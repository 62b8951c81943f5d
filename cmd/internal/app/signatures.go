package app

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/stale"
	"gpubuild/features"
	"gpubuild/gpu"
	"gpubuild/gpu/fatbin"
)

// wanted is what the device code of this build should be.
func (j *journey) wanted(ctx context.Context, in features.Inputs) stale.Want {
	if j.signs == nil {
		j.signs = &stale.Want{}
		if t := j.Set.Toolkit; t != nil {
			j.signs.NVCC = j.signatures(ctx)
			release := t.Version // the headers', which are packaged apart from the compiler: what that says of itself counts
			if len(j.signs.NVCC) > 0 {
				if v, err := gpu.ParseVersion(j.signs.NVCC[0]); err == nil {
					release = v
				}
			}
			j.signs.PTX, _ = fatbin.WrittenBy(release)
		}
	}
	w := stale.Want{}
	if in.NVCC {
		w = *j.signs
	}
	if in.Arch {
		w.Arch.Capability, w.Arch.Suffix = j.Set.Capability, j.Set.Suffix
	}
	return w
}

// signatures lists the versions with which the chosen toolkit's tools sign: ptxas signs cubins, cicc PTX, and pip's wheels of them are versioned one by
// one. They stand in the tools themselves, which are read once. A tool that does not show one may be a script before the real one, which is asked.
func (j *journey) signatures(ctx context.Context) []string {
	t := j.Set.Toolkit
	h := j.openHashes()
	defer h.keep(j.app)
	var out []string
	add := func(v string) {
		if v != "" && !contains(out, v) {
			out = append(out, v)
		}
	}
	nvcc := j.Host.Real(t.NVCC)
	for _, path := range compilerFiles(j, t) {
		if name := strings.TrimSuffix(j.Host.Base(path), ".exe"); path != nvcc && name != "ptxas" && name != "cicc" {
			continue
		}
		v, err := h.known("signature ", path, func(string) (string, error) {
			f, err := j.Host.Files.Open(path)
			if err != nil {
				return "", err
			}
			defer f.Close()
			v, err := fatbin.Signature(f)
			if err == nil && v == "" && path == nvcc {
				v = j.asked(ctx, nvcc)
			}
			return v, err
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			j.Shell.Detail("the version of %s is not known: %v", path, err)
		}
		add(v)
	}
	return out
}

// asked is the version that nvcc says when it is run.
func (j *journey) asked(ctx context.Context, nvcc string) string {
	res, err := j.Runner.Run(ctx, buildenv.Cmd{Path: nvcc, Args: []string{"--version"}, Env: j.Env.Entries()})
	if err != nil {
		j.Shell.Detail("%s --version: %v", nvcc, err)
		return ""
	}
	v, err := fatbin.Signature(bytes.NewReader(res.Stdout))
	if err != nil {
		return ""
	}
	return v
}
