package cli

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kballard/go-shellquote"

	"gpubuild/cmd/internal/config"
	"gpubuild/cmd/internal/help"
	"gpubuild/cmd/internal/pipeline"
	"gpubuild/cmd/internal/proof"
	"gpubuild/cmd/internal/report"
	"gpubuild/cmd/internal/tools"
	"gpubuild/cmd/internal/watch"
	"gpubuild/gpu"
	"gpubuild/gpu/probe"
	"gpubuild/toolchain"
	"gpubuild/toolchain/cargo"
)

type flag = help.Flag

// wrong is the error of a value that a flag does not take; written is the flag as the user wrote it.
func wrong(f *flag, written string, err error) error {
	fix := ""
	if f.Kind == cargo.Value {
		fix = fmt.Sprintf("%s %s: %s", written, f.Holder, f.Usage)
	}
	return usage(written+": "+err.Error(), fix)
}

// prefix is what our flags on cargo's verbs begin with; on our own verbs they have none.
const prefix = "--gpu-"

// cargoFlags are our flags on cargo's verbs: the table parses them, and help is made from it.
func cargoFlags(o *pipeline.Options) []*flag {
	return slices.Concat(
		toolFlags(&o.Tools, prefix, fetches, "none (check, clippy, doc): type-check without a toolkit")[:4],
		grouped("Toolchain",
			newFlag("backend", cargo.Value, "cuda|rocm|vulkan", "if the features enable crates of both CUDA and ROCm, set up the tools of "+
				"this one only; vulkan: run, test, bench and proofs look at Vulkan (wgpu, ash) instead of CUDA", func(v string) error {
				if v == toolchain.CUDA || v == toolchain.ROCm {
					o.Tools.Backend = v
				}
				return proofBackend(&o.Proof, v, toolchain.ROCm)
			}),
			choice("cache", "on|off|read", "reuse kernels that were compiled before (on); read: reuse, but store none", &o.Cache,
				"on", "off", "read"),
		),
		grouped("Features",
			toggle("strict", "treat warnings of the feature check as errors", &o.Strict),
			toggle("allow-unreached", "build although a requested feature does not enable its GPU crates", &o.AllowUnreached),
		),
		grouped("Stale artifacts",
			toggle("no-clean", "clean nothing; exit with 13 if anything is stale", &o.Fresh.NoClean),
			toggle("force-clean", "always clean the GPU packages", &o.Fresh.ForceClean),
		),
		grouped("Proof",
			newFlag("prove", cargo.Optional, "ARGS", "build: run the program under the probe with these arguments",
				func(v string) (err error) {
					o.Proof.Wanted = true
					o.Proof.Args, err = shellquote.Split(v)
					return err
				}),
			newFlag("audit", cargo.Optional, "ARGS", "build: run the program on drivers that fail, with these arguments; "+
				"exit with 20 if it still succeeds", func(v string) (err error) {
				o.Audit = true
				o.AuditArgs, err = shellquote.Split(v)
				return err
			}),
			toggle("require-proof", "exit with 21 without a proof, with 22 if only other kernels ran; build: run the program, "+
				"as --gpu-prove does", &o.Proof.Required),
			toggle("allow-no-device", "let run, test and bench pass without a GPU in CI, although [prove] or a marked test wants one, "+
				"and --gpu-prove anywhere", &o.Proof.AllowNoDevice),
		),
		proofFlags(&o.Proof),
		grouped("Results",
			newFlag("receipt", cargo.Value, "FILE", "write a receipt of the proof; see `gpubuild receipt --help`", func(v string) error {
				o.Files.Receipt, o.Proof.Receipt = v, true
				return nil
			}),
			toggle("with-args", withArgsMeaning, &o.Proof.WithArgs),
			optional("coverage", "FILE", "test: show which kernels of the test programs no test launched; FILE: as LCOV, of kernels "+
				"compiled with -lineinfo", &o.Proof.Coverage),
		),
		grouped("Watch", toggle("watch", "run, test, bench: watch the GPUs while the program runs: heat, throttling, full memory, errors, "+
			"an idle GPU", &o.Watch),
			newFlag("fail-on", cargo.Value, "ALERTS", "run, test, bench: as --gpu-watch, and exit with 23 after one of these alerts, "+
				"with 21 if the GPU could not be asked about one all the time: "+strings.Join(gpu.AlertKinds, ", "),
				func(v string) error {
					o.Watch = true
					return watch.AddFailOn(&o.FailOn, v)
				}),
		),
		resultFlags(&o.Files),
	)
}

const withArgsMeaning = "store the program's arguments in results and receipts; otherwise only their SHA-256"

const fetches = "fetch: download one into your cache, without admin rights"

// toolFlags are the flags of verbs that choose tools, with what they begin with there, and the words that --toolkit takes there.
func toolFlags(o *tools.Options, prefix string, words ...string) []*flag {
	o.Prefix = prefix
	holder := "VERSION|ROOT"
	if len(words) > 0 {
		holder += "|fetch"
	}
	return grouped("Toolchain",
		text("toolkit", holder, strings.Join(append([]string{"the CUDA toolkit to use"}, words...), "; "), &o.Toolkit),
		newFlag("arch", cargo.Value, "sm_NN", "build for this architecture, or for several: sm_80,sm_90", func(v string) error {
			_, err := gpu.ParseArchs(v)
			o.Arch = v
			return err
		}),
		text("ccbin", "PATH", "the host compiler that nvcc calls: a path, or on Windows a toolset such as 14.44", &o.CCBin),
		toggle("trust-project", "use compilers and toolkits that the repository itself contains and names", &o.TrustProject),
		choice("backend", "cuda|rocm", "the tools to set up if the features enable both CUDA and ROCm crates", &o.Backend,
			toolchain.CUDA, toolchain.ROCm),
	)
}

const nothingOfAMD = "nothing of AMD's can be proven: only kernels of CUDA and of Vulkan are recorded"

// proofBackend sets the API whose kernels count; a value besides cuda and vulkan leaves it as it is.
func proofBackend(o *proof.Options, v string, besides ...string) error {
	switch {
	case v == toolchain.CUDA:
		o.Backend, o.BackendGiven = probe.CUDA, true
	case v == string(probe.Vulkan):
		o.Backend, o.BackendGiven = probe.Vulkan, true
	case v == toolchain.ROCm && !slices.Contains(besides, v):
		return errors.New(nothingOfAMD)
	case !slices.Contains(besides, v):
		return fmt.Errorf("%.200q is none of %s", v, strings.Join(append([]string{toolchain.CUDA, string(probe.Vulkan)}, besides...), ", "))
	}
	return nil
}

// proofFlags say what counts as a proof, and how the program runs.
func proofFlags(o *proof.Options) []*flag {
	return grouped("Proof",
		newFlag("kernel", cargo.Value, "REGEX", "the kernels that count, instead of matrix products", func(v string) (err error) {
			o.Kernel, err = config.KernelPattern(v)
			return err
		}),
		newFlag("expect-exit", cargo.Value, "N", "the exit code with which the program succeeds (0)", func(v string) (err error) {
			o.ExpectExit, err = config.ExitCode(v)
			o.ExitGiven = true
			return err
		}),
		newFlag("device", cargo.Value, "UUID|INDEX", "the device that the kernel must run on: its UUID, or the program's own number for it",
			func(v string) error {
				o.Device = v
				return checkDevice(v)
			}),
		newFlag("child", cargo.Value, "GLOB", "child processes that count like the program itself, by path or name", func(v string) error {
			if o.Child != "" {
				return fmt.Errorf("it is given twice, and takes one pattern: %.200q and %.200q", o.Child, v)
			}
			o.Child = v
			return checkGlob(v)
		}),
		newFlag("min-launches", cargo.Value, "N", "how many launches must match, so that a warm-up alone proves nothing (1)",
			positive(func(n int) { o.MinLaunches = uint64(n) })),
		newFlag("min-gpu-time", cargo.Value, "DURATION", "how long these must have run on the device, together, such as 10ms",
			duration(&o.MinTime)),
		newFlag("min-children", cargo.Value, "N", "how many such child processes must have run a kernel that matches",
			positive(func(n int) { o.MinChildren = n })),
		newFlag("expect", cargo.Value, "gpu|cpu", "cpu: exit with 0 if the program ran on the CPU, with 22 if it used the GPU",
			func(v string) error {
				if v != "gpu" && v != "cpu" {
					return fmt.Errorf("%.200q is neither gpu nor cpu", v)
				}
				o.ExpectCPU = v == "cpu"
				return nil
			}),
		newFlag("timeout", cargo.Value, "DURATION", "stop the program after this time, such as 30s", duration(&o.Timeout)),
		toggle("until-proved", "stop the program with SIGTERM once its kernel is proven, for a server; not on Windows, nor on another "+
			"machine", &o.UntilProved),
		text("on", "PLACE", "run the program on another machine: ssh:[USER@]HOST[:PORT], slurm, or NAME of "+
			"[on.NAME] in the configuration", &o.On.Name),
		list("send", "PATH", "a file or directory that the program needs on the other machine", &o.On.Send),
		newFlag("send-env", cargo.Value, "NAME", "a variable that the program needs on the other machine", func(v string) error {
			if strings.Contains(v, "=") {
				return errors.New("give only the name; the value comes from the environment")
			}
			o.On.SendEnv = append(o.On.SendEnv, v)
			return nil
		}),
		newFlag("queue-timeout", cargo.Value, "DURATION", "wait this long for the program to start on the other machine, such as 30m",
			duration(&o.On.Queue)),
		newFlag("connect-timeout", cargo.Value, "DURATION", "how long the other machine may print nothing before it answers "+
			"(1m, at a terminal 5m; Slurm, Kubernetes: no limit)", duration(&o.On.Connect)),
		newFlag("retry-lost", cargo.Value, "N", "run it up to N times more if no result came back from that machine", func(v string) error {
			n, err := strconv.Atoi(v)
			if err != nil || n < 0 || n > 100 {
				return fmt.Errorf("%.200q is not a number from 0 to 100", v)
			}
			o.On.Retry = n
			return nil
		}),
		text("probe", "FILE", "a probe library built elsewhere, if there is no compiler here", &o.Files.Probe),
		text("cupti", "FILE", "the libcupti to use", &o.Files.CUPTI),
	)
}

func positive(set func(int)) func(string) error {
	return func(v string) error {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 {
			return fmt.Errorf("%.200q is not a number from 1 on", v)
		}
		set(n)
		return nil
	}
}

func duration(to *time.Duration) func(string) error {
	return func(v string) error {
		d, err := time.ParseDuration(v)
		if err != nil || d <= 0 {
			return fmt.Errorf("%.200q is not a duration such as 30s or 5m", v)
		}
		*to = d
		return nil
	}
}

// resultFlags say where a verb's result goes.
func resultFlags(o *report.Files) []*flag {
	return grouped("Results",
		text("sarif", "FILE", "write the findings as SARIF 2.1.0", &o.SARIF),
		text("junit", "FILE", "write the checks as JUnit XML", &o.JUnit),
		jsonFlag(&o.JSON),
	)
}

// jsonFlag is the flag of every verb: its answer for machines.
func jsonFlag(to **string) *flag {
	return grouped("Results", optional("json", "FILE", "write the result as JSON to stdout or FILE", to))[0]
}

// grouped puts flags below a heading of help.
func grouped(group string, flags ...*flag) []*flag {
	for _, f := range flags {
		f.Category = group
	}
	return flags
}

// newFlag makes a flag whose value set takes; a switch has none.
func newFlag(name string, kind cargo.Kind, holder, meaning string, set func(string) error) *flag {
	return help.NewFlag(name, kind, holder, meaning, set)
}

// toggle is a flag without a value.
func toggle(name, meaning string, to *bool) *flag {
	return newFlag(name, cargo.Switch, "", meaning, func(string) error { *to = true; return nil })
}

// text is a flag whose value may be anything.
func text(name, holder, meaning string, to *string) *flag {
	return newFlag(name, cargo.Value, holder, meaning, func(v string) error { *to = v; return nil })
}

// optional is a flag that may have a value; without the flag there is nil, without the value "".
func optional(name, holder, meaning string, to **string) *flag {
	return newFlag(name, cargo.Optional, holder, meaning, func(v string) error { *to = &v; return nil })
}

// list is a flag that may be given several times.
func list(name, holder, meaning string, to *[]string) *flag {
	return newFlag(name, cargo.Value, holder, meaning, func(v string) error { *to = append(*to, v); return nil })
}

// short gives a flag a letter.
func short(letter string, f *flag) *flag {
	f.Short = letter
	return f
}

// choice is a flag whose value is one of a few.
func choice(name, holder, meaning string, to *string, all ...string) *flag {
	return newFlag(name, cargo.Value, holder, meaning, func(v string) error {
		if !slices.Contains(all, v) {
			if len(all) == 2 {
				return fmt.Errorf("%.200q is neither %s nor %s", v, all[0], all[1])
			}
			return fmt.Errorf("%.200q is none of %s", v, strings.Join(all, ", "))
		}
		*to = v
		return nil
	})
}

// ownFlags is the splitter's table of flags.
func ownFlags(flags []*flag, prefix string) cargo.OwnFlags {
	own := cargo.OwnFlags{}
	for _, f := range flags {
		own[prefix+f.Name] = f.Kind
	}
	return own
}

// findFlag is the flag that the user wrote.
func findFlag(flags []*flag, written, prefix string) *flag {
	name, ok := strings.CutPrefix(written, prefix)
	i := slices.IndexFunc(flags, func(f *flag) bool { return ok && f.Name == name })
	if i < 0 {
		return nil
	}
	return flags[i]
}

func checkDevice(v string) error {
	if _, err := strconv.ParseUint(v, 10, 16); err == nil {
		return nil
	}
	const enough = len("GPU-") + 8
	if (strings.HasPrefix(v, "GPU-") || strings.HasPrefix(v, "MIG-")) && len(v) >= enough {
		return nil
	}
	return fmt.Errorf("%.200q is neither a number nor a UUID such as GPU-8f1c2a3b-…, of which the first eight digits suffice", v)
}

func checkGlob(v string) error {
	if _, err := path.Match(v, ""); err != nil {
		return fmt.Errorf("%.200q is not a pattern of names such as python* or /usr/bin/*", v)
	}
	return nil
}
