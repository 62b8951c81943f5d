package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"sort"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/cmd/internal/cargorun"
	"gpubuild/cmd/internal/ci"
	"gpubuild/cmd/internal/config"
	"gpubuild/cmd/internal/proof"
	"gpubuild/cmd/internal/session"
	"gpubuild/features/manifest"
	"gpubuild/toolchain/cargo"
)

// What the flags of init and ci init mean.
const (
	printOnly = "init, ci init: print the file and write none"
	replace   = "init, ci init: replace a file that is there"
)

func initVerb() verb {
	var o InitOptions
	return verb{
		name: "init", usage: "write a gpubuild.toml with every key, commented and filled in; cargo's own is `gpubuild cargo init`",
		text: "gpubuild init\ngpubuild init --stdout\n\n" +
			"It stands in front of cargo's init: a new package is made by `gpubuild cargo init`. A gpubuild.toml that is there " +
			"stays, unless\nwith --force. Nothing that runs or fetches is turned on by it.",
		project: true,
		flags:   append([]*flag{toggle("stdout", printOnly, &o.Stdout), toggle("force", replace, &o.Force)}, answerFlag(&o.Options)...),
		run: func(ctx context.Context, a *invocation, l cargo.Line) error {
			return runInit(ctx, a, o, l)
		},
	}
}

const configName = "gpubuild.toml"

// runInit writes a configuration in which every key stands, with what this project and this machine have.
// InitOptions are the flags of init.
type InitOptions struct {
	Options
	Stdout bool // print the file and write none
	Force  bool // replace a file that is there
}

func runInit(ctx context.Context, a *invocation, o InitOptions, l cargo.Line) error {
	const cargos = "for a new package: gpubuild cargo init"
	if len(l.Positional) > 0 || l.Lib || len(l.Bin) > 0 || l.Bins {
		return &usageError{"gpubuild init writes gpubuild.toml for a project that is there, and takes no path", cargos}
	}
	tool, _ := cargo.Find(a.Host, l) // without cargo the programs are not known, and nothing else is lost
	s, err := session.Open(a.Machine, l)
	if err != nil {
		var none *manifest.NotFoundError
		if errors.As(err, &none) {
			a.Shell.Note("%s", cargos)
		}
		var conf *config.Error
		if !errors.As(err, &conf) || !o.Force && !o.Stdout { // a broken gpubuild.toml may be replaced
			return err
		}
	}
	text := initText(ctx, s, tool)
	type made struct {
		Path string `json:"path"`
		Text string `json:"text"`
	}
	path := a.Host.Join(s.Project.Root, configName)
	if o.Stdout {
		if o.JSON != nil {
			return a.answer(o.Options, "init", true, nil, made{path, text})
		}
		_, err := io.WriteString(a.Shell.Out, text)
		return err
	}
	if err := writeNew(path, text, o.Force); err != nil {
		if errors.Is(err, fs.ErrExist) {
			if a.Host.IsDir(path) {
				return &usageError{a.Shown(path) + " is a directory", "move it: gpubuild.toml is a file"}
			}
			return &usageError{
				a.Shown(path) + " is there already",
				"gpubuild init --stdout shows what would be written; --force writes it in place of yours",
			}
		}
		return err
	}
	a.Shell.Status("Created", "%s", a.Shown(path))
	return a.answer(o.Options, "init", true, nil, made{path, text})
}

// writeNew writes a file that is not there, whole or not at all; with force it may be there.
func writeNew(path, text string, force bool) error {
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

// initText is the file. A line that begins with "# " and a key is an example that may be used as it stands.
func initText(ctx context.Context, s *session.Session, tool cargo.Tool) string {
	extra, leading := gpuFeatures(s.Project)
	bins := programNames(ctx, s, tool)
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	say("# How gpubuild builds and proves this project; `gpubuild help config` says what each key means.")
	say("")
	if len(leading) > 0 {
		say("# Known without being named, because they lead to GPU crates: %s", strings.Join(leading, ", "))
	}
	if len(extra) > 0 {
		say(
			"# These sound like GPU work and lead to no GPU crate by themselves: a build that asks for them is checked like one with cuda.",
		)
		say("gpu-features = [%s]", quoteAll(extra))
	} else {
		say("# Further features that ask for GPU work; cuda and cudnn need not be named.")
		say("# gpu-features = [\"gpu\"]")
	}
	say("")
	say("# Warnings of the feature check stop the build, too.")
	say("# strict = true")
	say("")
	version, arch := "13.4", "sm_80"
	if found := proof.Toolkits(s.Machine, nil); len(found) > 0 && !found[0].Version.IsZero() {
		version = found[0].Version.String()
	}
	say("[toolchain]")
	say("# A version or a root. Left out, the newest that fits the crates, the driver and the host compiler is taken.")
	say("# cuda = %q", version)
	say("# What to build for. Left out, the GPU of the machine decides; in CI there is none, so name it here or with --gpu-arch.")
	say("# arch = %q", arch)
	say("")
	say("# With this table each `gpubuild build` runs what it built, under the probe, and ends with 0 only when its kernel ran on a GPU.")
	switch bin, why := proof.ProductProgram(s, bins); {
	case bin != "":
		say("# %s has a matrix product: %s.", bin, why)
		say("[prove]")
		say("bin = %q", bin)
	case len(bins) == 0:
		say("# [prove]")
		say("# bin = \"app\"")
	case len(bins) == 1:
		say("# [prove]")
		say("# bin = %q", bins[0])
	default:
		say("# [prove]")
		say("# bin = %-24q # or %s", bins[0], strings.Join(bins[1:], ", "))
	}
	say("# args = [\"--device\", \"cuda\"]")
	say("# kernel = \"matmul\"            # a regular expression, or a list; left out: a matrix product")
	say("# expect-exit = 0")
	say("")
	say(
		"# With this table `gpubuild test` fails where one of these test targets did not run a kernel on the GPU; [bench] does " +
			"the same for bench.",
	)
	say("# [test]")
	say("# gpu = [\"kernels\", \"integration-*\"]")
	say("# kernel = \"matmul\"")
	say("")
	say(
		"# What CI builds: a row for each combination; `gpubuild ci matrix` shows the rows, `gpubuild ci init %s` writes a "+
			"workflow that runs them.",
		ci.ProviderNames("|"),
	)
	say("# [matrix]")
	say("# features = [\"cuda\"]")
	say("# cuda = [%q]", minorOf(version))
	say("# arch = [%q]", arch)
	say("# A kind of machine with a GPU, on which the rows are proven.")
	say("# [[matrix.prove]]")
	say("# name = \"gpu\"")
	say("# runner = [\"self-hosted\", \"linux\", \"gpu\"]")
	say("# driver = \"580\"")
	say("# capability = %q", "8.0")
	say("# What a job needs before gpubuild can run.")
	say("# [ci]")
	say("# setup = \"apt-get update && apt-get install -y gcc\"")
	return b.String()
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
var soundsLikeGPU = regexp.MustCompile(`(?i)(^|[-_])(gpu|cuda|cudnn|nvidia|cublas|tensorrt)(\d*)($|[-_])`)

// gpuFeatures sorts the features of a project's members: those that sound like GPU work and lead nowhere, and those that lead to a GPU
// crate by another name than cuda or cudnn, which need not be named. Where a member needs a GPU crate in any case, no feature can be told
// to lead there.
func gpuFeatures(p *manifest.Project) (extra, leading []string) {
	kinds := map[string]bool{}
	for _, m := range p.Members {
		always, _ := p.GPUWork(manifest.Request{Packages: []string{m.Name}, NoDefault: true})
		for f := range m.Features {
			if f == "default" || f == "cuda" || f == "cudnn" {
				continue
			}
			leads := false
			if !always {
				leads, _ = p.GPUWork(manifest.Request{Packages: []string{m.Name}, NoDefault: true, Features: []string{f}})
			}
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

// minorOf leaves major and minor of a version, as the matrix names toolkits.
func minorOf(version string) string {
	parts := strings.Split(version, ".")
	return strings.Join(parts[:min(len(parts), 2)], ".")
}
