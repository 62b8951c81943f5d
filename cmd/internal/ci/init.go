package ci

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/exit"
	"gpubuild/cmd/internal/cargorun"
	"gpubuild/cmd/internal/config"
	"gpubuild/cmd/internal/elsewhere"
	"gpubuild/cmd/internal/initfile"
	"gpubuild/cmd/internal/session"
	"gpubuild/cmd/internal/tools"
	"gpubuild/features"
	"gpubuild/features/manifest"
	"gpubuild/toolchain/cargo"
)

// Options are the flags of `ci init`.
type Options struct {
	Install  string   // in place of [ci] install
	SHA256   string   // of Install
	Arch     string   // in place of [toolchain] arch
	Runner   []string // the labels (GitHub) or tags (GitLab) of a runner with a GPU
	Place    string   // of --gpu-on
	Programs []string // the arguments of `gpubuild run` for each program to prove
	Attest   bool     // make attestations of their receipts
	Stdout   bool     // print the file
	Force    bool     // replace it
}

// Run writes a workflow of the project, or prints it.
func Run(ctx context.Context, m *session.Machine, l cargo.Line, o Options) error {
	if len(l.Features) > 0 || l.AllFeatures || l.NoDefault || l.HasTargets() || l.Has("--release", "--profile", "--target") {
		return &exit.UsageError{What: "`gpubuild ci init` takes no features, targets or profiles",
			Fix: "it writes a build for each feature that leads to a GPU crate; edit the file"}
	}
	s, err := session.Open(m, l)
	if err == nil {
		s, err = s.WithMetadata(ctx, true)
	}
	if err == nil && o.Place != "" {
		var user config.User
		if user, err = tools.User(m.Host); err == nil {
			_, err = elsewhere.Parse(m.Host, o.Place, s.Config.On.Value, user.On)
		}
	}
	if err == nil {
		o.Install, err = Install(ctx, s, l.Positional[0], o.Install, o.SHA256)
	}
	if err != nil {
		return err
	}
	made, err := Make(s, l.Positional[0], o)
	if err != nil {
		return err
	}
	if len(o.Runner) == 0 && o.Place == "" {
		m.Shell.Note("nothing in this workflow runs on a GPU; add --gpu-runner LABEL,... or --on PLACE")
	}
	if o.Stdout {
		return m.Shell.Data(string(made.Text))
	}
	return made.Write(m, o.Force)
}

// defaultArch is what is built for where nobody names an architecture: newer GPUs run its PTX.
const defaultArch = "sm_80"

// Init is the file of a provider's workflow.
type Init struct {
	Text     []byte
	provider Provider
	root     string // of the repository
}

// mostRows is how many jobs GitHub runs of one matrix.
// Source: docs.github.com, "Running variations of jobs in a workflow".
const mostRows = 256

// Make makes the workflow of a project. Without a way for a runner to get gpubuild there is none: it could only fail.
func Make(s *session.Session, service string, o Options) (Init, error) {
	i := slices.IndexFunc(Providers(), func(p Provider) bool { return p.Name == service })
	if i < 0 {
		return Init{}, &exit.UsageError{What: fmt.Sprintf("no workflow can be written for %.200q", service),
			Fix: "gpubuild ci init " + strings.ReplaceAll(ProviderNames, "|", ", or ")}
	}
	h, provider := s.Machine.Host, Providers()[i]
	w := Workflow{Install: o.Install, Arch: o.Arch, Runner: o.Runner, Place: o.Place, Attest: o.Attest}
	_, w.Trust = s.Config.On.Value[o.Place]
	var chosen []string
	if c := s.Config.CI.Value; c != nil {
		chosen = c.Features
		w.Install, w.Setup, w.Image = cmp.Or(o.Install, strings.TrimSpace(c.Install)), strings.TrimSpace(c.Setup), c.Image
	}
	if w.Install == "" {
		return Init{}, &exit.UsageError{What: "a runner would not know how to get gpubuild",
			Fix: fmt.Sprintf("commit the wheel or archive of a release and name it, or name an https address, here or as [ci] install in "+
				"gpubuild.toml:\n      gpubuild ci init %s --install tools/gpubuild.whl", service)}
	}
	if s.Config.Arch.Origin == "" {
		w.Arch = cmp.Or(w.Arch, defaultArch)
	}
	if len(o.Programs) > 0 && !w.GPU() {
		return Init{}, &exit.UsageError{What: "--prove needs a GPU", Fix: "add --gpu-runner LABEL,..., or for CUDA --on PLACE"}
	}
	if o.Attest && (provider.Name != "github" || len(o.Programs) == 0) {
		return Init{}, &exit.UsageError{What: "--attest needs GitHub, and a proof whose receipt becomes the attestation",
			Fix: "gpubuild ci init github --gpu-runner LABEL,... --prove='--bin app' --attest"}
	}
	root := cmp.Or(h.Repository(s.Project.Root), s.Project.Root)
	// The repository is above, and is named as the beginning of the same path.
	w.Dir = strings.Trim(filepath.ToSlash(strings.TrimPrefix(s.Project.Root, root)), "/")
	asked, names := s.Request(), []string{}
	asked.Workspace = len(asked.Packages) == 0
	members, known := s.Project.Selection(asked)
	for _, m := range members {
		names = append(names, m.Name)
	}
	if !known || len(names) == 0 {
		return Init{}, &exit.UsageError{What: "-p or --exclude selects no package of this workspace", Fix: "leave it out"}
	} else if len(names) < len(s.Project.Members) {
		w.Selected = "-p " + strings.Join(names, " -p ")
	}
	if w.Rows, w.NoDefault = rows(h, s.Project, members, chosen); len(w.Rows) == 0 && len(o.Programs) > 0 { // wgpu needs no feature
		w.Rows = []Row{{Name: "default", Args: cmp.Or(w.Selected, "--workspace")}}
	} else if len(w.Rows) == 0 {
		return Init{}, &exit.UsageError{What: "no feature of this workspace leads to a CUDA crate, so there is nothing to build for a GPU",
			Fix: "see gpubuild features; with wgpu, name a runner and a program: " +
				"--gpu-runner LABEL,... --prove='--bin app --gpu-backend vulkan'"}
	} else if len(w.Rows) > mostRows {
		return Init{}, &exit.UsageError{What: fmt.Sprintf("%d features lead to a GPU crate, and a workflow has at most %d rows", len(w.Rows), mostRows),
			Fix: `name those that matter in gpubuild.toml: [ci] features = ["cuda"]`}
	}
	for _, words := range o.Programs {
		if w.Place != "" && strings.Contains(strings.ReplaceAll(words, "=", " "), "--gpu-backend vulkan") {
			return Init{}, &exit.UsageError{What: "at a place of --on only CUDA is recorded, and `" + words + "` asks for Vulkan",
				Fix: "prove it on a runner with a GPU: --gpu-runner LABEL,..."}
		}
		w.Programs = append(w.Programs, Row{Name: strings.Trim(rowName.ReplaceAllString(words, "-"), "-"), Args: words})
	}
	if marks := s.Config.Test.Value; marks != nil {
		warnUntested(s, marks.GPU, w.Rows)
	}
	return Init{Text: provider.Workflow(w), provider: provider, root: root}, w.check()
}

// warnUntested warns of a mark in a package that no row has: no job would run it.
func warnUntested(s *session.Session, marked []string, rows []Row) {
	for _, p := range s.Project.Members {
		in := func(r Row) bool { return r.Args == "--workspace" || strings.Contains(r.Args+" ", "-p "+p.Name+" ") }
		for _, t := range p.Targets {
			means := func(m string) bool { return config.Matches(m, p.Name, cargorun.TargetKind(t.Kind), t.Name) }
			if slices.ContainsFunc(marked, means) && !slices.ContainsFunc(rows, in) {
				s.Machine.Shell.Warning("%s of %s is marked in [test] gpu, and no row of the workflow tests that package", t.Name, p.Name)
				break
			}
		}
	}
}

// rows are the builds of members: one without features for the packages that always use a GPU, and one for each feature that leads some
// package to it, or that is chosen. needed reports whether the default features lead to CUDA.
func rows(h buildenv.Host, p *manifest.Project, members []*manifest.Package, chosen []string) (out []Row, needed bool) {
	packages := map[string][]string{} // by feature; "" is no feature
	declared := map[string]bool{}
	for _, m := range members {
		always := features.Leads(h, p, m, true)
		if features.Leads(h, p, m, false) {
			packages[""] = append(packages[""], m.Name)
			needed = needed || !always
		}
		leads := map[string]bool{}
		if !always && len(chosen) == 0 {
			leads = leading(h, p, m)
		}
		for f := range m.Features {
			leads := f == "cuda" || f == "cudnn" || leads[f]
			if len(chosen) > 0 {
				leads = slices.Contains(chosen, f)
			}
			if f == "default" || !leads {
				continue
			}
			declared[f] = true
			packages[f] = append(packages[f], m.Name)
		}
	}
	for feature, names := range packages {
		slices.Sort(names)
		r := Row{Name: cmp.Or(rowName.ReplaceAllString(feature, "-"), "default"), Args: "-p " + strings.Join(names, " -p ")}
		if feature == "cudnn" && declared["cuda"] {
			feature = "cuda,cudnn"
		}
		if feature != "" {
			r.Args += " --features " + feature
		}
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b Row) int { return strings.Compare(a.Name, b.Name) })
	return out, needed
}

// leading says of each feature of a member whether it leads to a GPU crate. One that enables another which does so does it, too, and
// what is enabled by one that does not does not: most of a long chain is not asked about.
func leading(h buildenv.Host, p *manifest.Project, m *manifest.Package) map[string]bool {
	enabledBy := map[string][]string{}
	for f, edges := range m.Features {
		for _, to := range edges {
			enabledBy[to] = append(enabledBy[to], f)
		}
	}
	leads := map[string]bool{}
	for f := range m.Features { // what a name alone says holds for no other feature
		if asked := manifest.ParseRequest(manifest.Request{Features: []string{f}}); asked.IsCUDA(f) {
			leads[f] = true
		}
	}
	for f := range m.Features {
		if _, known := leads[f]; known {
			continue
		}
		is, next := features.Leads(h, p, m, true, f), m.Features
		if is {
			next = enabledBy
		}
		for todo := []string{f}; len(todo) > 0; {
			one := todo[len(todo)-1]
			todo = todo[:len(todo)-1]
			_, known := leads[one]
			if _, own := m.Features[one]; known || !own {
				continue
			}
			leads[one] = is
			todo = append(todo, next[one]...)
		}
	}
	return leads
}

// Write writes the workflow. A file that is there and differs is left alone without force, and no symbolic link is followed out of the
// repository.
func (i Init) Write(m *session.Machine, force bool) error {
	shown, name := m.Shown(m.Host.Join(append([]string{i.root}, i.provider.File...)...)), path.Join(i.provider.File...)
	root, err := os.OpenRoot(i.root)
	if err != nil {
		return err
	}
	defer root.Close()
	is, err := root.Stat(name)
	if err == nil && !is.Mode().IsRegular() {
		return fmt.Errorf("%s is not written: it is no file", shown)
	}
	var have []byte
	if err == nil && is.Size() == int64(len(i.Text)) { // one of another size differs, and may be larger than the memory
		have, err = root.ReadFile(name)
	}
	switch {
	case err == nil && bytes.Equal(have, i.Text):
		m.Shell.Status("Unchanged", "%s", shown)
		return nil
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fmt.Errorf("%s is not written: %w", shown, err)
	case !force:
		fix := "--stdout prints what would be written; --force replaces the file"
		if i.provider.Keep != "" {
			fix += "; or " + i.provider.Keep
		}
		return &exit.UsageError{What: shown + " is there already, and differs", Fix: fix}
	}
	file, made := filepath.Join(i.root, filepath.FromSlash(name)), []string{}
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if _, err := root.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
			made = append(made, dir)
		}
	}
	if err = root.MkdirAll(path.Dir(name), 0o755); err != nil {
		err = &cache.WriteError{Path: file, Err: err}
	} else {
		err = initfile.Write(file, string(i.Text), force)
	}
	if err != nil {
		for _, dir := range made {
			_ = root.Remove(dir) // fails where somebody else has put something there, which stays
		}
		return err
	}
	m.Shell.Status("Wrote", "%s", shown)
	return nil
}
