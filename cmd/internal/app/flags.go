package app

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpubuild/buildenv/exit"
	"gpubuild/cmd/internal/ci"
	"gpubuild/features/graph"
	"gpubuild/gpu"
	"gpubuild/toolchain"
)

// Options are our own flags, however they were written. Nothing below this package has heard of flags.
type Options struct {
	Toolkit        string // a version, a root, or fetch
	Arch           string
	CCBin          string
	Backend        string
	Strict         bool
	AllowUnreached bool
	NoClean        bool
	ForceClean     bool
	CleanExternal  bool
	Minimal        bool
	Prove          bool
	ProveArgs      []string
	List           bool // scan: images only
	Audit          bool
	AuditArgs      []string
	RequireProof   bool
	Kernel         *regexp.Regexp
	ExpectExit     int
	Min            uint64
	Device         string
	Child          string
	ExpectCPU      bool
	Counterfactual bool
	Receipt        string
	Trace          string
	SARIF          string
	HTML           string
	SkipBad        bool
	JUnit          string
	Timeout        time.Duration
	Probe          string
	CUPTI          string
	JSON           *string // nil: not asked for; empty: stdout
	Shell          string
	For            string
	Diff           bool
	Save           string
	Explain        bool
	Redist         string // toolchain install: where NVIDIA's redistributable archives are taken from
	Parts          []string
	NoLinkStubs    bool // toolchain install: only what the parts hold
	Verify         bool
	Fix            bool
	DryRun         bool
	Why            string // CRATE[/FEATURE]
	Graph          string // dot, mermaid
	ManifestOnly   bool
	Lint           bool
	Force          bool
	Stdout         bool
	Timings        *string // nil: not asked for; empty: the table only
	Route          bool
	Format         string // ci matrix: one of ci.Formats
	Only           string // ci run: one step
	Libraries      bool
	Fetch          bool // ci run: consent to what a step fetches
}

// value says what a flag takes.
type value int

const (
	none     value = iota
	required       // --flag VALUE or --flag=VALUE
	optional       // --flag or --flag=VALUE
)

// A group is a set of verbs that know a flag.
type group int

const (
	onCargo   group = 1 << iota // cargo's verbs, where the flag begins with --gpu-
	onProject                   // our verbs that look at a project
	onProve
	onScan
	onExec
	onToolchain
	onOther // version, cache
)

type flag struct {
	name    string // without any prefix
	value   value
	groups  group
	holder  string // what help calls the value
	meaning string
	set     func(*Options, string) error
}

// flags is the one table of our own flags: it parses them, and help and README are made from it.
var flags = []flag{
	{"toolkit", required, onCargo | onProject | onExec, "VERSION|ROOT|fetch", "the CUDA toolkit to use; fetch gets one into your cache, without admin rights",
		func(o *Options, v string) error { o.Toolkit = v; return nil }},
	{"arch", required, onCargo | onProject | onExec, "sm_NN", "build for this architecture", func(o *Options, v string) error {
		if _, err := gpu.ParseArch(v); err != nil {
			return err
		}
		o.Arch = v
		return nil
	}},
	{"ccbin", required, onCargo | onProject | onExec, "PATH", "the host compiler that nvcc calls: a path, or on Windows a toolset such as 14.44", func(o *Options, v string) error { o.CCBin = v; return nil }},
	{"backend", required, onCargo | onProject, "cuda|rocm", "where the features reach crates of both: set up the tools of this one only", func(o *Options, v string) error {
		if v != toolchain.CUDA && v != toolchain.ROCm {
			return fmt.Errorf("%q is neither cuda nor rocm", v)
		}
		o.Backend = v
		return nil
	}},
	{"strict", none, onCargo | onProject, "", "warnings of the feature check stop the build, too", func(o *Options, _ string) error { o.Strict = true; return nil }},
	{"allow-unreached", none, onCargo, "", "build although a feature does not reach", func(o *Options, _ string) error { o.AllowUnreached = true; return nil }},
	{"no-clean", none, onCargo, "", "clean nothing; stale artifacts end with 13", func(o *Options, _ string) error { o.NoClean = true; return nil }},
	{"force-clean", none, onCargo, "", "clean the GPU packages in any case", func(o *Options, _ string) error { o.ForceClean = true; return nil }},
	{"clean-external", none, onCargo, "", "a package that is cleaned loses what it keeps outside the target directory, too", func(o *Options, _ string) error { o.CleanExternal = true; return nil }},
	{"prove", optional, onCargo, "ARGS", "build: run what was built under the probe, with these arguments", func(o *Options, v string) error {
		o.Prove = true
		var err error
		o.ProveArgs, err = splitWords(v)
		return err
	}},
	{"list", none, onScan, "", "images only: nothing is unpacked, so that packed ones have no kernel names", func(o *Options, _ string) error { o.List = true; return nil }},
	{"audit", optional, onCargo, "ARGS", "build: run what was built on drivers that fail, with these arguments; 20 where it ends well all the same", func(o *Options, v string) error {
		o.Audit = true
		var err error
		o.AuditArgs, err = splitWords(v)
		return err
	}},
	{"require-proof", none, onCargo, "", "end with 21 without a proof, with 22 where only other kernels ran; build: run what was built, as --gpu-prove does", func(o *Options, _ string) error { o.RequireProof = true; return nil }},
	{"kernel", required, onCargo | onProve, "REGEX", "the kernels that count, instead of the matmul patterns", func(o *Options, v string) error {
		re, err := regexp.Compile(v)
		o.Kernel = re
		return err
	}},
	{"expect-exit", required, onCargo | onProve, "N", "the program's exit status when all is well (0)", func(o *Options, v string) error {
		n, err := strconv.Atoi(v)
		if err != nil || n < 0 || n > 255 {
			return fmt.Errorf("%q is not an exit status from 0 to 255", v)
		}
		o.ExpectExit = n
		return nil
	}},
	{"min", required, onCargo | onProve, "N", "launches that must match (1)", func(o *Options, v string) error {
		n, err := strconv.ParseUint(v, 10, 63)
		if err != nil || n == 0 {
			return fmt.Errorf("%q is not a number from 1 on", v)
		}
		o.Min = n
		return nil
	}},
	{"device", required, onCargo | onProve, "UUID|INDEX", "the device that the kernel must have run on: its UUID, or the number that the program itself gives it", func(o *Options, v string) error {
		o.Device = v
		return checkDevice(v)
	}},
	{"child", required, onCargo | onProve, "GLOB", "children whose executable matches, by path or by name, count like the program itself", func(o *Options, v string) error {
		o.Child = v
		return checkGlob(v)
	}},
	{"expect", required, onCargo | onProve, "gpu|cpu", "cpu: end with 0 when it ran on the CPU, with 22 when it used the GPU", func(o *Options, v string) error {
		if v != "gpu" && v != "cpu" {
			return fmt.Errorf("%q is neither gpu nor cpu", v)
		}
		o.ExpectCPU = v == "cpu"
		return nil
	}},
	{"counterfactual", none, onCargo | onProve, "", "run a proven program once more, without input and with every device hidden, and compare", func(o *Options, _ string) error {
		o.Counterfactual = true
		return nil
	}},
	{"trace", required, onProve, "FILE", "write when each kernel ran as Chrome trace JSON, which Perfetto opens", func(o *Options, v string) error { o.Trace = v; return nil }},
	{"receipt", required, onCargo | onProve, "FILE", "write what was found as a receipt; see `gpubuild receipt --help`", func(o *Options, v string) error { o.Receipt = v; return nil }},
	{"timeout", required, onCargo | onProve, "DURATION", "end the proven program after this time, such as 30s", func(o *Options, v string) error {
		d, err := time.ParseDuration(v)
		if err != nil || d <= 0 {
			return fmt.Errorf("%q is not a duration such as 30s or 5m", v)
		}
		o.Timeout = d
		return nil
	}},
	{"probe", required, onCargo | onProve, "FILE", "a probe library built elsewhere, where there is no compiler", func(o *Options, v string) error { o.Probe = v; return nil }},
	{"cupti", required, onCargo | onProve, "FILE", "the libcupti to use", func(o *Options, v string) error { o.CUPTI = v; return nil }},
	{"timings", optional, onCargo, "FILE", "say where the time went: a table on stderr, and JSON in FILE", func(o *Options, v string) error { o.Timings = &v; return nil }},
	{"shell", required, onProject, "NAME", "the form to print (bash zsh fish pwsh cmd nu github gitlab dotenv direnv vscode cargo-config json)",
		func(o *Options, v string) error { o.Shell = v; return nil }},
	{"diff", none, onProject, "", "print what would change and why", func(o *Options, _ string) error { o.Diff = true; return nil }},
	{"for", required, onProject, "build|prove", "what the machine is to be good for", func(o *Options, v string) error {
		if v != "build" && v != "prove" {
			return fmt.Errorf("%q is neither build nor prove", v)
		}
		o.For = v
		return nil
	}},
	{"save", required, onProject, "FILE", "write what was looked at on this machine, for a bug report: no project, no secrets, no user name; look at it before you send it", func(o *Options, v string) error {
		o.Save = v
		return nil
	}},
	{"explain", none, onProject, "", "say what each package was built with, and what would be used now", func(o *Options, _ string) error { o.Explain = true; return nil }},
	{"fix", none, onProject, "", "write the missing edges into the workspace's manifests; each is checked by cargo and taken back if it did not help",
		func(o *Options, _ string) error { o.Fix = true; return nil }},
	{"minimal", none, onProject, "", "only the packages that `gpubuild stale` finds", func(o *Options, _ string) error { o.Minimal = true; return nil }},
	{"external", none, onProject, "", "empty what these packages keep outside the target directory, too", func(o *Options, _ string) error { o.CleanExternal = true; return nil }},
	{"dry-run", none, onProject, "", "change nothing: print what features --fix would write, clean remove, or ci run start", func(o *Options, _ string) error { o.DryRun = true; return nil }},
	{"why", required, onProject, "CRATE[@VERSION][/FEATURE]", "say why a crate is linked, or why it has a feature or has not", func(o *Options, v string) error {
		if v == "" || strings.HasPrefix(v, "/") || strings.HasSuffix(v, "/") {
			return fmt.Errorf("%q is neither CRATE nor CRATE/FEATURE", v)
		}
		if crate, _, _ := strings.Cut(v, "/"); strings.HasPrefix(crate, "@") || strings.HasSuffix(crate, "@") {
			return fmt.Errorf("%q: a version stands behind the crate's name, as in cudarc@0.19", v)
		}
		o.Why = v
		return nil
	}},
	{"graph", required, onProject, "dot|mermaid", "draw what leads to GPU crates", func(o *Options, v string) error {
		if v != graph.Dot && v != graph.Mermaid {
			return fmt.Errorf("%q is neither dot nor mermaid", v)
		}
		o.Graph = v
		return nil
	}},
	{"manifest-only", none, onProject, "", "check the feature edges between members and to GPU crates from manifests alone, without cargo",
		func(o *Options, _ string) error { o.ManifestOnly = true; return nil }},
	{"lint", none, onProject, "", "every member's GPU features, each as if that package were built alone", func(o *Options, _ string) error { o.Lint = true; return nil }},
	{"stdout", none, onProject, "", "init, ci init: print the file and write none", func(o *Options, _ string) error { o.Stdout = true; return nil }},
	{"force", none, onProject, "", "init, ci init: replace a file that is there", func(o *Options, _ string) error { o.Force = true; return nil }},
	{"route", none, onProject, "", "find a command line that reaches without a change to any manifest; cargo is asked about each",
		func(o *Options, _ string) error { o.Route = true; return nil }},
	{"format", required, onProject, strings.Join(ci.Formats(), "|"), "the form of the matrix", func(o *Options, v string) error {
		if !slices.Contains(ci.Formats(), v) {
			return fmt.Errorf("%q is none of %s", v, strings.Join(ci.Formats(), ", "))
		}
		o.Format = v
		return nil
	}},
	{"only", required, onProject, "toolkit|build|prove", "run: one step of the row", func(o *Options, v string) error {
		switch v {
		case "toolkit", "build", "prove":
			o.Only = v
			return nil
		}
		return fmt.Errorf("%q is none of toolkit, build, prove", v)
	}},
	{"fetch", none, onProject, "", "run: let the row's step fetch its toolkit into your cache", func(o *Options, _ string) error { o.Fetch = true; return nil }},
	{"parts", required, onToolchain, "LIST", "install: parts beside the compiler, such as cudnn,run", func(o *Options, v string) error {
		o.Parts = strings.FieldsFunc(v, func(r rune) bool { return r == ',' || r == ' ' })
		return nil
	}},
	{"link-stubs", optional, onToolchain, "no", "install: make link stubs of the CUDA libraries that are not among the parts, so that programs link without them (the default); no: leave them out",
		func(o *Options, v string) error {
			switch v {
			case "", "yes":
				o.NoLinkStubs = false
			case "no":
				o.NoLinkStubs = true
			default:
				return fmt.Errorf("%q is neither yes nor no", v)
			}
			return nil
		}},
	{"redist", required, onToolchain, "URL|DIR", "install: take NVIDIA's redistributable archives from here instead of NVIDIA's server and pip", func(o *Options, v string) error {
		o.Redist = v
		return nil
	}},
	{"sarif", required, onCargo | onProject | onProve, "FILE", "write the findings as SARIF 2.1.0, for code scanning",
		func(o *Options, v string) error { o.SARIF = v; return nil }},
	{"junit", required, onCargo | onProject | onProve, "FILE", "write the checks as JUnit XML: a suite, and a case for each check and proof",
		func(o *Options, v string) error { o.JUnit = v; return nil }},
	{"libraries", none, onScan, "", "say which shared libraries the loader will take, and from where, the libraries' own included", func(o *Options, _ string) error { o.Libraries = true; return nil }},
	{"html", required, onOther, "FILE", "report: write the page here; without it a table is printed", func(o *Options, v string) error { o.HTML = v; return nil }},
	{"skip-bad", none, onOther, "", "report: leave out files that are no results, instead of stopping", func(o *Options, _ string) error { o.SkipBad = true; return nil }},
	{"json", optional, onCargo | onProject | onProve | onScan | onExec | onToolchain | onOther, "FILE", "machine-readable answer on stdout or in FILE", func(o *Options, v string) error {
		o.JSON = &v
		return nil
	}},
}

// onlyOn names the verbs that know a flag of their group alone.
var onlyOn = map[string][]string{
	"kernel": {"prove"}, "expect-exit": {"prove"}, "probe": {"prove"}, "cupti": {"prove"}, "min": {"prove"}, "device": {"prove"}, "child": {"prove"},
	"expect": {"prove"}, "counterfactual": {"prove"}, "receipt": {"prove"}, "trace": {"prove"},
	"toolkit": {"doctor", "env", "stale", "exec", "clean"}, "arch": {"doctor", "env", "stale", "exec", "clean"},
	"ccbin": {"doctor", "env", "stale", "exec", "clean"}, "backend": {"doctor", "env", "stale"}, "shell": {"env"}, "diff": {"env"}, "save": {"doctor"},
	"for": {"doctor"}, "explain": {"stale"}, "strict": {"features"}, "fix": {"features"}, "dry-run": {"features", "clean", "ci"}, "why": {"features"},
	"graph": {"features"}, "manifest-only": {"features"}, "lint": {"features"}, "minimal": {"clean"}, "external": {"clean"}, "stdout": {"init", "ci"},
	"force": {"init", "ci"}, "route": {"features"}, "format": {"ci"}, "only": {"ci"}, "fetch": {"ci"}, "html": {"report"}, "skip-bad": {"report"},
	"sarif": {"audit", "doctor", "features", "prove", "stale"}, "junit": {"audit", "doctor", "features", "prove", "stale"},
}

// known says whether a flag belongs to a verb; cargo's verbs are called "".
func (f flag) known(g group, verb string) bool {
	if f.groups&g == 0 {
		return false
	}
	only, limited := onlyOn[f.name]
	if !limited || verb == "" {
		return true
	}
	for _, v := range only {
		if v == verb {
			return true
		}
	}
	return false
}

// flagError names the flag whose value is wrong.
type flagError struct {
	Flag string
	Err  error
}

func (e *flagError) Error() string { return e.Flag + ": " + e.Err.Error() }

// ExitCode is exit.Usage.
func (e *flagError) ExitCode() int { return exit.Usage }
func (e *flagError) Unwrap() error { return e.Err }

// Hint says what the flag takes.
func (e *flagError) Hint() string {
	name := strings.TrimPrefix(strings.TrimPrefix(e.Flag, "--"), "gpu-")
	for _, f := range flags {
		if f.name == name && f.value == required {
			return fmt.Sprintf("%s %s: %s", e.Flag, f.holder, f.meaning)
		}
	}
	return "see `gpubuild help`"
}

// splitWords splits a flag's value as a shell would for plain words, quotes and backslashes; nothing is expanded.
func splitWords(s string) ([]string, error) {
	var words []string
	var b strings.Builder
	var quote rune
	inWord, escaped := false, false
	for _, r := range s {
		switch {
		case escaped:
			b.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			escaped, inWord = true, true
		case quote != 0:
			if r == quote {
				quote = 0
			} else {
				b.WriteRune(r)
			}
		case r == '\'' || r == '"':
			quote, inWord = r, true
		case r == ' ' || r == '\t' || r == '\n':
			if inWord {
				words = append(words, b.String())
				b.Reset()
				inWord = false
			}
		default:
			b.WriteRune(r)
			inWord = true
		}
	}
	if quote != 0 || escaped {
		return nil, fmt.Errorf("%q has an open quote", s)
	}
	if inWord {
		words = append(words, b.String())
	}
	return words, nil
}
