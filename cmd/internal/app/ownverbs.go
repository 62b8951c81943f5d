package app

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/stale"
	"gpubuild/cmd/internal/report"
	"gpubuild/features"
	"gpubuild/gpu"
	"gpubuild/gpu/driver"
	"gpubuild/gpu/fatbin"
	"gpubuild/gpu/verify"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/cuda"
	"gpubuild/toolchain/install"
)

// answer writes a verb's machine-readable answer where it was asked for.
func (a *app) answer(o Options, verb string, ok bool, findings []report.Finding, fields any) error {
	if o.JSON == nil {
		return nil
	}
	data, err := report.Envelope(verb, ok, findings, fields)
	if err != nil {
		return err
	}
	if *o.JSON == "" {
		_, err = a.shell.Out.Write(data)
		return err
	}
	return cache.WriteFile(a.host.Abs(*o.JSON), data, 0o644)
}

// lookAt opens the project that one of our own verbs is about and asks cargo, writing nothing of the user's.
func (a *app) lookAt(ctx context.Context, o Options, l cargo.Line) (*journey, error) {
	a.speakLike(l)
	tool, err := cargo.Find(a.host, l)
	if err != nil {
		return nil, err
	}
	j := &journey{app: a, options: o, line: l, tool: tool, env: a.host.Env}
	if err := j.openProject(); err != nil {
		return nil, err
	}
	if err := j.askOnly(ctx); err != nil {
		return nil, err
	}
	return j, j.judge()
}

func runFeatures(a *app, ctx context.Context, o Options, l cargo.Line) error {
	j, err := a.lookAt(ctx, o, l)
	if err != nil {
		return err
	}
	if o.JSON == nil {
		a.printFeatures(j)
	} else if err := a.answer(o, "features", !j.reach.Stops, j.findings, struct {
		*features.Answer
		Findings struct{} `json:"-"`
	}{Answer: j.reach}); err != nil {
		return err
	}
	if j.reach.Stops {
		return codeError(codeUnreached)
	}
	return nil
}

// printFeatures prints for each root a table of what is linked, then the paths of the features.
func (a *app) printFeatures(j *journey) {
	var b strings.Builder
	for i, r := range j.reach.Roots {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s %s (%s %s), by %s\n", r.Package, r.Version, orWord(r.Kind, "target"), r.Target, j.reach.Via)
		for _, c := range r.Crates {
			state := "off"
			if c.On {
				state = "on"
			}
			fmt.Fprintf(&b, "  %-3s  %-28s %-8s %s\n", state, c.Name+" "+c.Version, c.Backend, strings.Join(c.Features, ","))
			if c.Note != "" {
				fmt.Fprintf(&b, "       %s\n", c.Note)
			}
		}
	}
	for i, w := range j.reach.Paths {
		if i == 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "%s\n", pathLine(w))
	}
	n := needsOf(j.reach)
	if len(n.Because) > 0 {
		b.WriteString("\nto build:\n")
		for _, s := range n.Because {
			fmt.Fprintf(&b, "  %s\n", s)
		}
	}
	if j.reach.Needs.DriverOnly {
		b.WriteString("\nno nvcc and no toolkit is needed: these crates load the driver when they run\n")
	}
	fmt.Fprint(a.shell.Out, b.String())
	for _, f := range j.findings {
		a.shell.Finding(f)
	}
}

func orWord(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// prepared is a journey that has chosen its tools.
func (a *app) prepared(ctx context.Context, o Options, l cargo.Line) (*journey, error) {
	j, err := a.lookAt(ctx, o, l)
	if err != nil {
		return nil, err
	}
	quiet := a.shell.Quiet
	a.shell.Quiet = quiet || !a.shell.Verbose // what was chosen is no part of this verb's answer
	err = j.chooseTools(ctx)
	a.shell.Quiet = quiet
	return j, err
}

func runEnv(a *app, ctx context.Context, o Options, l cargo.Line) error {
	j, err := a.prepared(ctx, o, l)
	if err != nil {
		return err
	}
	if o.JSON != nil {
		return a.answer(o, "env", true, j.findings, struct {
			buildenv.Delta
			Toolkit *cuda.Toolkit `json:"toolkit,omitempty"`
		}{j.delta, j.set.Toolkit})
	}
	if o.Diff {
		for _, c := range j.delta.Changes {
			old, was := a.host.Env.Lookup(c.Name)
			if was {
				fmt.Fprintf(a.shell.Out, "-%s=%s\n", c.Name, old)
			}
			if v, ok := j.env.Lookup(c.Name); ok {
				fmt.Fprintf(a.shell.Out, "+%s=%s\n", c.Name, v)
			}
			fmt.Fprintf(a.shell.Out, " # %s\n", c.Reason)
		}
		return nil
	}
	shell := o.Shell
	if shell == "" {
		shell = usualShell(a.host)
	}
	text, err := buildenv.Export(shell, a.host, a.host.Env, j.delta)
	if err != nil {
		return &usageError{err.Error(), "name a shell with --shell: " + strings.Join(buildenv.Shells(), " ")}
	}
	_, err = fmt.Fprint(a.shell.Out, text)
	return err
}

// usualShell is the shell that the user has, as far as the environment tells.
func usualShell(h buildenv.Host) string {
	if h.OS == buildenv.Windows {
		return "pwsh"
	}
	switch s := h.Base(h.Env.Get("SHELL")); s {
	case "zsh", "fish", "nu":
		return s
	}
	return "bash"
}

func runStale(a *app, ctx context.Context, o Options, l cargo.Line) error {
	j, err := a.prepared(ctx, o, l)
	if err != nil {
		return err
	}
	if err := j.compare(); err != nil {
		return err
	}
	packages := j.stalePackages()
	reasons := j.compared.Reasons
	if reasons == nil {
		reasons = []stale.Reason{}
	}
	type doubt struct {
		Package string `json:"package"`
		Why     string `json:"why"`
	}
	unknown := []doubt{}
	for _, d := range j.compared.Unknown {
		unknown = append(unknown, doubt{d.Package, d.Why})
	}
	if j.recordNote != "" {
		a.shell.Warning("%s: %s", j.recordPath(), j.recordNote)
	}
	if o.JSON != nil {
		if err := a.answer(o, "stale", len(packages) == 0, j.findings, struct {
			Reasons []stale.Reason `json:"reasons"`
			Unknown []doubt        `json:"unknown"`
			Clean   []string       `json:"clean"`
		}{reasons, unknown, packages}); err != nil {
			return err
		}
	} else {
		for _, line := range stale.Lines(reasons) {
			fmt.Fprintln(a.shell.Out, line)
		}
		for _, d := range unknown {
			fmt.Fprintf(a.shell.Out, "unknown: %s: %s\n", d.Package, d.Why)
		}
		if o.Explain {
			for _, u := range j.units {
				fmt.Fprintf(a.shell.Out, "%s [%s] %s\n", u.Package, u.Features, u.OutDir)
				for _, in := range u.Inputs {
					fmt.Fprintf(a.shell.Out, "  %s: %s\n", in.Name, in.Value)
				}
			}
		}
		if len(packages) == 0 {
			a.shell.Status("Fresh", "%d GPU packages were built with what would be used now", len(j.units))
		}
	}
	if len(packages) > 0 {
		return codeError(codeStale)
	}
	return nil
}

func runScan(a *app, _ context.Context, o Options, l cargo.Line) error {
	if len(l.Positional) == 0 {
		return &usageError{"scan needs a file", "gpubuild scan target/release/app"}
	}
	type scanned struct {
		File string `json:"file"`
		*fatbin.Report
	}
	var all []scanned
	for _, path := range l.Positional {
		r, err := fatbin.ScanFile(a.host, a.host.Abs(path), fatbin.WithHash())
		if err != nil {
			return err
		}
		all = append(all, scanned{path, r})
	}
	if o.JSON != nil {
		return a.answer(o, "scan", true, nil, struct {
			Files []scanned `json:"files"`
		}{all})
	}
	var b strings.Builder
	for i, s := range all {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s: %s %s, %s\n", s.File, s.Format, s.Machine, report.Bytes(s.Size))
		for _, im := range s.Images {
			made := ""
			if im.Toolkit != "" {
				made = ", nvcc " + im.Toolkit
			}
			if im.PTXVersion != "" {
				made = ", PTX " + im.PTXVersion
			}
			fmt.Fprintf(&b, "  %#010x  %-8s  %-12s  %s %s%s", im.Offset, im.Kind, im.Arch, im.Compression, report.Bytes(im.Size), made)
			if im.Where != "" {
				fmt.Fprintf(&b, "  in %s", im.Where)
			}
			b.WriteByte('\n')
			for n, k := range im.Kernels {
				if n == 20 && !l.AllTargets {
					fmt.Fprintf(&b, "                … and %d more kernels\n", len(im.Kernels)-n)
					break
				}
				fmt.Fprintf(&b, "                %s\n", k)
			}
		}
		if len(s.Images) == 0 {
			b.WriteString("  no device code (code that is made at run time is not seen)\n")
		}
		for _, im := range s.Imports {
			if strings.HasPrefix(im, "libcu") || strings.HasPrefix(im, "libnv") || strings.HasPrefix(strings.ToLower(im), "nvcuda") {
				fmt.Fprintf(&b, "  loads %s\n", im)
			}
		}
		for _, n := range s.Notes {
			fmt.Fprintf(&b, "  note: %s\n", n)
		}
	}
	_, err := fmt.Fprint(a.shell.Out, b.String())
	return err
}

func runProve(a *app, ctx context.Context, o Options, l cargo.Line) error {
	if len(l.Positional) != 1 {
		return &usageError{"prove needs one program", "gpubuild prove target/release/app -- ARGS"}
	}
	binary := a.host.Abs(l.Positional[0])
	if !a.host.IsFile(binary) {
		if found, err := a.host.LookPath(l.Positional[0]); err == nil && !strings.ContainsAny(l.Positional[0], `/\`) {
			binary = found
		}
	}
	r, err := a.scan(binary)
	if err != nil {
		return err
	}
	a.shell.Status("Scanned", "%s: %s", a.shown(binary), scanLine(r))
	st, err := a.setStage(ctx, o, nil, a.host.Env, binary)
	if err != nil {
		return err
	}
	a.tellLacks(st)
	out := a.shell.Out
	if o.JSON != nil && *o.JSON == "" {
		out = a.shell.Err // stdout belongs to the answer
	}
	p, err := a.prove(ctx, verify.Options{
		Binary: binary, Args: l.Trailing, Env: st.env, CUPTI: st.cupti, Probe: st.probe, Kernel: o.Kernel, ExpectExit: o.ExpectExit,
		Timeout: o.Timeout, Stdin: a.stdin, Stdout: out, Stderr: a.shell.Err, Own: r.Kernels(), Mode: verify.Prove,
	})
	if err != nil {
		return err
	}
	a.tellVerdict(p)
	if err := a.answer(o, "prove", p.Verdict.Kind == verify.Proved, nil, p); err != nil {
		return err
	}
	return outcome(p, o.ExpectExit)
}

// runExec runs any command in the environment of the build of the project here, or, where there is none, of a toolkit that fits nothing in
// particular.
func runExec(a *app, ctx context.Context, o Options, l cargo.Line) error {
	words := l.Trailing
	if !l.HasTrailing || len(words) == 0 {
		return &usageError{"exec needs a command behind --", "gpubuild exec -- maturin build --release"}
	}
	path := words[0]
	if strings.ContainsAny(path, `/\`) {
		path = a.host.Abs(path)
	} else {
		found, err := a.host.LookPath(path)
		if err != nil {
			return &usageError{err.Error(), "install it or give its path"}
		}
		path = found
	}
	j := &journey{app: a, options: o, env: a.host.Env}
	j.reach = &features.Answer{Needs: features.Needs{CUDA: true, NVCC: true, HostCXX: true, CUDALibs: true}}
	if err := j.chooseTools(ctx); err != nil {
		return err
	}
	_, err := a.run.Run(ctx, buildenv.Cmd{Path: path, Args: words[1:], Env: j.env.Entries(), Stdin: a.stdin, Stdout: a.shell.Out, Stderr: a.shell.Err})
	return err
}

func runToolchain(a *app, ctx context.Context, o Options, l cargo.Line) error {
	word, rest := "list", []string(nil)
	if len(l.Positional) > 0 {
		word, rest = l.Positional[0], l.Positional[1:]
	}
	switch word {
	case "list":
		return a.listToolkits(o)
	case "install":
		return a.installToolkit(ctx, o, rest)
	case "verify", "remove":
		return a.tendToolkits(ctx, word, rest)
	}
	return &usageError{fmt.Sprintf("toolchain knows no %q", word), "list, install [VERSION], verify [NAME], remove NAME"}
}

func (a *app) listToolkits(o Options) error {
	installed := install.Installed(a.host, a.cacheDir)
	var extra []cuda.Candidate
	for _, in := range installed {
		extra = append(extra, cuda.Candidate{Root: in.Root, Origin: "gpubuild's cache"})
	}
	found := cuda.Find(a.host, extra)
	if o.JSON != nil {
		type entry struct {
			Name string `json:"name"`
			Root string `json:"root"`
		}
		mine := []entry{}
		for _, in := range installed {
			mine = append(mine, entry{in.Name, in.Root})
		}
		if found == nil {
			found = []cuda.Toolkit{}
		}
		return a.answer(o, "toolchain", true, nil, struct {
			Installed []entry        `json:"installed"`
			Toolkits  []cuda.Toolkit `json:"toolkits"`
		}{mine, found})
	}
	for _, t := range found {
		line := fmt.Sprintf("%-8s %s (%s)", t.Version, t.Root, t.Origin)
		if t.Problem != "" {
			line += ": " + t.Problem
		} else if len(t.Missing) > 0 {
			line += ": without " + strings.Join(t.Missing, ", ")
		}
		fmt.Fprintln(a.shell.Out, line)
	}
	if len(found) == 0 {
		a.shell.Note("no CUDA toolkit in %s", strings.Join(cuda.UsualPlaces(a.host), ", "))
		a.shell.Hint("gpubuild toolchain install fetches one into your cache")
	}
	return nil
}

func (a *app) installToolkit(ctx context.Context, o Options, rest []string) error {
	want := install.Want{LinkStubs: true}
	if len(o.Parts) > 0 {
		want.Parts = append(install.Default(), o.Parts...)
	}
	if len(rest) > 0 {
		v, err := gpu.ParseVersion(rest[0])
		if err != nil {
			return &usageError{err.Error(), "gpubuild toolchain install 13.4"}
		}
		want.Exact = v
	}
	if d := driver.Version(a.host); d.Version != "" {
		want.MaxVersion, want.MaxBecause = d.CUDA, "the newest that driver "+d.Version+" supports"
	}
	catalog, err := install.DefaultCatalog()
	if err != nil {
		return err
	}
	plan, err := install.MakePlan(catalog, a.host, a.cacheDir, want)
	if err != nil {
		return err
	}
	root, err := a.carryOut(ctx, plan)
	if err != nil {
		return err
	}
	fmt.Fprintln(a.shell.Out, root)
	return nil
}

func (a *app) tendToolkits(ctx context.Context, word string, names []string) error {
	installed := install.Installed(a.host, a.cacheDir)
	if word == "remove" && len(names) == 0 {
		return &usageError{"remove needs the name of a toolkit", "gpubuild toolchain list --json names them"}
	}
	done, damaged := 0, 0
	for _, in := range installed {
		if len(names) > 0 && !contains(names, in.Name) && !contains(names, in.Root) {
			continue
		}
		done++
		if word == "remove" {
			if err := install.Remove(ctx, a.host, a.cacheDir, in.Name); err != nil {
				return err
			}
			a.shell.Status("Removed", "%s", in.Root)
			continue
		}
		problems, err := install.Verify(ctx, a.host, in)
		if err != nil {
			return err
		}
		for _, p := range problems {
			a.shell.Error("%s", p)
			damaged++
		}
		if len(problems) == 0 {
			a.shell.Status("Verified", "%s", in.Root)
		}
	}
	if damaged > 0 {
		a.shell.Hint("remove the toolkit with `gpubuild toolchain remove NAME` and install it again")
		return codeError(codeMissing)
	}
	if done == 0 && len(names) > 0 {
		return &usageError{"no toolkit of ours is called " + strings.Join(names, ", "), "gpubuild toolchain list --json names them"}
	}
	return nil
}

func runCache(a *app, _ context.Context, o Options, l cargo.Line) error {
	word := "dir"
	if len(l.Positional) > 0 {
		word = l.Positional[0]
	}
	switch word {
	case "dir":
		if o.JSON != nil {
			return a.answer(o, "cache", true, nil, struct {
				Dir string `json:"dir"`
			}{a.cacheDir})
		}
		fmt.Fprintln(a.shell.Out, a.cacheDir)
		return nil
	case "clean":
		// Only what is ours goes: the cache may be a directory that the user named, with other things in it.
		for _, name := range cacheParts {
			if err := os.RemoveAll(filepath.Join(a.cacheDir, name)); err != nil {
				return fmt.Errorf("cache: %w", err)
			}
		}
		a.shell.Status("Removed", "%s", a.cacheDir)
		return a.answer(o, "cache", true, nil, nil)
	}
	return &usageError{fmt.Sprintf("cache knows no %q", word), "gpubuild cache dir, or gpubuild cache clean"}
}

// cacheParts is everything that gpubuild writes into its cache.
var cacheParts = []string{"answers", "cargo", "hashes.json", "locks", "probe", "runs", "scans", "toolkits", "wheels"}

// version is what this gpubuild is: the tag it was installed by, or the commit.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v := info.Main.Version
	if v == "" || v == "(devel)" {
		v = "devel"
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" && len(s.Value) >= 12 {
				v += "-" + s.Value[:12]
			}
		}
	}
	return v
}

func runVersion(a *app, _ context.Context, o Options, _ cargo.Line) error {
	info, _ := debug.ReadBuildInfo()
	libs := map[string]string{}
	goVersion := ""
	if info != nil {
		goVersion = info.GoVersion
		for _, d := range info.Deps {
			libs[d.Path] = d.Version
		}
	}
	if o.JSON != nil {
		return a.answer(o, "version", true, nil, struct {
			Version   string            `json:"version"`
			Go        string            `json:"go"`
			NVML      string            `json:"nvml"`
			Libraries map[string]string `json:"libraries"`
		}{version(), goVersion, driver.Means(), libs})
	}
	_, err := fmt.Fprintf(a.shell.Out, "gpubuild %s (%s, GPU inventory by %s)\n", version(), goVersion, driver.Means())
	return err
}
