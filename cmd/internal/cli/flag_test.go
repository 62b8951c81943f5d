package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/hosttest"
	"gpubuild/cmd/internal/console"
	"gpubuild/cmd/internal/pipeline"
	"gpubuild/cmd/internal/proof"
	"gpubuild/cmd/internal/session"
	"gpubuild/cmd/internal/tools"
	"gpubuild/gpu/probe"
	"gpubuild/gpu/verify"
	"gpubuild/toolchain/cargo"
)

// TestValuesOfFlags: which values each flag of ours takes, and that what it takes is what is used.
func TestValuesOfFlags(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		good, bad []string
		used      func(o pipeline.Options) bool // with the last good value
	}{
		"backend":         {[]string{"cuda", "rocm", "vulkan"}, []string{"", "metal"}, func(o pipeline.Options) bool { return o.Proof.Backend == probe.Vulkan && o.Tools.Backend == "rocm" }},
		"cache":           {[]string{"on", "off", "read"}, []string{"", "yes"}, func(o pipeline.Options) bool { return o.Cache == "read" }},
		"arch":            {[]string{"sm_80", "sm_100f", "sm_90a"}, []string{"", "90x", "sm_", "sm_80a", "75,90f"}, func(o pipeline.Options) bool { return o.Tools.Arch == "sm_90a" }},
		"expect-exit":     {[]string{"0", "255", "3"}, []string{"-1", "256", "x", ""}, func(o pipeline.Options) bool { return o.Proof.ExpectExit == 3 && o.Proof.ExitGiven }},
		"expect":          {[]string{"gpu", "cpu"}, []string{"", "tpu"}, func(o pipeline.Options) bool { return o.Proof.ExpectCPU }},
		"kernel":          {[]string{"gemm"}, []string{"(", "", "x|"}, func(o pipeline.Options) bool { return o.Proof.Kernel != nil }},
		"device":          {[]string{"0", "GPU-12345678", "MIG-12345678-1"}, []string{"", "-1", "70000", "GPU-1234567", "XPU-12345678"}, func(o pipeline.Options) bool { return o.Proof.Device == "MIG-12345678-1" }},
		"child":           {[]string{"python*"}, []string{"[a"}, func(o pipeline.Options) bool { return o.Proof.Child == "python*" }},
		"min-launches":    {[]string{"1", "100"}, []string{"", "0", "-1", "x"}, func(o pipeline.Options) bool { return o.Proof.MinLaunches == 100 }},
		"min-children":    {[]string{"2"}, []string{"0"}, func(o pipeline.Options) bool { return o.Proof.MinChildren == 2 }},
		"min-gpu-time":    {[]string{"10ms"}, []string{"0s", "10"}, func(o pipeline.Options) bool { return o.Proof.MinTime.Milliseconds() == 10 }},
		"timeout":         {[]string{"30s", "1ms"}, []string{"", "0s", "-1s", "30"}, func(o pipeline.Options) bool { return o.Proof.Timeout.Milliseconds() == 1 }},
		"queue-timeout":   {[]string{"30m"}, []string{"0s"}, func(o pipeline.Options) bool { return o.Proof.On.Queue.Minutes() == 30 }},
		"connect-timeout": {[]string{"10m"}, []string{"0s", "x"}, func(o pipeline.Options) bool { return o.Proof.On.Connect.Minutes() == 10 }},
		"retry-lost":      {[]string{"0", "100"}, []string{"-1", "101", "x"}, func(o pipeline.Options) bool { return o.Proof.On.Retry == 100 }},
		"on":              {[]string{"slurm"}, nil, func(o pipeline.Options) bool { return o.Proof.On.Name == "slurm" }},
		"fail-on": {[]string{"idle", "ecc,throttle"}, []string{"", "ecc,", "cold"}, func(o pipeline.Options) bool {
			return o.Watch && slices.Equal(o.FailOn, []string{"idle", "ecc", "throttle"})
		}},
		"prove": {[]string{"", "-n 'a b'"}, []string{"'a"}, func(o pipeline.Options) bool {
			return o.Proof.Wanted && slices.Equal(o.Proof.Args, []string{"-n", "a b"})
		}},
		"audit":    {[]string{"", "-n 1"}, []string{"'a"}, func(o pipeline.Options) bool { return o.Audit && slices.Equal(o.AuditArgs, []string{"-n", "1"}) }},
		"send-env": {[]string{"A", "B"}, []string{"A=b"}, func(o pipeline.Options) bool { return slices.Equal(o.Proof.On.SendEnv, []string{"A", "B"}) }},
		"send":     {[]string{"a", "b"}, nil, func(o pipeline.Options) bool { return slices.Equal(o.Proof.On.Send, []string{"a", "b"}) }},
		"receipt":  {[]string{"r"}, nil, func(o pipeline.Options) bool { return o.Files.Receipt == "r" && o.Proof.Receipt }},
		"json":     {[]string{"", "f"}, nil, func(o pipeline.Options) bool { return *o.Files.JSON == "f" }},
	} {
		var o pipeline.Options
		f := findFlag(cargoFlags(&o), prefix+name, prefix)
		for _, v := range tt.good {
			if err := f.Value.Set(v); err != nil {
				t.Errorf("%s %q: %v", name, v, err)
			}
		}
		if name == "child" && f.Value.Set("ruby*") == nil {
			t.Error("--child is taken twice, and one pattern counts")
		}
		if !tt.used(o) {
			t.Errorf("%s: %+v", name, o)
		}
		for _, v := range tt.bad {
			if err := findFlag(cargoFlags(&pipeline.Options{}), prefix+name, prefix).Value.Set(v); err == nil {
				t.Errorf("%s takes %q", name, v)
			} else if bad := wrong(f, prefix+name, err); exit.Of(bad) != exit.Usage || (exit.Hint(bad) != "") != (f.Kind == cargo.Value) {
				t.Errorf("%s: %v, %q", name, bad, exit.Hint(bad))
			}
		}
	}
	var o proof.Options
	for v, words := range map[string]string{"rocm": nothingOfAMD, "metal": "is none of cuda, vulkan"} {
		if err := proofBackend(&o, v); err == nil || !strings.Contains(err.Error(), words) || o.BackendGiven {
			t.Errorf("%s: %v", v, err)
		}
	}
	if findFlag(cargoFlags(&pipeline.Options{}), "--strict", prefix) != nil {
		t.Error("a flag without its prefix is found")
	}
}

// TestFlagsThatContradict: which flags have no meaning with others.
func TestFlagsThatContradict(t *testing.T) {
	t.Parallel()
	cpu := func(change func(*proof.Options)) pipeline.Options {
		o := pipeline.Options{Proof: proof.Options{ExpectCPU: true}}
		if change != nil {
			change(&o.Proof)
		}
		return o
	}
	empty, file := "", "f"
	with := func(change func(*pipeline.Options)) (o pipeline.Options) { change(&o); return o }
	kernel := regexp.MustCompile("x")
	for story, tt := range map[string]struct {
		words string
		o     pipeline.Options
		want  string // of the error; empty: they go together
	}{
		"the CPU":                     {"run", cpu(nil), ""},
		"the CPU and a kernel":        {"run", cpu(func(o *proof.Options) { o.Kernel = kernel }), "--gpu-kernel has no meaning"},
		"the CPU and a device":        {"run", cpu(func(o *proof.Options) { o.Device = "1" }), "--gpu-device has no meaning"},
		"the CPU and a child":         {"run", cpu(func(o *proof.Options) { o.Child = "x" }), "--gpu-child has no meaning"},
		"the CPU and launches":        {"run", cpu(func(o *proof.Options) { o.MinLaunches = 2 }), "--gpu-min-launches has no meaning"},
		"the CPU and a time":          {"run", cpu(func(o *proof.Options) { o.MinTime = 1 }), "--gpu-min-gpu-time has no meaning"},
		"a number of which children":  {"run", with(func(o *pipeline.Options) { o.Proof.MinChildren = 2 }), "counts the processes that --gpu-child names"},
		"a number of children":        {"run", with(func(o *pipeline.Options) { o.Proof.MinChildren, o.Proof.Child = 2, "x" }), ""},
		"the CPU until proven":        {"run", cpu(func(o *proof.Options) { o.UntilProved = true }), "--gpu-until-proved has no meaning"},
		"the CPU and a proof":         {"run", cpu(func(o *proof.Options) { o.Required = true }), "--gpu-require-proof has no meaning"},
		"a kernel and a proof":        {"run", with(func(o *pipeline.Options) { o.Proof.Rules = verify.Rules{Kernel: kernel}; o.Proof.Required = true }), ""},
		"Vulkan and CUPTI":            {"run", with(func(o *pipeline.Options) { o.Proof.Backend, o.Proof.Files.CUPTI = probe.Vulkan, "x" }), "--gpu-cupti has no meaning"},
		"CUDA and CUPTI":              {"run", with(func(o *pipeline.Options) { o.Proof.Files.CUPTI = "x" }), ""},
		"until proven, elsewhere":     {"run", with(func(o *pipeline.Options) { o.Proof.UntilProved, o.Proof.On.Name = true, "slurm" }), "--gpu-until-proved stops"},
		"until proven, here":          {"run", with(func(o *pipeline.Options) { o.Proof.UntilProved = true }), ""},
		"clean nothing, and always":   {"build", with(func(o *pipeline.Options) { o.Fresh.NoClean, o.Fresh.ForceClean = true, true }), "contradict each other"},
		"clean nothing":               {"build", with(func(o *pipeline.Options) { o.Fresh.NoClean = true }), ""},
		"an audit of a build":         {"build", with(func(o *pipeline.Options) { o.Audit = true }), ""},
		"an audit of a run":           {"run", with(func(o *pipeline.Options) { o.Audit = true }), "--gpu-audit is a flag of build"},
		"an audit of a subcommand":    {"nextest run", with(func(o *pipeline.Options) { o.Audit = true }), ""},
		"ROCm":                        {"run", with(func(o *pipeline.Options) { o.Tools.Backend = "rocm" }), ""},
		"ROCm and a run's proof":      {"build", with(func(o *pipeline.Options) { o.Tools.Backend, o.Proof.Wanted = "rocm", true }), "nothing of AMD"},
		"ROCm and a required proof":   {"run", with(func(o *pipeline.Options) { o.Tools.Backend, o.Proof.Required = "rocm", true }), "nothing of AMD"},
		"ROCm and a receipt":          {"run", with(func(o *pipeline.Options) { o.Tools.Backend, o.Proof.Receipt = "rocm", true }), "nothing of AMD"},
		"ROCm and a kernel":           {"run", with(func(o *pipeline.Options) { o.Tools.Backend, o.Proof.Kernel = "rocm", kernel }), "nothing of AMD"},
		"two answers on stdout":       {"build --message-format=json", with(func(o *pipeline.Options) { o.Files.JSON = &empty }), "cargo's messages on stdout"},
		"an answer in a file":         {"build --message-format=json", with(func(o *pipeline.Options) { o.Files.JSON = &file }), ""},
		"an answer on stdout":         {"build", with(func(o *pipeline.Options) { o.Files.JSON = &empty }), ""},
		"the program's own device":    {"run --device cuda", pipeline.Options{}, "the program's own arguments follow --"},
		"a device of build":           {"build --device cuda", pipeline.Options{}, "did you mean `--gpu-device`?"},
		"a flag without its prefix":   {"build --strict", pipeline.Options{}, "did you mean `--gpu-strict`?"},
		"with a value":                {"build --toolkit=13", pipeline.Options{}, "did you mean `--gpu-toolkit`?"},
		"of a subcommand of others":   {"nextest --strict", pipeline.Options{}, ""},
		"a flag of nobody's is cargo": {"build --odd", pipeline.Options{}, ""},
	} {
		flags := cargoFlags(&pipeline.Options{})
		line, _, err := cargo.Split(strings.Fields(tt.words), ownFlags(flags, prefix))
		if err != nil {
			t.Fatal(err)
		}
		if err = checkCargo("", tt.o, line, flags); (err == nil) != (tt.want == "") || err != nil && (!strings.Contains(err.Error(), tt.want) || exit.Of(err) != exit.Usage) {
			t.Errorf("%s: %v", story, err)
		}
	}
}

// TestFetching: the command line that would fetch a toolkit, in place of what forbids it or names another.
func TestFetching(t *testing.T) {
	t.Parallel()
	for words, want := range map[string]string{
		"build":                         "gpubuild build --gpu-toolkit=fetch",
		"+nightly build --offline -p a": "gpubuild +nightly build --gpu-toolkit=fetch -p a",
		"build --gpu-toolkit fetch":     "", "run --gpu-toolkit=fetch -- a": "",
		"build --frozen --gpu-toolkit 12.4 --features x":    "gpubuild build --gpu-toolkit=fetch --features x",
		"run --gpu-toolkit=12.4 -- --offline":               "gpubuild run --gpu-toolkit=fetch -- --offline",
		"run --gpu-toolkit-x a --offline=1 --offlinex -- a": "gpubuild run --gpu-toolkit=fetch --gpu-toolkit-x a --offlinex -- a",
	} {
		list := strings.Fields(words)
		at := slices.IndexFunc(list, func(w string) bool { return w == "build" || w == "run" }) + 1
		if got := tools.Fetching("", list, at, "", "--gpu-toolkit"); got != want {
			t.Errorf("%s: %s", words, got)
		}
	}
	if got := tools.Fetching("", []string{"--toolkit", "12.4", "--gpu-toolkit=13", "--json"}, 0, "doctor", "--toolkit"); got != "gpubuild doctor --toolkit=fetch --json" {
		t.Errorf("of our own verb: %s", got)
	}
}

// TestArgumentsOfVerbs: which arguments a verb takes, and what is said of one that it does not.
func TestArgumentsOfVerbs(t *testing.T) {
	t.Parallel()
	for words, want := range map[string]string{ // of the error and its hint; empty: they are taken
		"scan":                           "needs an argument: FILE",
		"scan a":                         "",
		"receipt verify":                 "needs an argument: FILE",
		"receipt verify a b":             "",
		"receipt verify a b c":           "unexpected argument `c`",
		"report":                         "needs an argument",
		"report a b c":                   "",
		"doctor build":                   "unexpected argument `build`|`gpubuild doctor --help` lists all",
		"doctor prove":                   "unexpected argument `prove`|`gpubuild doctor --help` lists all",
		"doctor help":                    "unexpected argument `help`|`gpubuild doctor --help` lists all",
		"doctor cuda":                    "unexpected argument `cuda`|features are selected with --features",
		"doctor -- x":                    "unexpected argument `x` after --",
		"env bash":                       "unexpected argument `bash`|`gpubuild env --help` lists all",
		"exec":                           "needs COMMAND after --",
		"exec --":                        "needs COMMAND after --",
		"exec -- a":                      "",
		"exec make all":                  "put the command of `gpubuild exec` after --|gpubuild exec -- make all",
		"prove app x":                    "unexpected argument `x`|gpubuild prove app -- x",
		"prove app -- x":                 "",
		"prove app --features cuda":      "is a flag of builds|gpubuild run --features cuda",
		"prove app --size 3":             "is no flag of `gpubuild prove`|gpubuild prove app -- --size 3",
		"prove --device 1 app":           "unknown flag `--device`; did you mean `--gpu-device`?",
		"prove --device=1 app -- -n 4":   "unknown flag `--device`; did you mean `--gpu-device`?",
		"prove --device 1":               "unknown flag `--device`; did you mean `--gpu-device`?",
		"prove --features cuda":          "|gpubuild run --features cuda",
		"stale --gpu-features cuda":      "unknown flag `--gpu-features`; did you mean `--features`?",
		"cache clean --nonsense":         "unknown flag `--nonsense`|`gpubuild cache clean --help` lists the flags",
		"audit --device cuda app":        "is no flag of `gpubuild audit`; the program's own arguments follow --|gpubuild audit app -- --device cuda",
		"audit --fast app":               "is no flag of `gpubuild audit`|gpubuild audit app -- --fast",
		"audit --timeuot 3s app":         "unknown flag `--timeuot`; did you mean `--timeout`?",
		"audit --device":                 "unknown flag `--device`",
		"prove app --device=1":           "is no flag of `gpubuild prove`|gpubuild prove app -- --device=1",
		"toolchain add 13":               "unknown subcommand `add`; did you mean `install`?",
		"toolchain ls":                   "unknown subcommand `ls`; did you mean `list`?",
		"toolchain uninstall 13":         "unknown subcommand `uninstall`; did you mean `remove`?",
		"toolchain instal 13":            "unknown subcommand `instal`; did you mean `install`?",
		"toolchain xyz":                  "unknown subcommand `xyz`|the subcommands of `gpubuild toolchain` are",
		"toolchain":                      "",
		"toolchain remove":               "needs an argument",
		"doctor --jsn":                   "unknown flag `--jsn`; did you mean `--json`?",
		"doctor --color=blue":            "--color: \"blue\" is none of",
		"doctor --json result.json":      "--json takes no separate argument; write --json=FILE|gpubuild doctor --json=result.json",
		"doctor --json=result.json":      "",
		"doctor --for=tea":               "--for: ",
		"receipt verify a --sarif=x":     "unknown flag `--sarif`",
		"toolchain remove a --available": "`--available` is not a flag of `gpubuild toolchain remove`",
	} {
		list := strings.Fields(words)
		v, ok := find(list[0])
		if !ok {
			t.Fatal(list[0])
		}
		got := ""
		if err := checkOnly(v, list[1:]); err != nil {
			got = err.Error() + "|" + exit.Hint(err)
			if exit.Of(err) != exit.Usage {
				t.Errorf("%s: exit code %d", words, exit.Of(err))
			}
		}
		says, fix, _ := strings.Cut(want, "|")
		if (got == "") != (want == "") || !strings.Contains(got, says) || !strings.Contains(got, fix) {
			t.Errorf("%s: got %q, want %q", words, got, want)
		}
	}
}

// checkOnly parses the words behind a verb's name, and runs nothing.
func checkOnly(v verb, words []string) error {
	nothing := func(context.Context, *invocation, cargo.Line) error { return nil }
	v.run, v.verbs = nothing, slices.Clone(v.verbs)
	for i := range v.verbs {
		v.verbs[i].run = nothing
	}
	a := &invocation{Machine: &session.Machine{Host: buildenv.Host{OS: buildenv.Linux}, Shell: &console.Shell{Out: io.Discard, Err: io.Discard}}}
	return a.runOf(context.Background(), []verb{v}, append([]string{v.Name}, words...))
}

// TestMisspelled: a word that is, or is close to, one of our commands is no subcommand of cargo; another one is left to cargo.
func TestMisspelled(t *testing.T) {
	t.Parallel()
	for words, want := range map[string]string{
		"build":              "",
		"-C x doctor --json": "-C is cargo's flag|cd x && gpubuild doctor --json",
		"--locked scan a":    "`scan` is gpubuild's own command and stands before its flags|gpubuild scan",
		"docotr":             "unknown command `docotr`; did you mean `doctor`?",
		"-v --locked docotr": "did you mean `doctor`?",
		"list":               "unknown command `list`|gpubuild toolchain list",
		"toolkits":           "unknown command `toolkits`|gpubuild toolchain list",
		"lint":               "unknown command `lint`|gpubuild features --lint",
		"verify":             "unknown command `verify`|gpubuild prove",
		"bulid":              "", // cargo says so
		"zzzzzz":             "",
	} {
		line, _, err := cargo.Split(strings.Fields(words), nil)
		if err != nil {
			t.Fatal(err)
		}
		a := &invocation{Machine: &session.Machine{Host: hosttest.Memory(map[string]string{})}}
		got := ""
		if err := a.misspelled(cargo.Tool{}, line); err != nil {
			got = err.Error() + "|" + exit.Hint(err)
		}
		says, fix, _ := strings.Cut(want, "|")
		if (got == "") != (want == "") || !strings.Contains(got, says) || !strings.Contains(got, fix) {
			t.Errorf("%s: got %q, want %q", words, got, want)
		}
	}
}

// TestEarly: a command line that ended before it had a result says by its words where the answer was wanted.
func TestEarly(t *testing.T) {
	t.Parallel()
	for words, want := range map[string]string{ // VERB FILE ANNOTATED; a file of - is stdout
		"":                          " none false",
		"doctor":                    "doctor none false",
		"doctor --json":             "doctor - false",
		"doctor --json=f":           "doctor f false",
		"doctor --jsonx=f":          "doctor none false",
		"prove -- app --json=f":     "prove none false",
		"receipt verify a --json=f": "receipt-verify f false",
		"completion bash --json=f":  " none false",
		"build --gpu-json":          "build - true",
		"b --gpu-json --gpu-bogus":  "build - true",
		"b --gpu-bogus --gpu-json":  "build - true",
		"features --bogus --json=f": "features f false",
		"cache dir --json":          " none false",
		"build --json=f":            "build none true",
		"run --gpu-json=f -- x":     "run f true",
		"run -- --gpu-json=f":       "run none true",
		"--release --gpu-json=f":    "build f true",
		"tree --gpu-json=f":         "tree none false",
		"nextest run --gpu-json=f":  "test f true",
	} {
		h := hosttest.Memory(nil)
		h.Cwd = t.TempDir()
		o := (&invocation{words: strings.Fields(words), Machine: &session.Machine{Host: h}}).early()
		file := "none"
		if o.Files.JSON != nil {
			file = cmp.Or(*o.Files.JSON, "-")
		}
		if got := fmt.Sprintf("%s %s %v", o.Verb, file, o.Annotated); got != want {
			t.Errorf("%s: got %q, want %q", words, got, want)
		}
	}
}

// TestResultsReplaceNoFileOfTheUser: no flag that names a file replaces one that gpubuild did not write, whichever verb it is of.
func TestResultsReplaceNoFileOfTheUser(t *testing.T) {
	t.Parallel()
	read := strings.Fields("allowed-signers key probe cupti")
	dir, tried := t.TempDir(), 0
	try := func(words []string, f *flag, prefix string) {
		if f.Holder != "FILE" {
			return
		}
		tried++
		name, want := filepath.Join(dir, fmt.Sprint(tried, ".rs")), "fn main() {}\n"
		hosttest.OK(t, os.WriteFile(name, []byte(want), 0o600))
		var said strings.Builder
		code := Main(slices.Concat([]string{"gpubuild"}, words, []string{prefix + f.Name + "=" + name, prefix + "nonsense"}), nil, io.Discard, &said)
		if !slices.Contains(read, f.Name) {
			code = Main(slices.Concat([]string{"gpubuild"}, words, []string{prefix + f.Name + "=" + name}), nil, io.Discard, &said)
			hosttest.Equal(t, strings.Contains(said.String(), f.Name+": "+name+" exists and is not a result of gpubuild; it would be replaced"), true, words, said.String())
		}
		hosttest.Equal(t, code, exit.Usage, words, f.Name)
		data, err := os.ReadFile(name)
		hosttest.OK(t, err)
		hosttest.Equal(t, string(data), want, words, f.Name)
	}
	for _, v := range verbs() {
		for _, f := range v.flags {
			try([]string{v.Name}, f, "--")
		}
		for _, s := range v.verbs {
			for _, f := range s.flags {
				try([]string{v.Name, s.Name}, f, "--")
			}
		}
	}
	for _, f := range cargoFlags(&pipeline.Options{}) {
		try([]string{"test"}, f, prefix)
	}
	if tried < 35 {
		t.Errorf("%d flags", tried)
	}
}

// TestAnInterruptedDoctorMissesNothing: a process that the interrupt has ended is no sign of what is missing.
func TestAnInterruptedDoctorMissesNothing(t *testing.T) {
	t.Parallel()
	m := hosttest.Must(session.Here(nil, &console.Shell{Out: io.Discard, Err: io.Discard}, verify.RealDriver, verify.DeviceNodes))(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := (&invocation{Machine: m}).run(ctx, []string{"doctor"}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
