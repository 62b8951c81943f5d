package wheel

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"gpubuild/toolchain/install/tree"
)

// Versions lists what the user's index has of a package, newest first.
func (p Pip) Versions(ctx context.Context, name, dir string) ([]string, error) {
	args := []string{"index", "versions", "--disable-pip-version-check", "--no-input", name}
	r, err := p.run.Run(ctx, p.command(dir, slices.Concat(p.args, args)...))
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(r.Stdout)) {
		if list, ok := strings.CutPrefix(strings.TrimSpace(line), "Available versions: "); ok {
			return strings.Split(list, ", "), nil
		}
	}
	return nil, fmt.Errorf("%s lists no version of %s", p.Name, name)
}

// Resolve returns the wheels that pip would install for requirements, with the hashes of the user's index. Their sizes are not known.
func (p Pip) Resolve(ctx context.Context, requirements []string, dir string) ([]tree.Archive, error) {
	args := slices.Concat(p.args, []string{"install", "--dry-run", "--ignore-installed", "--quiet", "--disable-pip-version-check",
		"--no-input", "--only-binary=:all:", "--report", "-"}, requirements)
	r, err := p.run.Run(ctx, p.command(dir, args...))
	if err != nil {
		return nil, err
	}
	var report struct {
		Install []struct {
			Metadata struct{ Name, Version string }
			Download struct {
				URL     string
				Archive struct{ Hashes map[string]string } `json:"archive_info"`
			} `json:"download_info"`
		}
	}
	if err := json.Unmarshal(r.Stdout, &report); err != nil {
		return nil, fmt.Errorf("the report of %s: %w", p.Name, err)
	}
	var out []tree.Archive
	for _, i := range report.Install {
		a := tree.Archive{Package: i.Metadata.Name, Version: i.Metadata.Version, File: path.Base(i.Download.URL),
			SHA256: i.Download.Archive.Hashes["sha256"]}
		if a.SHA256 == "" {
			return nil, fmt.Errorf("the index of %s has no sha256 of %s", p.Name, a.File)
		}
		out = append(out, a)
	}
	return out, nil
}
