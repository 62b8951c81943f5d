// Package initfile makes the gpubuild.toml that `gpubuild init` writes, with what this project and this machine have. Only a [prove] table
// for a program with a matrix product is active and runs a program; nothing in the file downloads.
package initfile

import (
	"context"
	_ "embed"
	"errors"
	"os"
	"sort"
	"strings"
	"text/template"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/lazyregexp"
	"gpubuild/cmd/internal/cargorun"
	"gpubuild/cmd/internal/proof"
	"gpubuild/cmd/internal/session"
	"gpubuild/features"
	"gpubuild/features/manifest"
	"gpubuild/toolchain/cargo"
)

//go:embed gpubuild.toml.tmpl
var file string

// Write writes a file that is not there, whole or not at all; with force it may be there.
func Write(path, text string, force bool) error {
	if force {
		return cache.WriteFile(path, []byte(text), 0o644)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// Text is the file; providers are the CI services that a workflow can be written for. A line that begins with "# " and a key is an example
// that may be used as it stands.
func Text(ctx context.Context, s *session.Session, tool cargo.Tool, providers string) string {
	extra, leading := gpuFeatures(s.Machine.Host, s.Project)
	bins := programNames(ctx, s, tool)
	version := "13.4"
	if found := proof.Toolkits(s.Machine, nil); len(found) > 0 && !found[0].Version.IsZero() {
		version = found[0].Version.String()
	}
	t := template.Must(template.New("").Funcs(template.FuncMap{"join": strings.Join, "quote": quoteAll}).Parse(file))
	var out strings.Builder
	if err := t.Execute(&out, struct {
		Extra, Leading, Bins, Others []string
		Version, Providers           string
	}{extra, leading, bins, bins[min(len(bins), 1):], version, providers}); err != nil {
		panic("gpubuild.toml.tmpl: " + err.Error()) // it is part of the program
	}
	return out.String()
}

// quoteAll writes TOML strings.
func quoteAll(names []string) string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = buildenv.TOMLString(n)
	}
	return strings.Join(out, ", ")
}

// soundsLikeGPU matches a feature's name that means GPU work in most projects.
var soundsLikeGPU = lazyregexp.New(`(?i)(^|[-_])(gpu|cuda|cudnn|nvidia|cublas|tensorrt)(\d*)($|[-_])`)

// gpuFeatures returns two kinds of features of a project's members: those whose names sound like GPU work but that enable no GPU crate,
// and those that enable one under another name than cuda or cudnn, which need not be listed. If a member always needs a GPU crate, no
// feature counts as enabling it.
func gpuFeatures(h buildenv.Host, p *manifest.Project) (extra, leading []string) {
	kinds, asked := map[string]bool{}, manifest.Asked{}
	for _, m := range p.Members {
		always := features.Leads(h, p, m, true)
		for f := range m.Features {
			if f == "default" || f == "cuda" || f == "cudnn" {
				continue
			}
			leads := !always && (asked.IsBackend(f) || features.Leads(h, p, m, true, f))
			if leads || soundsLikeGPU.MatchString(f) {
				kinds[f] = kinds[f] || leads
			}
		}
	}
	for f, leads := range kinds {
		if leads {
			leading = append(leading, f)
		} else {
			extra = append(extra, f)
		}
	}
	sort.Strings(extra)
	sort.Strings(leading)
	return extra, leading
}

// programNames asks cargo for the programs of the workspace; without an answer there are none to name.
func programNames(ctx context.Context, s *session.Session, tool cargo.Tool) []string {
	if tool.Path == "" {
		return nil
	}
	targets, err := cargorun.Targets(ctx, s.Machine, tool, s.Line)
	if err != nil {
		s.Machine.Shell.Detail("the programs are not known: %v", err)
		return nil
	}
	var names []string
	for _, t := range targets {
		if t.Kind == "bin" {
			names = append(names, t.Name)
		}
	}
	return names
}
