package msvc

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/gpu"
)

// Instance is one installed Visual Studio or Build Tools.
type Instance struct {
	Path     string    `json:"path"`              // such as C:\Program Files\Microsoft Visual Studio\2022\Community
	Version  string    `json:"version,omitempty"` // such as 17.14.36015.10; empty if unknown
	Product  string    `json:"product,omitempty"` // Community, BuildTools …
	Origin   string    `json:"origin"`            // what led to it
	Toolsets []Toolset `json:"toolsets,omitempty"`
	real     string    // Path without links
}

// Major is 15, 16, 17 or 18; 0 when it is not known.
func (i Instance) Major() int {
	if n := gpu.Numbers(i.Version); len(n) > 0 {
		return n[0]
	}
	return 0
}

// String names an instance as people do: "Visual Studio 2022 BuildTools 17.14.36015.10".
func (i Instance) String() string {
	s := "Visual Studio"
	if year, ok := map[int]string{15: "2017", 16: "2019", 17: "2022", 18: "2026"}[i.Major()]; ok {
		s += " " + year
	}
	for _, more := range []string{i.Product, i.Version} {
		if more != "" {
			s += " " + more
		}
	}
	return s
}

// state is what is read of a state.json.
type state struct{ path, version, product string }

// parseState reads a state.json.
func parseState(data []byte) (state, error) {
	var f struct {
		Path    string `json:"installationPath"`
		Version string `json:"installationVersion"`
		Catalog struct {
			BuildVersion string `json:"buildVersion"`
		} `json:"catalogInfo"`
		Product struct {
			ID string `json:"id"`
		} `json:"product"`
	}
	if err := json.Unmarshal(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")), &f); err != nil {
		return state{}, err
	}
	if f.Path == "" {
		return state{}, errors.New("it names no installationPath")
	}
	// early files of 15.0 have the catalog's version alone
	return state{f.Path, cmp.Or(f.Version, f.Catalog.BuildVersion), productName(f.Product.ID)}, nil
}

// productName is the last word of Microsoft.VisualStudio.Product.BuildTools.
func productName(id string) string { return id[strings.LastIndexByte(id, '.')+1:] }

// finder collects the instances of one machine.
type finder struct {
	h         buildenv.Host
	target    string
	instances []Instance
	problems  []string
}

func (f *finder) problem(format string, args ...any) {
	f.problems = append(f.problems, fmt.Sprintf(format, args...))
}

// registry is a value of the registry; empty where there is none.
func (f *finder) registry(key, value string, view int) string {
	v, err := f.h.Registry.String(key, value, view)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		f.problem("%s cannot be read: %v", key, err)
	}
	return v
}

// add notes an instance, unless it is known or does not exist.
func (f *finder) add(path string, s state, origin string) {
	h := f.h
	if path == "" || !h.IsAbs(path) {
		return
	}
	path = h.Clean(path)
	real := h.Real(path)
	for n := range f.instances {
		i := &f.instances[n]
		if !h.SamePath(i.real, real) {
			continue
		}
		if i.Version == "" {
			i.Version, i.Product = s.version, s.product
		}
		return
	}
	if !h.IsDir(path) {
		if s.path != "" {
			f.problem("%s names %s, which does not exist", origin, path)
		}
		return
	}
	if !h.IsDir(h.Join(path, "VC")) && !h.IsDir(h.Join(path, "Common7")) {
		return // something else: the installer's own directory, shared components
	}
	f.instances = append(f.instances, Instance{Path: path, Version: s.version, Product: s.product, Origin: origin, real: real})
}

// states takes every instance of which the installer keeps a state.json.
func (f *finder) states() {
	h := f.h
	var caches []string
	note := func(dir string) {
		if dir != "" && h.IsAbs(dir) && !slices.ContainsFunc(caches, func(c string) bool { return h.SamePath(c, dir) }) {
			caches = append(caches, h.Clean(dir))
		}
	}
	for _, view := range []int{64, 32} { // the strongest first (vswhere, Zig)
		for _, key := range []string{`HKLM\SOFTWARE\Policies\Microsoft\VisualStudio\Setup`, `HKLM\SOFTWARE\Microsoft\VisualStudio\Setup`} {
			note(f.registry(key, "CachePath", view))
		}
	}
	data := cmp.Or(h.Env.Get("ProgramData"), `C:\ProgramData`)
	note(h.Join(data, "Microsoft", "VisualStudio", "Packages"))
	for _, cache := range caches {
		dir := h.Join(cache, "_Instances")
		entries, err := h.Files.ReadDir(dir)
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) {
				f.problem("%s cannot be read: %v", dir, err)
			}
			continue
		}
		for _, e := range entries {
			path := h.Join(dir, e.Name(), "state.json")
			data, err := h.ReadFile(path, buildenv.Record)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			var s state
			if err == nil {
				s, err = parseState(data)
			}
			if err != nil {
				f.problem("%s cannot be read: %v", path, err)
				continue
			}
			f.add(s.path, s, path)
		}
	}
}

// registered takes what VS 2017 and newer write below SxS\VS7.
func (f *finder) registered() {
	const key = `HKLM\SOFTWARE\Microsoft\VisualStudio\SxS\VS7`
	for _, view := range []int{64, 32} {
		names, err := f.h.Registry.Values(key, view)
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) {
				f.problem("%s cannot be read: %v", key, err)
			}
			continue
		}
		for _, n := range names {
			path, err := f.h.Registry.String(key, n, view)
			if err == nil && gpu.Numbers(n) != nil && gpu.Numbers(n)[0] >= 15 {
				f.add(path, state{version: n}, key)
			}
		}
	}
}

// prompt takes what a developer prompt, msbuild or a user set.
func (f *finder) prompt() {
	h := f.h
	get := func(name string) string { return h.Env.Get(name) }
	f.add(get("VSINSTALLDIR"), state{version: get("VSCMD_VER")}, "VSINSTALLDIR")
	if dir := get("VCINSTALLDIR"); h.IsAbs(dir) {
		f.add(h.Dir(h.Clean(dir)), state{version: get("VSCMD_VER")}, "VCINSTALLDIR")
	}
	if dir := get("VCToolsInstallDir"); h.IsAbs(dir) { // …\VC\Tools\MSVC\14.44.35207\
		f.add(h.Join(dir, "..", "..", "..", ".."), state{}, "VCToolsInstallDir")
	}
	for _, name := range h.Env.Names() {
		up := strings.ToUpper(name)
		if n, ok := strings.CutPrefix(up, "VS"); ok && strings.HasSuffix(n, "COMNTOOLS") && h.IsAbs(get(name)) {
			if major, err := strconv.Atoi(strings.TrimSuffix(n, "COMNTOOLS")); err == nil && major < 150 { // 140 is 2015
				f.problem("%s is %s: Visual Studio 2015 and older are not supported; CUDA 12 needs 2017 or newer, CUDA 13 2019",
					name, get(name))
				continue
			}
			f.add(h.Join(get(name), "..", ".."), state{}, name)
		}
	}
}

// alone names a cl.exe on PATH that belongs to no instance: without the rest of one, nothing compiles or links.
func (f *finder) alone() {
	for _, cl := range f.h.LookPathAll("cl") {
		if !slices.ContainsFunc(f.instances, func(i Instance) bool { return f.h.Below(f.h.Real(cl), i.real) }) {
			f.problem("%s belongs to no Visual Studio installation, and is not used: install the C++ build tools of Visual Studio", cl)
		}
	}
}

// programFiles lists the directories of programs, the 64-bit one first.
func programFiles(h buildenv.Host) (out []string) {
	for _, v := range [][2]string{
		{"ProgramW6432", ""},
		{"ProgramFiles", `C:\Program Files`},
		{"ProgramFiles(x86)", `C:\Program Files (x86)`},
	} {
		dir := cmp.Or(h.Env.Get(v[0]), v[1])
		if dir != "" && !slices.ContainsFunc(out, func(o string) bool { return h.SamePath(o, dir) }) {
			out = append(out, dir)
		}
	}
	return out
}

// usual takes what lies in Microsoft Visual Studio\<year or major>\<edition>. There is no list of years: one such broke node-gyp with
// each new Visual Studio (nodejs/node-gyp issue 3250).
func (f *finder) usual() {
	h := f.h
	for _, pf := range programFiles(h) {
		top := h.Join(pf, "Microsoft Visual Studio")
		for _, year := range h.Names(top) {
			n, err := strconv.Atoi(year)
			if err != nil {
				continue
			}
			if major, ok := map[int]int{2017: 15, 2019: 16, 2022: 17}[n]; ok {
				n = major
			}
			for _, edition := range h.Names(h.Join(top, year)) {
				f.add(h.Join(top, year, edition), state{version: strconv.Itoa(n), product: edition}, top)
			}
		}
	}
}
