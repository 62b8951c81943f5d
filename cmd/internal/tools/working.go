package tools

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/memo"
	"gpubuild/cmd/internal/session"
	"gpubuild/toolchain"
)

// Working is toolchain.Choose without the toolkits whose nvcc does not start: the facts say of each of them why. A file of that name may
// be of another processor, or only half there.
func Working(f toolchain.Facts, n toolchain.Needs, w toolchain.Wish, start func(nvcc string) (problem string)) (toolchain.Set, error) {
	for {
		set, err := toolchain.Choose(f, n, w)
		if err != nil || set.Toolkit == nil || set.Toolkit.NVCC == "" || !n.NVCC && !n.NVCCVersion {
			return set, err
		}
		problem := start(set.Toolkit.NVCC)
		if problem == "" {
			return set, nil
		}
		set.Toolkit.Problem = toolchain.NVCCFails + problem // Choose points into the facts
	}
}

// StartNVCC starts an nvcc for its version, and returns what went wrong.
func StartNVCC(ctx context.Context, run session.Runner, env buildenv.Env, nvcc string) (problem string) {
	c := buildenv.Cmd{Path: nvcc, Args: []string{"--version"}, Env: env.Entries(), Timeout: 10 * time.Second}
	res, err := run.Run(ctx, c)
	exited, ran := errors.AsType[*buildenv.ExitError](err)
	switch {
	case ran && len(exited.Result.Stdout)+len(exited.Result.Stderr) == 0 && !exited.Result.TimedOut:
		return fmt.Sprintf("`nvcc --version` prints nothing and exits with %d", exited.Result.Code)
	case err != nil:
		return strings.TrimPrefix(strings.TrimRight(err.Error(), ": \n"), c.Path+": ")
	case !strings.Contains(string(res.Stdout), "release"):
		return "`nvcc --version` names no release"
	}
	return ""
}

// startOnce is StartNVCC that remembers of a file that it starts.
func startOnce(ctx context.Context, m *session.Machine, run session.Runner, env buildenv.Env) func(string) string {
	return func(nvcc string) string {
		const kind = "nvcc-starts-1"
		store, key := m.Memo(), memo.Key(nvcc)
		if _, starts := store.Get(kind, key); starts {
			return ""
		}
		problem := StartNVCC(ctx, run, env, nvcc)
		if problem == "" {
			if err := store.Put(kind, key, store.Watch(nvcc), nil); err != nil {
				m.Shell.Detail("cannot record that %s starts: %v", nvcc, err)
			}
		}
		return problem
	}
}
