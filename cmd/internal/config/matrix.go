package config

import (
	"fmt"
	"slices"
	"strings"

	"gpubuild/buildenv/lazyregexp"
	"gpubuild/features/manifest"
	"gpubuild/gpu"
)

// Axes are the properties that rows of a matrix differ in. As a filter, an axis that is left out takes every value.
type Axes struct {
	// Sets of features, each as --features takes it; "" is a build without features.
	Features []string `toml:"features"`
	// CUDA versions, such as "13.4". Default: the newest that gpubuild fetches and the crates know.
	CUDA []string `toml:"cuda"`
	// cuDNN: auto (where the features need it), none, or a version such as "9.21". Default: auto.
	CUDNN []string `toml:"cudnn"`
	// Architectures, such as "sm_90". Default: the one that gpubuild chooses on each machine.
	Arch []string `toml:"arch"`
	// Platforms: linux, windows or macos, and x86_64 or aarch64, such as "linux-x86_64".
	Platform []string `toml:"platform"`
	// Cargo profiles. Default: dev.
	Profile []string `toml:"profile"`
}

// Matrix is the [matrix] table: what CI builds, and where it is proven.
type Matrix struct {
	Axes
	// Where the CUDA toolkit comes from: fetch (gpubuild downloads it) or runner (the machine has it). Default: fetch.
	Toolkit string `toml:"toolkit"`
	// Further arguments for cargo.
	CargoArgs []string `toml:"args"`
	// By platform: labels on GitHub, tags on GitLab.
	Runner map[string][]string `toml:"runner"`
	// By CUDA version: the container image in which these rows run.
	Image map[string]string `toml:"image"`
	// By runner label or image: the compilers that it has, such as "gcc 13", if gpubuild does not know them.
	Compilers map[string][]string `toml:"compilers"`
	// Rows to leave out: those that match every axis of one table.
	Exclude []Axes `toml:"exclude"`
	// Further rows. An axis that is left out is that of [matrix].
	Include []Axes `toml:"include"`
	// Machines with a GPU, and the rows that are also proven there.
	Prove []Place `toml:"prove"`
}

// Place is a [[matrix.prove]] table: a kind of machine on which rows are proven, and which rows.
type Place struct {
	Axes
	// The name of the machine; it is part of the names of its rows.
	Name string `toml:"name"`
	// The labels (GitHub) or tags (GitLab) of its runner.
	Runner []string `toml:"runner"`
	// A command to put before the one that proves, such as `srun --gres=gpu:1`.
	Wrapper string `toml:"wrapper"`
	// The version of its driver. Rows that it cannot run are left out.
	Driver string `toml:"driver"`
	// The compute capability of its oldest GPU. Rows that it cannot run are left out.
	Capability string `toml:"capability"`
	// The arguments of the program. Default: those of [prove].
	Args []string `toml:"args"`
}

// CI is the [ci] table: what a workflow needs in addition to the matrix.
type CI struct {
	// Shell commands that install gpubuild on a runner. Required by `gpubuild ci init`.
	Install string `toml:"install"`
	// GitLab: the image of rows for which the matrix names none.
	Image string `toml:"image"`
	// Shell commands that run before everything else, such as the installation of system libraries.
	Setup string `toml:"setup"`
}

// matrixKeys lists what may stand in the tables of this file, for the hint of an unknown key.
const matrixKeys = "[matrix]: features, cuda, cudnn, arch, platform, profile, toolkit, args, runner, image, compilers, exclude, " +
	"include, prove; " +
	"[[matrix.prove]]: name, runner, wrapper, driver, capability, args and the axes; [[matrix.exclude]], " +
	"[[matrix.include]]: the axes (features to profile)"

const ciKeys = "[ci]: install, image, setup"

var (
	cudaForm     = lazyregexp.New(`^\d{1,2}\.\d{1,2}$`)
	cudnnForm    = lazyregexp.New(`^(auto|none|\d{1,2}(\.\d{1,3}){0,3})$`)
	platformForm = lazyregexp.New(`^(linux|windows|macos)-(x86_64|aarch64)$`)
	driverForm   = lazyregexp.New(`^\d{3,4}(\.\d{1,3}){0,2}$`)
	placeForm    = lazyregexp.New(`^[a-z0-9][a-z0-9_-]{0,31}$`)
	compilerForm = lazyregexp.New(`^(gcc|clang|msvc) \d{1,2}(\.\d{1,3})?$`)
)

// checkMatrix refuses values that no row could have, with the line of their key. Values are brought into one form: arch becomes sm_NN.
func (s Source) checkMatrix(m *Matrix) error {
	if m == nil {
		return nil
	}
	bad := func(table, key, format string, args ...any) error {
		return s.wrong(table+"."+key+": "+fmt.Sprintf(format, args...), correctIt, append(strings.Split(table, "."), key)...)
	}
	axes := func(table string, a *Axes) error {
		for i, v := range a.Features { // cargo takes them in any order, with commas or blanks
			words := strings.FieldsFunc(v, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' })
			slices.Sort(words)
			a.Features[i] = strings.Join(slices.Compact(words), ",")
		}
		for i, v := range a.Profile {
			a.Profile[i] = strings.TrimSpace(v)
		}
		for i, v := range a.Arch {
			if parsed, err := gpu.ParseArch(v); err == nil {
				a.Arch[i] = parsed.String()
			}
		}
		for _, axis := range []struct {
			key    string
			values []string
			ok     func(string) bool
			form   string
		}{
			{"features", a.Features, noControl, "features as --features takes them"},
			{"cuda", a.CUDA, cudaForm.MatchString, "a version such as 13.4"},
			{"cudnn", a.CUDNN, cudnnForm.MatchString, "auto, none or a version such as 9.21"},
			{"arch", a.Arch, realArch, "an architecture such as sm_90"},
			{"platform", a.Platform, platformForm.MatchString, "a system with its processor, such as linux-x86_64 or macos-aarch64"},
			{"profile", a.Profile, func(v string) bool { return v != "" && noControl(v) }, "a profile of cargo"},
		} {
			if axis.values != nil && len(axis.values) == 0 {
				return bad(table, axis.key, "an empty list leaves no row; leave the key out for the default")
			}
			for i, v := range axis.values {
				switch {
				case !axis.ok(v):
					return bad(table, axis.key, "%q is not %s", v, axis.form)
				case slices.Contains(axis.values[:i], v):
					return bad(table, axis.key, "%q is listed twice", v)
				}
			}
		}
		return nil
	}
	if err := axes("matrix", &m.Axes); err != nil {
		return err
	}
	source := func(s string) bool { return s == "" || s == "fetch" || s == "runner" }
	if !source(m.Toolkit) {
		return bad("matrix", "toolkit", "%q is neither fetch nor runner", m.Toolkit)
	}
	for platform, labels := range m.Runner {
		if !platformForm.MatchString(platform) || len(labels) == 0 {
			return bad("matrix.runner", platform, "a platform such as linux-x86_64 and its labels are wanted")
		}
		if slices.Contains(labels, "") {
			return bad("matrix.runner", platform, "an empty label names no runner")
		}
	}
	for version, image := range m.Image {
		if !cudaForm.MatchString(version) || image == "" {
			return bad("matrix.image", version, "a CUDA version such as \"12.8\" and its image are wanted")
		}
	}
	for where, list := range m.Compilers {
		for _, c := range list {
			if !compilerForm.MatchString(c) {
				return bad("matrix.compilers", where, "%q is no compiler such as \"gcc 13\" or \"msvc 14.44\"", c)
			}
		}
	}
	for _, list := range []struct {
		table string
		axes  []Axes
	}{{"matrix.exclude", m.Exclude}, {"matrix.include", m.Include}} {
		for i := range list.axes {
			if err := axes(list.table, &list.axes[i]); err != nil {
				return err
			}
			if list.table == "matrix.exclude" && list.axes[i].empty() {
				return bad("matrix", "exclude", "an entry without any axis would leave no row")
			}
		}
	}
	seen := map[string]bool{}
	for i := range m.Prove {
		p := &m.Prove[i]
		if err := axes("matrix.prove", &p.Axes); err != nil {
			return err
		}
		switch {
		case !placeForm.MatchString(p.Name):
			return bad("matrix.prove", "name", "%q: a short name of letters, digits, _ and - is wanted; it becomes part of each row's name",
				p.Name)
		case seen[p.Name]:
			return bad("matrix.prove", "name", "%q names two places", p.Name)
		case p.Driver != "" && !driverForm.MatchString(p.Driver):
			return bad("matrix.prove", "driver", "%q is no driver version such as 580 or 580.65.06", p.Driver)
		case slices.Contains(p.Runner, ""):
			return bad("matrix.prove", "runner", "an empty label names no runner")
		case strings.ContainsRune(p.Wrapper, 0):
			return bad("matrix.prove", "wrapper", "a NUL byte cannot be part of a command")
		}
		seen[p.Name] = true
		if p.Capability != "" {
			c, err := gpu.ParseCapability(p.Capability)
			if err != nil {
				return bad("matrix.prove", "capability", "%v", err)
			}
			p.Capability = c.String()
		}
	}
	return nil
}

func (a Axes) empty() bool {
	return len(a.Features)+len(a.CUDA)+len(a.CUDNN)+len(a.Arch)+len(a.Platform)+len(a.Profile) == 0
}

func noControl(s string) bool { return !strings.ContainsAny(s, "\x00\r\n") }

func realArch(s string) bool {
	p, err := gpu.ParseArch(s)
	return err == nil && !p.Virtual
}

// lineIn finds the line of a key, else that of the nearest table that holds it; 0 if there is none. BurntSushi/toml keeps no positions.
func lineIn(data []byte, path ...string) int {
	keys := manifest.Locate(data)
	for n := len(path); n > 0; n-- {
		if at, ok := keys.At(path[:n]...); ok {
			return at.Line
		}
	}
	return 0
}
