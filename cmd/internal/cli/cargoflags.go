package cli

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpubuild/buildenv/exit"
	"gpubuild/gpu"
	"gpubuild/toolchain"
	"gpubuild/toolchain/cargo"
)

// Options are the flags of cargo's verbs, and of some of ours.
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
	Explain        bool
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
	Fetch          bool   // ci run: consent to what a step fetches
}

// Flag is a flag of ours. On cargo's verbs its name begins with --gpu-; a verb of ours may know it without.
type Flag struct {
	Name    string // without any prefix
	Kind    cargo.Kind
	Holder  string // what help calls the value
	Meaning string
	Set     func(*Options, string) error
}

// flags are those of cargo's verbs: the table parses them, and help is made from it.
var flags = []Flag{
	{"toolkit", cargo.Value, "VERSION|ROOT|fetch", "the CUDA toolkit to use; fetch gets one into your cache, without admin rights",
		func(o *Options, v string) error { o.Toolkit = v; return nil }},
	{"arch", cargo.Value, "sm_NN", "build for this architecture", func(o *Options, v string) error {
		if _, err := gpu.ParseArch(v); err != nil {
			return err
		}
		o.Arch = v
		return nil
	}},
	{
		"ccbin", cargo.Value, "PATH",
		"the host compiler that nvcc calls: a path, or on Windows a toolset such as 14.44",
		func(o *Options, v string) error { o.CCBin = v; return nil },
	},
	{
		"backend", cargo.Value, "cuda|rocm",
		"where the features reach crates of both: set up the tools of this one only",
		func(o *Options, v string) error {
			if v != toolchain.CUDA && v != toolchain.ROCm {
				return fmt.Errorf("%q is neither cuda nor rocm", v)
			}
			o.Backend = v
			return nil
		},
	},
	{
		"strict", cargo.Switch, "",
		"warnings of the feature check stop the build, too",
		func(o *Options, _ string) error { o.Strict = true; return nil },
	},
	{
		"allow-unreached", cargo.Switch, "",
		"build although a feature does not reach",
		func(o *Options, _ string) error { o.AllowUnreached = true; return nil },
	},
	{
		"no-clean", cargo.Switch, "",
		"clean nothing; stale artifacts end with 13",
		func(o *Options, _ string) error { o.NoClean = true; return nil },
	},
	{
		"force-clean", cargo.Switch, "",
		"clean the GPU packages in any case",
		func(o *Options, _ string) error { o.ForceClean = true; return nil },
	},
	{
		"clean-external", cargo.Switch, "",
		"a package that is cleaned loses what it keeps outside the target directory, too",
		func(o *Options, _ string) error { o.CleanExternal = true; return nil },
	},
	{
		"prove", cargo.Optional, "ARGS",
		"build: run what was built under the probe, with these arguments",
		func(o *Options, v string) error {
			o.Prove = true
			var err error
			o.ProveArgs, err = splitWords(v)
			return err
		},
	},
	{
		"audit", cargo.Optional, "ARGS",
		"build: run what was built on drivers that fail, with these arguments; 20 where it ends well all the same",
		func(o *Options, v string) error {
			o.Audit = true
			var err error
			o.AuditArgs, err = splitWords(v)
			return err
		},
	},
	{
		"require-proof", cargo.Switch, "",
		"end with 21 without a proof, with 22 where only other kernels ran; build: run what was built, as --gpu-prove does",
		func(o *Options, _ string) error { o.RequireProof = true; return nil },
	},
	{"kernel", cargo.Value, "REGEX", "the kernels that count, instead of the matmul patterns", func(o *Options, v string) error {
		re, err := regexp.Compile(v)
		o.Kernel = re
		return err
	}},
	{"expect-exit", cargo.Value, "N", "the program's exit status when all is well (0)", func(o *Options, v string) error {
		n, err := strconv.Atoi(v)
		if err != nil || n < 0 || n > 255 {
			return fmt.Errorf("%q is not an exit status from 0 to 255", v)
		}
		o.ExpectExit = n
		return nil
	}},
	{"min", cargo.Value, "N", "launches that must match (1)", func(o *Options, v string) error {
		n, err := strconv.ParseUint(v, 10, 63)
		if err != nil || n == 0 {
			return fmt.Errorf("%q is not a number from 1 on", v)
		}
		o.Min = n
		return nil
	}},
	{
		"device", cargo.Value, "UUID|INDEX",
		"the device that the kernel must have run on: its UUID, or the number that the program itself gives it",
		func(o *Options, v string) error {
			o.Device = v
			return checkDevice(v)
		},
	},
	{
		"child", cargo.Value, "GLOB",
		"children whose executable matches, by path or by name, count like the program itself",
		func(o *Options, v string) error {
			o.Child = v
			return checkGlob(v)
		},
	},
	{
		"expect", cargo.Value, "gpu|cpu",
		"cpu: end with 0 when it ran on the CPU, with 22 when it used the GPU",
		func(o *Options, v string) error {
			if v != "gpu" && v != "cpu" {
				return fmt.Errorf("%q is neither gpu nor cpu", v)
			}
			o.ExpectCPU = v == "cpu"
			return nil
		},
	},
	{
		"counterfactual", cargo.Switch, "",
		"run a proven program once more, without input and with every device hidden, and compare",
		func(o *Options, _ string) error {
			o.Counterfactual = true
			return nil
		},
	},
	{
		"receipt", cargo.Value, "FILE",
		"write what was found as a receipt; see `gpubuild receipt --help`",
		func(o *Options, v string) error { o.Receipt = v; return nil },
	},
	{"timeout", cargo.Value, "DURATION", "end the proven program after this time, such as 30s", func(o *Options, v string) error {
		d, err := time.ParseDuration(v)
		if err != nil || d <= 0 {
			return fmt.Errorf("%q is not a duration such as 30s or 5m", v)
		}
		o.Timeout = d
		return nil
	}},
	{
		"probe", cargo.Value, "FILE",
		"a probe library built elsewhere, where there is no compiler",
		func(o *Options, v string) error { o.Probe = v; return nil },
	},
	{"cupti", cargo.Value, "FILE", "the libcupti to use", func(o *Options, v string) error { o.CUPTI = v; return nil }},
	{
		"timings", cargo.Optional, "FILE",
		"say where the time went: a table on stderr, and JSON in FILE",
		func(o *Options, v string) error { o.Timings = &v; return nil },
	},
	{"sarif", cargo.Value, "FILE", "write the findings as SARIF 2.1.0, for code scanning",
		func(o *Options, v string) error { o.SARIF = v; return nil }},
	{"junit", cargo.Value, "FILE", "write the checks as JUnit XML: a suite, and a case for each check and proof",
		func(o *Options, v string) error { o.JUnit = v; return nil }},
	{"json", cargo.Optional, "FILE", "machine-readable answer on stdout or in FILE", func(o *Options, v string) error {
		o.JSON = &v
		return nil
	}},
}

// CargoFlags are our own flags on cargo's verbs.
func CargoFlags() []Flag { return flags }

// CargoFlag is one of them.
func CargoFlag(name string) (Flag, bool) {
	i := slices.IndexFunc(flags, func(f Flag) bool { return f.Name == name })
	if i < 0 {
		return Flag{}, false
	}
	return flags[i], true
}

const ownPrefix = "--gpu-"

// ownFlags is the splitter's table of them.
func ownFlags() cargo.OwnFlags {
	own := cargo.OwnFlags{}
	for _, f := range flags {
		own[ownPrefix+f.Name] = f.Kind
	}
	return own
}

// apply sets the options that were given on a verb of cargo.
func (o *Options) apply(given []cargo.Own) error {
	for _, g := range given {
		f, ok := CargoFlag(strings.TrimPrefix(g.Name, ownPrefix))
		if !ok {
			continue // the splitter knows no other
		}
		if err := f.Set(o, g.Value); err != nil {
			return f.Wrong(g.Name, err)
		}
	}
	return nil
}

// Wrong is the error of a value that a flag does not take; written is the flag as the user wrote it.
func (f Flag) Wrong(written string, err error) error {
	fix := "see `gpubuild help`"
	if f.Kind == cargo.Value {
		fix = fmt.Sprintf("%s %s: %s", written, f.Holder, f.Meaning)
	}
	return &exit.UsageError{What: written + ": " + err.Error(), Fix: fix}
}

// ParseCargo takes a command line in cargo's words apart; our flags begin with --gpu-.
func ParseCargo(words []string) (Options, cargo.Line, error) {
	l, given, err := cargo.Split(words, ownFlags())
	if err != nil {
		return Options{}, cargo.Line{}, err
	}
	var o Options
	err = o.apply(given)
	return o, l, err
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
