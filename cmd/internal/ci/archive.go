package ci

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/cmd/internal/archive"
	"gpubuild/cmd/internal/bundle"
	"gpubuild/cmd/internal/cargorun"
	"gpubuild/cmd/internal/origin"
	"gpubuild/cmd/internal/proof"
	"gpubuild/cmd/internal/version"
	"gpubuild/gpu"
	"gpubuild/gpu/probe"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/cuda"
	"gpubuild/toolchain/install/tree"
)

// Archive is the file that a compile row leaves for the rows that prove it, below the workspace's root.
func Archive(id string) string { return path.Join("target", "gpubuild-ci", "archives", id+".tar") }

// pack makes the archive of a compile row: what its build made, the libraries that it loads, and what proves it.
func (p *Plan) pack(ctx context.Context, row Row) error {
	m := p.session.Machine
	program, err := p.built(ctx, row)
	if err != nil {
		return err
	}
	toolkits := proof.Toolkits(m, nil)
	slices.SortStableFunc(toolkits, func(a, b cuda.Toolkit) int { // the row's own first
		rank := map[bool]int{true: 0, false: 1}
		return rank[a.Version.String() == row.CUDA] - rank[b.Version.String() == row.CUDA]
	})
	made, err := proof.BuildProbe(ctx, m, probe.CUDA)
	if err != nil {
		return err
	}
	sources := []archive.Source{{Path: m.Host.Exe("gpubuild"), From: m.Self, Run: true},
		{Path: "bin/" + m.Host.Base(program), From: program, Run: true}}
	for _, file := range []string{made.Library, made.Control, made.Watch} {
		sources = append(sources, archive.Source{Path: "probe/" + m.Host.Base(file), From: file, Run: true})
	}
	o := bundle.Options{Program: program, Dir: program + "-bundle", DryRun: true}
	if len(toolkits) > 0 {
		o.Toolkit = &toolkits[0]
	}
	bundled, err := bundle.Make(ctx, m, o)
	if err != nil {
		return err
	}
	man := archive.Manifest{Gpubuild: version.Number(), Platform: row.Platform, Program: sources[1].Path,
		Origin: origin.Of(ctx, m.Host, m.Runner, p.session.Project.Root), Proofs: []archive.Proof{}}
	man.Origin.Row = row.ID
	if cupti := proof.PickCUPTI(toolkits, p.oldestDriver(row)); cupti != "" {
		man.CUPTI = "cupti/" + m.Host.Base(cupti)
		sources = append(sources, archive.Source{Path: man.CUPTI, From: cupti})
	} else {
		m.Shell.Warning("no CUPTI is here to be packed: the machine that proves %s needs one", row.ID)
	}
	libraries := 0
	for _, f := range bundled.Files[1:] { // the first is the program
		if f.From != "" { // nothing that a bundle has of its own
			libraries++
			sources = append(sources, archive.Source{Path: "lib/" + path.Base(f.Name), From: f.From})
		}
	}
	var args []string
	if want := p.session.Config.Prove.Value; want != nil {
		man.Asked = archive.Asked{Kernel: want.Kernel.Expression(), ExpectExit: want.ExpectExit}
		args = want.Args
	}
	for _, r := range p.Matrix.Rows {
		if r.Compile == row.ID {
			if len(r.Args) == 0 {
				r.Args = args
			}
			man.Proofs = append(man.Proofs, archive.Proof{Row: r.ID, Args: r.Args, Wrapper: r.Wrapper})
		}
	}
	to := m.Host.Join(p.session.Project.Root, Archive(row.ID))
	if err := os.MkdirAll(m.Host.Dir(to), 0o755); err != nil {
		return err
	}
	if man, err = archive.Write(to, man, sources); err != nil {
		return err
	}
	m.Shell.Status("Archived", "%s: %s, libraries: %d, %s", m.Shown(to), m.Host.Base(program), libraries,
		tree.Size(man.Size()))
	return nil
}

// oldestDriver is the newest CUDA that every driver takes on which the row is proven, as far as they are known.
func (p *Plan) oldestDriver(row Row) (limit gpu.Version) {
	for _, r := range p.Matrix.Rows {
		if r.Compile == row.ID && r.Driver != "" {
			if v := driverSupports(r); limit.IsZero() || !v.IsZero() && v.Compare(limit) < 0 {
				limit = v
			}
		}
	}
	return limit
}

// built asks the row's build, which has nothing left to do, for the program that is to be proven.
func (p *Plan) built(ctx context.Context, row Row) (string, error) {
	m := p.session.Machine
	var programs []cargorun.Program
	var said bytes.Buffer
	messages := &cargo.LineWriter{Each: func(c cargo.Message) {
		if c.Reason == cargo.Artifact && c.Executable != "" && !c.Profile.Test && !slices.Contains(c.Target.Kind, "custom-build") {
			programs = append(programs, cargorun.Program{Path: c.Executable, Name: c.Target.Name, Kind: strings.Join(c.Target.Kind, "+")})
		}
	}, Other: func([]byte) {}}
	args := append([]string{"build", "--message-format=json-render-diagnostics"}, row.build()...)
	c := p.command(Step{Args: args, Env: row.env()}, messages)
	c.Stderr = &said
	res, err := m.Runner.Run(ctx, c)
	if closed := messages.Close(); err == nil {
		err = closed
	}
	if _, ok := errors.AsType[*buildenv.ExitError](err); ok {
		_, _ = io.Copy(m.Shell.Err, &said) // the failure's own words
	}
	if err := ended(res, err); err != nil {
		return "", err
	}
	want := p.session.Config.Prove.Value
	if chosen := proof.Chosen(programs, want); chosen != nil {
		return chosen.Path, nil
	}
	var names []string
	for _, one := range programs {
		names = append(names, one.Name)
	}
	return "", p.wrong(fmt.Sprintf("%s is to be proven, and it is not clear which of its programs: %s", row.ID, strings.Join(names, ", ")),
		"name one: bin in [prove] of gpubuild.toml, or args = [\"--bin=NAME\"] in [matrix]")
}

// ArchiveRow is pack for a row by its ID.
func (p *Plan) ArchiveRow(ctx context.Context, id string) error {
	row, why, ok := p.Matrix.Find(id)
	switch {
	case !ok:
		return unknownRow(id)
	case why != "":
		return &LeftOutError{id, "left out: " + why, "gpubuild ci matrix lists the rows that can work"}
	case row.Kind != Compile:
		return &exit.UsageError{What: id + " proves what " + row.Compile + " compiles", Fix: "gpubuild ci archive " + row.Compile}
	}
	return p.pack(ctx, row)
}
