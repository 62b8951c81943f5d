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
	w := stale.Want{}
	if t := s.b.Tools.Set.Toolkit; t != nil && in.NVCC {
		if s.read.signed == nil {
			s.read.signed = s.signatures(ctx)
		}
		w.NVCC = s.read.signed
		release := t.Version // the headers', which are packaged apart from the compiler: what that says of itself counts
		if len(w.NVCC) > 0 {
			if v, err := gpu.ParseVersion(w.NVCC[0]); err == nil {
				release = v
			}
		}
		w.PTX, _ = fatbin.WrittenBy(release)
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
	nvcc := s.b.Machine.Host.Real(t.NVCC)
	for _, path := range inputs.CompilerFiles(s.b.Machine.Host, t) {
		if name := strings.TrimSuffix(s.b.Machine.Host.Base(path), ".exe"); path != nvcc && name != "ptxas" && name != "cicc" {
			continue
		}
		v, err := s.read.hashes.About("signature", path, func() (string, error) {
			f, err := s.b.Machine.Host.Files.Open(path)
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
			s.b.Machine.Shell.Detail("the version of %s is not known: %v", path, err)
		}
		if v != "" && !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}

// asked is the version that nvcc says when it is run.
func (s *State) asked(ctx context.Context, nvcc string) string {
	res, err := s.b.Machine.Runner.Run(ctx, buildenv.Cmd{Path: nvcc, Args: []string{"--version"}, Env: s.b.Tools.Env.Entries()})
	if err != nil {
		s.b.Machine.Shell.Detail("%s --version: %v", nvcc, err)
		return ""
	}
	v, err := fatbin.Signature(bytes.NewReader(res.Stdout))
	if err != nil {
		return ""
	}
	return v
}
