package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/local"
	"gpubuild/cmd/internal/console"
	"gpubuild/cmd/internal/pipeline"
	"gpubuild/cmd/internal/report"
	"gpubuild/cmd/internal/session"
	"gpubuild/toolchain/cargo"
)

// TestNoArgumentOfAProgramIsStored tries every flag of ours and of cargo's on each of cargo's subcommands, by name and by alias, with a
// secret where a program's arguments stand.
func TestNoArgumentOfAProgramIsStored(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	var o pipeline.Options
	own := ownFlags(cargoFlags(&o), prefix)
	h := hosttest.Must(local.Host())(t)
	h.Home, h.Cwd = t.TempDir(), t.TempDir()
	h.Env = h.Env.Set("CARGO_HOME", h.Join(h.Home, ".cargo"))
	hosttest.OK(t, os.MkdirAll(filepath.Join(h.Home, ".cargo"), 0o700))
	aliases := "[alias]\n"
	for _, verb := range cargo.VerbNames() {
		aliases += "my-" + verb + " = [\"" + verb + "\", \"--quiet\"]\n"
	}
	hosttest.OK(t, os.WriteFile(filepath.Join(h.Home, ".cargo", "config.toml"), []byte(aliases), 0o600))
	tried := 0
	for _, verb := range cargo.VerbNames() {
		flags := [][]string{nil}
		for name, kind := range own {
			switch kind {
			case cargo.Value:
				flags = append(flags, []string{name, "1"}, []string{name + "=1"})
			case cargo.Optional:
				flags = append(flags, []string{name}, []string{name + "=1"})
			default:
				flags = append(flags, []string{name})
			}
		}
		for _, n := range cargo.Names(verb) {
			if n.Long != "" && n.Value {
				flags = append(flags, []string{"--" + n.Long + "=x"}, []string{"--" + n.Long, "x"})
			} else if n.Long != "" {
				flags = append(flags, []string{"--" + n.Long})
			}
		}
		slices.SortFunc(flags, slices.Compare)
		for _, called := range []string{verb, "my-" + verb} {
			for i, flag := range flags {
				if called != verb && !cargo.PurposeOf(verb).Judged() && i%8 > 0 {
					continue
				}
				if slices.Contains(flag, prefix+"with-args") {
					continue
				}
				lines := [][]string{
					slices.Concat([]string{called}, flag, []string{"--", secret, "--key=" + secret}),
					slices.Concat([]string{"--config", "a.token='" + secret + "'", called}, flag),
					slices.Concat([]string{called, "--config=a.token='" + secret + "'"}, flag),
					slices.Concat([]string{called, "--gpu-bogus"}, flag, []string{"--", secret}),
					slices.Concat([]string{called, "--bogus", secret}, flag),
					slices.Concat([]string{called}, flag, []string{"--bogus=" + secret}),
					slices.Concat([]string{called, "--target-dir", "https://al:" + secret + "@example.org/x"}, flag),
				}
				if verb == "run" {
					lines = append(lines, slices.Concat([]string{called}, flag, []string{secret}),
						slices.Concat([]string{called, secret}, flag), slices.Concat([]string{called}, flag, []string{"a", "--key=" + secret}))
				}
				if verb == "build" || verb == "test" {
					lines = append(lines, slices.Concat([]string{called}, flag, []string{"a", secret}))
				}
				if called != verb {
					lines = slices.Delete(lines, 1, 7) // the alias says nothing new of these
				}
				for _, words := range lines {
					tried++
					a := &invocation{}
					if line, _, err := cargo.Split(words, own); err == nil {
						line, _, _ = cargo.Alias(h, cargo.Tool{Env: h.Env}, line, own)
						a.keep(line)
					}
					stored := strings.Join(report.Redact(words, a.parts), " ")
					if strings.Contains(stored, secret) {
						t.Errorf("%q is stored as %s", words, stored)
					}
					if len(flag) == 1 && called == verb && a.parts != nil && strings.HasPrefix(flag[0], prefix) && words[0] == called &&
						!slices.Contains([]string{"--gpu-prove=1", "--gpu-audit=1"}, flag[0]) && words[1] != secret && !strings.Contains(stored, flag[0]) {
						t.Errorf("%q lost its flag: %s", words, stored)
					}
				}
			}
		}
	}
	for _, v := range verbs() {
		for _, f := range v.flags {
			flag := []string{"--" + f.Name}
			if f.Kind == cargo.Value {
				flag = append(flag, "1")
			}
			if f.Name == "with-args" {
				continue
			}
			words := slices.Concat([]string{v.Name, "PROGRAM"}, flag, []string{"--", secret})
			tried++
			a := &invocation{Machine: &session.Machine{Host: h, Shell: &console.Shell{}}}
			line, _, err := v.split(words[1:])
			if err == nil {
				a.keepParts(line, v.Name)
			}
			if stored := strings.Join(report.Redact(words, a.parts), " "); strings.Contains(stored, secret) || !strings.HasPrefix(stored, "gpubuild "+v.Name+" ") {
				t.Errorf("%q is stored as %s", words, stored)
			}
		}
	}
	if tried < 5000 {
		t.Errorf("only %d lines were tried", tried)
	}
}
