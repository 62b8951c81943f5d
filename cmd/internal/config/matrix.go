package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"gpubuild/gpu"
)

// Axes are the properties that rows of a matrix differ in. As a filter, an axis that is left out takes every value.
type Axes struct {
	Features []string `toml:"features"` // feature sets, each as --features takes it
	CUDA     []string `toml:"cuda"`     // major.minor
	CUDNN    []string `toml:"cudnn"`    // auto, none, or a version such as 9.21
	Arch     []string `toml:"arch"`     // sm_NN
	Platform []string `toml:"platform"` // linux-x86_64
	Profile  []string `toml:"profile"`  // dev, release, …
}

// Matrix is the [matrix] table: what CI builds, and where it is proven.
type Matrix struct {
	Axes
	Toolkit   string              `toml:"toolkit"`   // fetch or runner
	CargoArgs []string            `toml:"args"`      // further words for cargo
	Runner    map[string][]string `toml:"runner"`    // by platform
	Image     map[string]string   `toml:"image"`     // by CUDA version
	Compilers map[string][]string `toml:"compilers"` // by runner label or image: "gcc 13"
	Exclude   []Axes              `toml:"exclude"`
	Include   []Axes              `toml:"include"`
	Prove     []Place             `toml:"prove"`
}

// Place is a [[matrix.prove]] table: a kind of machine on which rows are proven, and which rows.
type Place struct {
	Axes
	Name       string   `toml:"name"`
	Runner     []string `toml:"runner"`
	Wrapper    string   `toml:"wrapper"`    // put before the command: srun --gres=gpu:1
	Driver     string   `toml:"driver"`     // version of its driver
	Capability string   `toml:"capability"` // of its lowest GPU
	Toolkit    string   `toml:"toolkit"`    // fetch or runner; left out: as in [matrix]
	Args       []string `toml:"args"`       // of the program; left out: those of [prove]
}

// CI is the [ci] table: what a workflow needs beside the matrix.
type CI struct {
	Install string `toml:"install"` // shell commands that put gpubuild on PATH
	Image   string `toml:"image"`   // GitLab: the image of jobs that the matrix names none for
	Setup   string `toml:"setup"`   // shell commands before everything else, such as what a bare image lacks
}

// matrixKeys lists what may stand in the tables of this file, for the hint of an unknown key.
const matrixKeys = "[matrix]: features, cuda, cudnn, arch, platform, profile, toolkit, args, runner, image, compilers, exclude, " +
	"include, prove; " +
	"[[matrix.prove]]: name, runner, wrapper, driver, capability, toolkit, args and the axes; [[matrix.exclude]], " +
	"[[matrix.include]]: the axes (features to profile)"

const ciKeys = "[ci]: install, image, setup"

var (
	cudaForm     = regexp.MustCompile(`^\d{1,2}\.\d{1,2}$`)
	cudnnForm    = regexp.MustCompile(`^(auto|none|\d{1,2}(\.\d{1,3}){0,3})$`)
	platformForm = regexp.MustCompile(`^(linux|windows)-(x86_64|aarch64)$`)
	driverForm   = regexp.MustCompile(`^\d{3,4}(\.\d{1,3}){0,2}$`)
	placeForm    = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,31}$`)
	compilerForm = regexp.MustCompile(`^(gcc|clang|msvc) \d{1,2}(\.\d{1,3})?$`)
)

// checkMatrix refuses values that no row could have, with the line of their key. Values are brought into one form: arch becomes sm_NN.
func (s Source) checkMatrix(m *Matrix, below []string) error {
	bad := func(table, key, format string, args ...any) error {
		return &Error{
			Path:    s.Path,
			Line:    lineIn(s.Data, append(append([]string(nil), below...), append(strings.Split(table, "."), key)...)),
			Problem: table + "." + key + ": " + fmt.Sprintf(format, args...),
			Fix:     "mend the value, or see `gpubuild help config`",
		}
	}
	axes := func(table string, a *Axes) error {
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
			{"platform", a.Platform, platformForm.MatchString, "linux-x86_64, linux-aarch64, windows-x86_64 or windows-aarch64"},
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
					return bad(table, axis.key, "%q stands there twice", v)
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
			return bad(
				"matrix.prove",
				"name",
				"%q: a short name of letters, digits, _ and - is wanted; it becomes part of each row's name",
				p.Name,
			)
		case seen[p.Name]:
			return bad("matrix.prove", "name", "%q names two places", p.Name)
		case p.Driver != "" && !driverForm.MatchString(p.Driver):
			return bad("matrix.prove", "driver", "%q is no driver version such as 580 or 580.65.06", p.Driver)
		case !source(p.Toolkit):
			return bad("matrix.prove", "toolkit", "%q is neither fetch nor runner", p.Toolkit)
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

var tableHeader = regexp.MustCompile(`^\s*\[\[?\s*([^\]]*?)\s*\]`)

// lineIn finds the line on which a key of a table stands, else that of the table's header, else any line with such a key, as lineOf does.
func lineIn(data []byte, path []string) int {
	table, key := strings.Join(path[:len(path)-1], "."), path[len(path)-1]
	assigned := regexp.MustCompile(`^\s*["']?` + regexp.QuoteMeta(key) + `["']?\s*[.=]`)
	here, header := "", 0
	for i, line := range strings.Split(string(data), "\n") {
		if m := tableHeader.FindStringSubmatch(line); m != nil {
			here = strings.NewReplacer(`"`, "", `'`, "", " ", "").Replace(m[1])
			if here == table+"."+key {
				return i + 1
			}
			if here == table && header == 0 {
				header = i + 1
			}
		}
		if here == table && assigned.MatchString(line) {
			return i + 1
		}
	}
	if header > 0 {
		return header
	}
	return lineOf(data, key)
}
