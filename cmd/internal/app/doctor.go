package app

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/finding"
	"gpubuild/buildenv/local"
	"gpubuild/buildenv/saved"
	"gpubuild/cmd/internal/doctor"
	"gpubuild/cmd/internal/fresh"
	"gpubuild/cmd/internal/proof"
	"gpubuild/cmd/internal/report"
	"gpubuild/cmd/internal/session"
	"gpubuild/cmd/internal/tools"
	"gpubuild/features"
	"gpubuild/features/manifest"
	"gpubuild/toolchain"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/hostcc"
)

// DoctorOptions are the flags of doctor.
type DoctorOptions struct {
	Options
	Prove bool   // what the machine is to be good for: proofs, too
	Save  string // the file to write the machine into
}

func runDoctor(a *app, ctx context.Context, o DoctorOptions, l cargo.Line) error {
	var save *savedMachine
	if o.Save != "" {
		var err error
		if a, save, err = a.overheard(o.Save); err != nil {
			return err
		}
	}
	f, err := a.doctorFacts(ctx, o, l)
	if err != nil {
		return err
	}
	if err := cache.Make(a.CacheDir); err != nil && f.CacheWhy == "" { // a project may not have been looked at, or only parts of the cache
		f.CacheWhy, f.CacheFix = err.Error(), exit.Hint(err)
	}
	checks := doctor.Run(f)
	if save != nil {
		if err := save.write(checks); err != nil {
			return err
		}
	}
	var findings []finding.Finding
	for _, c := range checks {
		if c.State == doctor.Missing || c.State == doctor.Misfit || c.State == doctor.Warning {
			severity := finding.Error
			if c.State == doctor.Warning {
				severity = finding.Warning
			}
			findings = append(findings, finding.Finding{ID: c.ID, Severity: severity, Message: c.Says, Fix: c.Fix, Evidence: strings.Join(c.Places, ", ")})
		}
	}
	worst := doctor.Worst(checks)
	if o.JSON == nil {
		if _, err := fmt.Fprint(a.Shell.Out, doctorText(checks)); err != nil {
			return err
		}
	}
	var end error
	switch worst {
	case doctor.Missing:
		end = exit.Code(exit.Missing)
	case doctor.Misfit:
		end = exit.Code(exit.Misfit)
	}
	r := report.Result{Verb: "doctor", Project: f.Project, Findings: findings}
	for _, c := range checks {
		state := map[doctor.State]string{doctor.Missing: report.Failed, doctor.Misfit: report.Failed, doctor.Info: report.Skipped}[c.State]
		r.Checks = append(r.Checks, report.Check{ID: c.ID, State: orWord(state, report.Passed), Message: c.Says, Detail: c.Fix})
	}
	return a.end(o.Options, end, r, struct {
		Checks []doctor.Check `json:"checks"`
	}{checks})
}

// doctorText words the checks for a person.
func doctorText(checks []doctor.Check) string {
	var b strings.Builder
	for _, c := range checks {
		fmt.Fprintf(&b, "%s %-14s %s\n", c.Mark(), c.ID, strings.ReplaceAll(c.Says, "\n", "\n    "))
		if c.State == doctor.OK || c.State == doctor.Info {
			continue
		}
		if c.Breaks != "" {
			fmt.Fprintf(&b, "    without it: %s\n", c.Breaks)
		}
		for _, p := range c.Places {
			fmt.Fprintf(&b, "    looked at: %s\n", p)
		}
		if c.Fix != "" {
			fmt.Fprintf(&b, "    fix: %s\n", c.Fix)
		}
	}
	return b.String()
}

// doctorFacts gathers what the checks look at. A part that cannot be found out is a fact, too: doctor completes on a bare machine.
func (a *app) doctorFacts(ctx context.Context, o DoctorOptions, l cargo.Line) (doctor.Facts, error) {
	f := doctor.Facts{Prove: o.Prove, WSL: a.Host.IsWSL(), Host: a.Host, Cache: a.CacheDir}
	tool, err := cargo.Find(a.Host, l)
	if err != nil {
		f.CargoWhy, f.CargoFix = err.Error(), exit.Hint(err)
	} else if res, err := a.Runner.Run(ctx, cargo.Version(tool, l)); err != nil {
		f.CargoWhy = err.Error()
	} else if v, ok := cargo.ParseVersion(res.Stdout); ok {
		f.Cargo = v.Text + " (" + tool.Origin + " " + tool.Path + ")"
		f.Target = v.Host
	}
	if len(l.Target) > 0 {
		f.Target = cargo.Triple(l.Target[0], f.Target)
	}
	j := &journey{app: a, options: o.Options, Line: l, Tool: tool, Tools: tools.Tools{Env: a.Host.Env}}
	f.Needs = toolchain.Needs{CUDA: true, NVCC: true, HostCompiler: true}
	f.ProjectWhy = "there is no cargo to ask"
	if f.Cargo != "" {
		looked, err := a.lookAtPlaces(ctx, o.Options, l)
		var none *manifest.NotFoundError
		switch {
		case err == nil:
			j = looked
			j.Needs = tools.NeedsOf(j.reach)
			f.Project, f.Needs = a.Shown(j.Project.Manifest), j.Needs
		case errors.As(err, &none):
			f.ProjectWhy = err.Error()
		case isInterrupted(err):
			return f, err
		default: // in cargo's words, which repeat the address of a git dependency with its password
			f.ProjectWhy, f.ProjectFix, f.ProjectBad = saved.Text(a.Host.Env, err.Error()), exit.Hint(err), true
			var unwritable *cache.ReadOnlyError
			var open *cache.OpenError
			if errors.As(err, &unwritable) || errors.As(err, &open) {
				f.ProjectWhy, f.ProjectFix = "cargo's answers have no place (see cache)", ""
				if unwritable != nil {
					f.CacheWhy, f.CacheFix = unwritable.Error(), unwritable.Hint()
				} else {
					f.CacheWhy, f.CacheFix = open.Error(), open.Hint()
				}
			}
		}
	}
	if j.reach == nil {
		j.reach = &features.Answer{Needs: features.Needs{CUDA: true, NVCC: true, HostCXX: true}}
		j.Needs = f.Needs
	}
	if o.Toolkit == "fetch" || o.Toolkit == "" && a.Host.Env.Get("GPUBUILD_CUDA") == "fetch" {
		return f, &usageError{"doctor fetches nothing", "gpubuild toolchain install"}
	}
	s := j.session
	if s == nil {
		s = &session.Session{Machine: a.Machine}
	}
	s = s.With(l)
	options := toolOptions(o.Options)
	options.BuiltFor = fresh.BuiltFor(j.Machine, j.graph.Places)
	_, options.NoMemory = a.Runner.(heard) // what is saved of a machine is what its programs say
	found, err := tools.Discover(ctx, s, j.graph, j.Needs, options)
	if err != nil {
		return f, err
	}
	j.Facts, f.Notes = found.Facts, found.DriverNotes
	f.FreeDisk = a.freeDisk(j)
	f.Chosen, f.ChooseErr = toolchain.Choose(j.Facts, j.Needs, found.Wish)
	f.Toolchain = j.Facts
	var libraryNotes []string
	f.RunLibraries, f.RunDirs, libraryNotes = j.runLibraries(f.Chosen)
	for _, n := range libraryNotes {
		a.Shell.Detail("%s", n)
	}
	f.CUPTI = proof.PickCUPTI(a.toolkits(f.Chosen.Toolkit), j.Facts.Driver.CUDA)
	for _, c := range j.Facts.Compilers {
		if c.Problem == "" && f.Compiler == "" && c.Kind != hostcc.MSVC {
			f.Compiler = c.Named()
		}
	}
	if j.Facts.MSVC != nil {
		if c, ok := proof.VisualCompiler(a.Host, *j.Facts.MSVC); ok {
			f.Compiler = c.Path
		}
	}
	f.StubsOn = j.stubsOnPath()
	f.Linked = tools.LinkedLibraries(j.reach)
	f.Unlinkable = tools.Unlinkable(s, tool, j.reach, f.Chosen, a.Host.Env)
	return f, nil
}

// freeDisk looks at the file system on which cargo will build.
func (a *app) freeDisk(j *journey) uint64 {
	dir := a.Host.Cwd
	if j.Project != nil {
		dir = j.Project.Root
	}
	if built := j.graph.Places.BuildDirectory; built != "" && a.Host.IsDir(built) {
		dir = built
	}
	return local.FreeSpace(dir)
}
