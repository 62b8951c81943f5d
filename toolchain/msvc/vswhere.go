package msvc

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"gpubuild/buildenv"
)

// runner is all that asking vswhere takes of the world.
type runner interface {
	Run(ctx context.Context, c buildenv.Cmd) (buildenv.Result, error)
}

// vswhereTimeout is how long vswhere may take; it answers in a tenth of a second, on a machine that is busy with an update in some.
const vswhereTimeout = 10 * time.Second

// vswhere asks the program that comes with Microsoft's installer. It needs all of these words: Build Tools are no product of its default,
// Insiders are previews (microsoft/vswhere issue 336), instances that a pinned toolset made incomplete need -all, and without -utf8 its
// JSON is broken where a path is not ASCII (issue 305). One that came with Visual Studio 15.2 knows neither -prerelease nor -utf8, and
// says so with ERROR_INVALID_PARAMETER (CommandArgs.cpp of microsoft/vswhere 1.0); it is asked again without them.
func (f *finder) vswhere(ctx context.Context, run runner) {
	h := f.h
	for _, pf := range programFiles(h) {
		exe := h.Join(pf, "Microsoft Visual Studio", "Installer", "vswhere.exe")
		if !h.IsFile(exe) {
			continue
		}
		ask := buildenv.Cmd{Path: exe, Args: []string{"-all", "-products", "*", "-format", "json", "-nologo", "-prerelease", "-utf8"},
			Env: h.Env.Entries(), Timeout: vswhereTimeout, Limit: largest}
		r, err := run.Run(ctx, ask)
		const invalidParameter = 87
		var exit *buildenv.ExitError
		if errors.As(err, &exit) && exit.Result.Code == invalidParameter {
			ask.Args = ask.Args[:len(ask.Args)-2]
			r, err = run.Run(ctx, ask)
		}
		if err != nil {
			f.problem("%s does not answer: %v", exe, err)
			continue
		}
		states, err := parseVswhere(r.Stdout)
		if err != nil {
			f.problem("%s answered what cannot be read: %v", exe, err)
			continue
		}
		for _, s := range states {
			f.add(s.path, s, exe)
		}
	}
}

// parseVswhere reads vswhere's JSON: an array with the fields of state.json, and productId in the place of product.id.
// Source: microsoft/vswhere's README, and its test instances.
func parseVswhere(data []byte) ([]state, error) {
	var all []struct {
		Path    string `json:"installationPath"`
		Version string `json:"installationVersion"`
		Product string `json:"productId"`
	}
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, err
	}
	out := make([]state, 0, len(all))
	for _, i := range all {
		out = append(out, state{path: i.Path, version: i.Version, product: productName(i.Product)})
	}
	return out, nil
}
