package nvcc

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"gpubuild/buildenv/lazyregexp"
	"gpubuild/gpu"
)

// ArchsVariable lists the architectures of a build for several: sm_80,sm_90.
const ArchsVariable = "GPUBUILD_GPU_ARCHS"

var (
	archOptions = set("arch gpu-architecture code gpu-code gencode generate-code")
	// single are the options with which nvcc 13.5 refuses several architectures, or compiles for none.
	single = set(`ptx cubin optix-ir ltoir dlto dlink-time-opt lto cuda M MM generate-dependencies generate-nonsystem-dependencies E preprocess`)
	// typedArch matches an architecture in a value of archOptions.
	typedArch = lazyregexp.New(`\b(sm|compute|lto)_(\d+[af]?)\b`)
)

// archValues calls f with each value of an option for the architecture, and puts what it returns in its place.
func archValues(words []string, f func(string) string) {
	for i, w := range words {
		name, _, joined := strings.Cut(strings.TrimLeft(w, "-"), "=")
		if at := i + 1; strings.HasPrefix(w, "-") && archOptions[name] && (joined || at < len(words)) {
			if joined {
				at = i
			}
			words[at] = f(words[at])
		}
	}
}

// withArchs adds to a call those of a list of architectures that it does not name; its crate was given the lowest alone, which takes the place
// of nvcc's default and of the GPU here. PTX that cudaforge would make for that very GPU is made for newer ones, too. What a call can make
// for one architecture only is for only; zero: there is none.
func withArchs(args []string, asked call, list []gpu.Arch) (with []string, only gpu.Arch) {
	if len(list) == 0 || len(asked.in) == 0 {
		return args, only
	}
	one, given, every := slices.ContainsFunc(asked.words, func(w string) bool { return single[strings.TrimLeft(w, "-")] }), false, false
	var typed []gpu.Arch
	digits, ptx := list[0].Capability.Digits(), asked.mode == "ptx"
	change := func(value string) string {
		if before, is := strings.CutSuffix(value, "native"); is {
			value = before + list[0].String()
		} else if ptx && list[0].Suffix == "" {
			value = strings.ReplaceAll(value, "_"+digits+"a", "_"+digits)
		}
		for _, m := range typedArch.FindAllStringSubmatch(value, -1) {
			a, _ := gpu.ParseArch(m[2]) // else it is none of the list
			a.Virtual = m[1] == "compute"
			typed, one = append(typed, a), one || m[1] == "lto"
		}
		given, every = true, every || strings.Contains(value, "=all") || strings.HasPrefix(value, "all")
		return value
	}
	archValues(slices.Clone(asked.words), change)
	with = slices.Clone(args)
	archValues(with, change)
	makes := slices.Contains([]string{"o", "ptx", "cubin", "fatbin", "a"}, asked.mode)
	if !given && (makes || !one) {
		with = append(with, "-arch="+change(list[0].String()))
	}
	for _, a := range list {
		named := func(t gpu.Arch) bool { return t.Capability == a.Capability && (t.Suffix == a.Suffix || a.Suffix == "") }
		if name := a.Capability.Digits() + a.Suffix; !one && !every && !slices.ContainsFunc(typed, named) {
			with = append(with, "-gencode=arch=compute_"+name+",code=sm_"+name)
		}
	}
	for _, a := range typed {
		if one && makes && (only.Capability.IsZero() || a.Virtual == ptx) {
			only = gpu.Arch{Capability: a.Capability, Suffix: a.Suffix, Virtual: ptx}
		}
	}
	return with, only
}

// parts are what a call made or took for one architecture each.
type parts struct {
	made     sync.Map     // by its key
	compiled atomic.Bool  // one was
	saved    atomic.Int64 // milliseconds, by those that were not
}

var tempName = lazyregexp.New(`tmpxft_[0-9a-f]+_[0-9a-f]+[^" ]*`)

// part carries out a step. Those of cicc and ptxas for one of several architectures are kept by themselves, so that another list compiles
// for its new ones alone, and a build for one of them for none. A key has what the step reads; the call's own files, which have new names
// each time, count by their place. Debug information has those names, so code with it is not kept in parts.
func (r *run) part(ctx context.Context, s step, p *preprocessed) (said, error) {
	if program, _, _ := strings.Cut(s.name, " "); r.debug || program != "cicc" && program != "ptxas" {
		return r.shell(ctx, s.shell, p.env)
	}
	sign, places := "{gpubuild-", map[string]string{}
	for _, name := range tempName.FindAllString(s.shell, -1) {
		places[name] = cmp.Or(places[name], fmt.Sprint(sign, len(places), "}"))
	}
	names := slices.SortedFunc(maps.Keys(places), func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	var to, from []string // the longest first: one may begin with another
	for _, name := range names {
		to, from = append(to, name, places[name]), append(from, places[name], name)
	}
	placed, named := strings.NewReplacer(to...), strings.NewReplacer(from...)
	sum, was := sha256.New(), map[string]string{}
	fmt.Fprintf(sum, "%s part\n%x\n%q\n", schema, p.tooled.Sum(nil), strings.ReplaceAll(placed.Replace(s.shell), r.tmp, sign))
	for _, name := range slices.SortedFunc(maps.Keys(places), func(a, b string) int { return strings.Compare(places[a], places[b]) }) {
		if data, err := os.ReadFile(filepath.Join(r.tmp, name)); err == nil {
			was[name] = string(data)
			fmt.Fprintf(sum, "%q %q\n", places[name], placed.Replace(was[name]))
		}
	}
	one := result{Key: hex.EncodeToString(sum.Sum(nil)), Files: map[string][]byte{}}
	if kept, err := r.kept(one.Key); err == nil {
		r.parts.saved.Add(max(1, kept.Milliseconds))
		for place, data := range kept.Files {
			err = cmp.Or(err, os.WriteFile(filepath.Join(r.tmp, named.Replace(place)), []byte(named.Replace(string(data))), 0o666))
		}
		return kept.Said[""], err
	}
	began := time.Now()
	out, err := r.shell(ctx, s.shell, p.env)
	r.parts.compiled.Store(true)
	one.Said, one.Milliseconds = map[string]said{"": out}, time.Since(began).Milliseconds()
	known := err == nil && r.several
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(r.tmp, name))
		if text := string(data); err == nil && text != was[name] {
			one.Files[places[name]] = []byte(placed.Replace(text))
			known = known && !strings.Contains(text, sign) && !tempName.Match(one.Files[places[name]]) &&
				(len(one.Files[places[name]]) == len(text) || !strings.Contains(text, "\x00")) // machine code must keep its length
		}
	}
	if known {
		r.parts.made.Store(one.Key, one)
	}
	return out, err
}
