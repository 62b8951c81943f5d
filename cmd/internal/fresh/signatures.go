package fresh

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/stale"
	"gpubuild/cmd/internal/fresh/inputs"
	"gpubuild/features"
	"gpubuild/gpu"
	"gpubuild/gpu/fatbin"
)

// wanted is what the device code of this build should be.
func (s *State) wanted(ctx context.Context, in features.Inputs) stale.Want {
	if s.signs == nil {
		s.signs = &stale.Want{}
		if t := s.b.Tools.Set.Toolkit; t != nil {
			s.signs.NVCC = s.signatures(ctx)
			release := t.Version // the headers', which are packaged apart from the compiler: what that says of itself counts
			if len(s.signs.NVCC) > 0 {
				if v, err := gpu.ParseVersion(s.signs.NVCC[0]); err == nil {
					release = v
				}
			}
			s.signs.PTX, _ = fatbin.WrittenBy(release)
		}
	}
	w := stale.Want{}
	if in.NVCC {
		w = *s.signs
	}
	if in.Arch {
		w.Arch.Capability, w.Arch.Suffix = s.b.Tools.Set.Capability, s.b.Tools.Set.Suffix
	}
	return w
}

// signatures lists the versions with which the chosen toolkit's tools sign: ptxas signs cubins, cicc PTX, and pip's wheels of
// them are versioned one by one. They stand in the tools themselves, which are read once. A tool that does not show one may be a
// script before the real one, which is asked.
func (s *State) signatures(ctx context.Context) []string {
	t := s.b.Tools.Set.Toolkit
	var out []string
	add := func(v string) {
		if v != "" && !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	nvcc := s.host.Real(t.NVCC)
	for _, path := range inputs.CompilerFiles(s.host, t) {
		if name := strings.TrimSuffix(s.host.Base(path), ".exe"); path != nvcc && name != "ptxas" && name != "cicc" {
			continue
		}
		v, err := s.hashes.About("signature", path, func() (string, error) {
			f, err := s.host.Files.Open(path)
			if err != nil {
				return "", err
			}
			defer f.Close()
			v, err := fatbin.Signature(f)
			if err == nil && v == "" && path == nvcc {
				v = s.asked(ctx, nvcc)
			}
			return v, err
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			s.shell.Detail("the version of %s is not known: %v", path, err)
		}
		add(v)
	}
	return out
}

// asked is the version that nvcc says when it is run.
func (s *State) asked(ctx context.Context, nvcc string) string {
	res, err := s.b.Machine.Runner.Run(ctx, buildenv.Cmd{Path: nvcc, Args: []string{"--version"}, Env: s.b.Tools.Env.Entries()})
	if err != nil {
		s.shell.Detail("%s --version: %v", nvcc, err)
		return ""
	}
	v, err := fatbin.Signature(bytes.NewReader(res.Stdout))
	if err != nil {
		return ""
	}
	return v
}
