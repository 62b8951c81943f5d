package pipeline

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/local"
	"gpubuild/cmd/internal/cargorun"
	"gpubuild/cmd/internal/console"
	"gpubuild/cmd/internal/fresh"
	"gpubuild/cmd/internal/proof"
	"gpubuild/cmd/internal/reach"
	"gpubuild/cmd/internal/session"
	"gpubuild/cmd/internal/tools"
	"gpubuild/features"
	"gpubuild/features/manifest"
	"gpubuild/gpu/probe"
	"gpubuild/gpu/verify"
	"gpubuild/toolchain"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/cuda"
	"gpubuild/toolchain/nvcc"
)

// bench is a machine with a project, a file that is called cargo, and a runner that starts nothing.
type bench struct {
	t    *testing.T
	top  string
	m    *session.Machine
	ran  []string // the commands
	env  []string // of the last one
	code int      // with which the commands end
	says string   // what they print
	said bytes.Buffer
}

func newBench(t *testing.T, files map[string]string) *bench {
	t.Helper()
	h := hosttest.Must(local.Host())(t)
	b := &bench{t: t, top: t.TempDir()}
	for name, text := range files {
		b.write(name, text)
	}
	b.write("bin/cargo", "")
	h.Cwd = filepath.Join(b.top, "w")
	h.Env = buildenv.NewEnv(h.OS, []string{"PATH=" + filepath.Join(b.top, "bin"), "CARGO_HOME=" + filepath.Join(b.top, "home")})
	// what was written just now counts as old
	b.m = &session.Machine{Host: h, CacheDir: filepath.Join(b.top, "cache"), Began: time.Now().Add(time.Hour), Runner: b, Temp: &session.Temporary{},
		Self: filepath.Join(b.top, "bin", "cargo"), Shell: &console.Shell{Out: &b.said, Err: &b.said}}
	return b
}

func (b *bench) write(name, text string) {
	b.t.Helper()
	path := filepath.Join(b.top, filepath.FromSlash(name))
	hosttest.OK(b.t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o755)))
}

func (b *bench) Run(_ context.Context, c buildenv.Cmd) (buildenv.Result, error) {
	b.ran, b.env = append(b.ran, strings.Join(c.Args, " ")), c.Env
	if c.Stdout != nil {
		_, _ = c.Stdout.Write([]byte(b.says))
	}
	if b.code != 0 {
		return buildenv.Result{Code: b.code}, &buildenv.ExitError{Cmd: c, Result: buildenv.Result{Code: b.code}}
	}
	return buildenv.Result{}, nil
}

func (b *bench) command(words string) Command {
	b.t.Helper()
	return Command{Machine: b.m, Line: lineOf(b.t, strings.Fields(words)...), Args: strings.Fields(words),
		Tool: cargo.Tool{Path: filepath.Join(b.top, "bin", "cargo"), Dir: b.m.Host.Cwd, Env: b.m.Host.Env}}
}

const (
	plain = "[package]\nname = \"app\"\nversion = \"1.0.0\"\nedition = \"2021\"\n"
	gpus  = plain + "[features]\ncuda = [\"candle-core/cuda\"]\n[dependencies]\ncandle-core = \"0.9\"\n"
)

// TestWhatIsRun: which command lines are cargo's alone, which cargo is asked about, and what ends before cargo runs.
func TestWhatIsRun(t *testing.T) {
	t.Parallel()
	on := proof.Options{}
	on.On.Name = "slurm"
	launches := proof.Options{Rules: verify.Rules{MinLaunches: 5}}
	for _, tt := range []struct {
		words, manifest string
		config          string
		options         Options
		cargo           int    // with what each cargo ends
		ran             string // the first words of each command
		code            int
		says            string
	}{
		{words: "build", manifest: plain, ran: "build"},
		{words: "build", manifest: plain, cargo: 101, ran: "build", code: 101},
		{words: "doc", manifest: plain, ran: "doc"},
		{words: "doc --features cuda", manifest: gpus, cargo: 101, ran: "; doc", code: 101, says: "runs in your own environment"},
		{words: "clean", manifest: gpus, ran: "clean"},
		{words: "build --help", manifest: gpus, ran: "build"},
		{words: "unheard-of", manifest: gpus, ran: "; unheard-of"},
		{words: "unheard-of", manifest: plain, ran: "unheard-of"},
		{words: "build --features cuda", manifest: gpus, cargo: 101, ran: "build;", code: 101},
		{words: "build", ran: "build", says: "built by plain cargo, unchecked: "},
		{words: "build", ran: "build", cargo: 101, code: 101, says: "go to the project's directory"},
		{words: "build", ran: "build", cargo: 1, code: 1}, // of a flag that cargo refuses it says all
		{words: "build", manifest: plain, config: "strict = 1\n", code: exit.Config},
		{words: "build", manifest: plain, options: Options{Watch: true}, code: exit.Usage},
		{words: "run --no-run", manifest: plain, options: Options{Watch: true}, code: exit.Usage},
		{words: "doc", manifest: plain, options: Options{Proof: proof.Options{Required: true}}, code: exit.Usage},
		{words: "build", manifest: plain, options: Options{Proof: proof.Options{Required: true}}, ran: "build", code: exit.Unproved},
		{words: "build", manifest: plain, options: Options{Proof: proof.Options{Required: true}}, cargo: 101, ran: "build", code: 101},
		{words: "rustc", manifest: plain, options: Options{Proof: proof.Options{Wanted: true}}, ran: "rustc", code: exit.Unproved, says: "Not proven: no GPU work"},
		{words: "test", manifest: plain, options: Options{Proof: proof.Options{Timeout: time.Second}}, ran: "test", says: "--gpu-timeout has no effect"},
		{words: "build", manifest: plain, options: Options{Proof: proof.Options{Timeout: time.Second}}, ran: "build"},
		{words: "run", manifest: plain, options: Options{Proof: launches}, ran: "run", says: "Not proven: no GPU work"},
		{words: "run", manifest: plain, options: Options{Proof: launches}, cargo: 3, ran: "run", code: 3},
		{words: "build", manifest: plain, options: Options{Proof: launches}, ran: "build"},
		{words: "build", manifest: plain, options: Options{Proof: on}, code: exit.Usage},
		{words: "run", manifest: plain, options: Options{Proof: on, Watch: true}, code: exit.Usage},
		{words: "build", manifest: plain, options: Options{Tools: tools.Options{Arch: "90"}}, cargo: 101, ran: "build;", code: 101},
	} {
		b := newBench(t, nil)
		b.write("w/src/main.rs", "fn main() {}")
		if tt.manifest != "" {
			b.write("w/Cargo.toml", tt.manifest)
		}
		if tt.config != "" {
			b.write("w/gpubuild.toml", tt.config)
		}
		b.code = tt.cargo
		c := b.command(tt.words)
		c.Options = tt.options
		_, err := Dispatch(t.Context(), c)
		first := make([]string, 0, len(b.ran))
		for _, r := range b.ran {
			word, rest, _ := strings.Cut(r, " ")
			if strings.Contains(rest, "--unit-graph") || word == "-Vv" || word == "locate-project" || word == "metadata" {
				word = ";"
			}
			first = append(first, word)
		}
		got := strings.Join(slices.Compact(first), " ")
		if want := tt.ran; strings.HasSuffix(want, ";") {
			if !strings.Contains(got, ";") {
				t.Errorf("%s %+v: cargo is not asked: %q", tt.words, tt.options, b.ran)
			}
		} else if got != want {
			t.Errorf("%s %+v: ran %q, want %q", tt.words, tt.options, b.ran, want)
		}
		if exit.Of(err) != tt.code || !strings.Contains(b.said.String(), tt.says) || tt.says == "" && b.said.Len() > 0 && (tt.code == 0 || tt.code == tt.cargo) {
			t.Errorf("%s %+v: %v, want %d %q: %s", tt.words, tt.options, err, tt.code, tt.says, b.said.String())
		}
		if home := "CARGO_HOME=" + filepath.Join(b.top, "home"); len(b.ran) > 0 && !slices.Contains(b.env, home) {
			t.Errorf("%s: cargo does not get the user's environment: %q", tt.words, b.env)
		}
	}
}

// TestAsksForVulkan: by the flag, or where a program is run, by a feature; of a flag only the flag counts.
func TestAsksForVulkan(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		words string
		o     proof.Options
		want  bool
	}{
		{"run", proof.Options{}, false}, {"run --features wgpu", proof.Options{}, true}, {"test --features x,gpu", proof.Options{}, true},
		{"bench --features dep/vulkan", proof.Options{}, true}, {"nextest run --features vulkan", proof.Options{}, true},
		{"run --features cuda", proof.Options{}, false}, {"build --features wgpu", proof.Options{}, false},
		{"build", proof.Options{BackendGiven: true, Backend: probe.Vulkan}, true},
		{"run --features wgpu", proof.Options{BackendGiven: true, Backend: probe.CUDA}, false},
	} {
		c := Command{Line: lineOf(t, strings.Fields(tt.words)...), Options: Options{Proof: tt.o}}
		hosttest.Equal(t, c.asksForVulkan(), tt.want, tt.words, tt.o)
	}
}

// TestRepeatable: only a build of which nobody reads anything is repeated unseen.
func TestRepeatable(t *testing.T) {
	t.Parallel()
	on := Options{}
	on.Proof.On.Name = "slurm"
	report := Options{}
	report.Files.JSON = new(string)
	for _, tt := range []struct {
		words  string
		o      Options
		change func(*session.Machine)
		want   bool
	}{
		{"build", Options{}, nil, true}, {"check", Options{}, nil, true}, {"run", Options{}, nil, false}, {"test", Options{}, nil, false},
		{"build --message-format json", Options{}, nil, false}, {"build", Options{Audit: true}, nil, false}, {"build", Options{Watch: true}, nil, false},
		{"build", Options{Proof: proof.Options{Wanted: true}}, nil, false}, {"build", Options{Proof: proof.Options{Required: true}}, nil, false},
		{"build", on, nil, false}, {"build", report, nil, false}, {"build", Options{Fresh: fresh.Options{ForceClean: true}}, nil, false},
		{"build", Options{Fresh: fresh.Options{NoClean: true}}, nil, true},
		{"build", Options{}, func(m *session.Machine) { m.Host.OS = buildenv.Windows }, false},
		{"build", Options{}, func(m *session.Machine) { m.NoCache = errors.New("x") }, false},
		{"build", Options{}, func(m *session.Machine) { m.Host.Env = m.Host.Env.Set("GITHUB_ACTIONS", "true") }, false},
	} {
		h := hosttest.Must(hosttest.Parse([]byte("os: linux\n")))(t)
		m := &session.Machine{Host: h}
		if tt.change != nil {
			tt.change(m)
		}
		if got := (Command{Machine: m, Line: lineOf(t, strings.Fields(tt.words)...), Options: tt.o}).mayBeNoop(); got != tt.want {
			t.Errorf("%s %+v: %v", tt.words, tt.o, got)
		}
	}
}

// TestRepeatKey: what may change what is built, or how it is printed, is another build.
func TestRepeatKey(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	key := func(c Command) string {
		t.Helper()
		return hosttest.Must(c.noopKey())(t)
	}
	first := key(b.command("build"))
	for story, change := range map[string]func(*Command){
		"same: the shell's own variables": func(c *Command) {
			c.Machine.Host.Env = c.Machine.Host.Env.Set("OLDPWD", "/x").Set("SHLVL", "9").Set("_", "x")
		},
		"same: nothing":              func(*Command) {},
		"a variable":                 func(c *Command) { c.Machine.Host.Env = c.Machine.Host.Env.Set("CUDA_HOME", "/x") },
		"another directory":          func(c *Command) { c.Machine.Host.Cwd = "/x" },
		"a flag of ours":             func(c *Command) { c.Args = append(slices.Clip(c.Args), "--gpu-arch=90") },
		"colours":                    func(c *Command) { c.Machine.Shell = &console.Shell{Colour: true} },
		"a terminal":                 func(c *Command) { c.Machine.Shell = &console.Shell{ErrTerminal: true} },
		"another cargo":              func(c *Command) { c.Tool.Path = "/x" },
		"cargo in another directory": func(c *Command) { c.Tool.Dir = "/x" },
		"another gpubuild":           func(c *Command) { c.Machine.Self = b.top },
	} {
		m := *b.m
		c := b.command("build")
		c.Machine = &m
		if change(&c); (key(c) == first) != strings.HasPrefix(story, "same") {
			t.Errorf("%s: the same key: %v", story, key(c) == first)
		}
	}
	c := b.command("build")
	if c.Machine.Self = filepath.Join(b.top, "none"); c.Machine.Self != "" {
		if _, err := c.noopKey(); err == nil {
			t.Error("a gpubuild that is gone has a key")
		}
	}
}

// TestRepeat: a build that had nothing to do is repeated while all that was looked at is the same; otherwise everything is looked at again.
func TestRepeat(t *testing.T) {
	t.Parallel()
	const artifact = `{"reason":"compiler-artifact","package_id":"p","fresh":%v}` + "\n"
	for _, tt := range []struct {
		story  string
		repeat noopBuild
		change bool // a file that was looked at
		says   string
		code   int
		ran    int
		done   bool
		text   string
	}{
		{story: "no GPU work", repeat: noopBuild{Plain: true, Before: "before\n"}, ran: 1, done: true, text: "before\n"},
		{story: "no GPU work, and something changed", repeat: noopBuild{Plain: true, Before: "before\n"}, change: true},
		{story: "nothing to do", repeat: noopBuild{Before: "before\n", After: "after\n"}, says: fmt.Sprintf(artifact, true), ran: 1, done: true, text: "before\nafter\n"},
		{story: "something changed", repeat: noopBuild{Before: "before\n"}, change: true},
		{story: "cargo compiles", repeat: noopBuild{Before: "before\n", After: "after\n"}, says: fmt.Sprintf(artifact, false), ran: 1, text: "before\n"},
		{story: "cargo fails", repeat: noopBuild{Before: "before\n", After: "after\n"}, code: 101, ran: 1, text: "before\n"},
	} {
		b := newBench(t, map[string]string{"w/Cargo.toml": plain, "seen": "1"})
		b.says, b.code = tt.says, tt.code
		tt.repeat.Programs, tt.repeat.Places = map[string]string{}, cargo.Places{BuildDirectory: filepath.Join(b.top, "w", "target")}
		tt.repeat.Cargo, tt.repeat.Set, tt.repeat.Unset = filepath.Join(b.top, "bin", "cargo"), map[string]string{"NEW": "1"}, []string{"CARGO_HOME"}
		c := b.command("build")
		c.watching = &recording{key: "k"}
		kept := c.recorded("k")
		hosttest.Must(kept.Machine.Host.ReadFile(filepath.Join(b.top, "seen"), buildenv.Note))(t)
		hosttest.OK(t, kept.watching.put(b.m, tt.repeat))
		if tt.change {
			b.write("seen", "22")
		}
		c.watching = nil
		done, err := c.tryNoop(t.Context(), "k")
		if done != tt.done || len(b.ran) != tt.ran || b.said.String() != tt.text || done && err != nil {
			t.Errorf("%s: done %v, ran %q, said %q: %v", tt.story, done, b.ran, b.said.String(), err)
		}
		if env := strings.Join(b.env, "\n"); tt.ran > 0 && !tt.repeat.Plain && (!strings.Contains(env, "NEW=1") || strings.Contains(env, "CARGO_HOME=")) {
			t.Errorf("%s: not the environment of the last time: %s", tt.story, env)
		}
		if tt.ran > 0 && !tt.done {
			if done, _ := c.tryNoop(t.Context(), "k"); done || len(b.ran) != tt.ran {
				t.Errorf("%s: the build is still repeated", tt.story)
			}
		}
		// the lock is free again
		unlock := hosttest.Must(fresh.Lock(t.Context(), b.m, tt.repeat.Places))(t)
		unlock()
	}
}

// TestKept: only a build in which nothing was done and nothing was learned is kept to be repeated.
func TestKept(t *testing.T) {
	t.Parallel()
	artifact := cargo.Message{Reason: cargo.Artifact, Fresh: true}
	for story, change := range map[string]func(*recording, *Result){
		"kept":                 func(*recording, *Result) {},
		"nothing was compared": func(_ *recording, d *Result) { d.Stale = nil },
		"cargo said nothing":   func(_ *recording, d *Result) { d.Built.Messages = nil },
		"something was compiled": func(_ *recording, d *Result) {
			d.Built.Messages = append(d.Built.Messages, cargo.Message{Reason: cargo.Artifact})
		},
		"it waited for another cargo":                   func(_ *recording, d *Result) { d.Built.Waited = true },
		"a program was proven":                          func(_ *recording, d *Result) { d.Proof.Proofs = []proof.Proof{{}} },
		"a second process ran":                          func(r *recording, _ *Result) { r.ran.Store(2) },
		"no process ran":                                func(r *recording, _ *Result) { r.ran.Store(0) },
		"something was learned":                         func(r *recording, _ *Result) { r.puts.Store(1) },
		"the driver hangs, and nothing could be proven": func(_ *recording, d *Result) { d.Proof.NotProven = "no GPU here" },
		"another command line was used":                 func(_ *recording, d *Result) { d.Tools.Line = lineOf(t, "build", "--target-dir", "x") },
	} {
		b := newBench(t, map[string]string{"seen": "1"})
		c := b.command("build").recorded("k")
		c.watching.ran.Store(1)
		done := Result{Stale: &fresh.State{}, Built: cargorun.Built{Messages: []cargo.Message{artifact}}}
		done.Session = &session.Session{Project: &manifest.Project{}}
		done.Tools.Line, done.Tools.Cargo.Path = c.Line, "/cargo"
		done.kernels = kernels{mode: "on", env: b.m.Host.Env.Set("CUDA_HOME", "/c").Unset("CARGO_HOME").Set(nvcc.LogVariable, "/log")}
		if strings.Contains(story, "hangs") {
			c.Machine.Silent = &atomic.Pointer[[]string]{}
			c.Machine.Silent.Store(&[]string{})
		}
		change(c.watching, &done)
		c.saveNoop(done, nil)
		data, _, is := b.m.Memo().Load(noopKind, "k")
		hosttest.Equal(t, is, (story == "kept"), story, "kept")
		if want := `"set":{"CUDA_HOME":"/c"},"unset":["CARGO_HOME"],"mode":"on"`; is && !strings.Contains(string(data), want) {
			t.Errorf("%s: %s", story, data)
		}
	}
	b := newBench(t, nil)
	c := b.command("build").recorded("k")
	c.watching.ran.Store(1)
	c.saveNoop(Result{Stale: &fresh.State{}}, exit.Code(1))
	if c.savePlainNoop(); b.said.Len() > 0 {
		t.Error(b.said.String())
	}
	if _, _, is := b.m.Memo().Load(noopKind, "k"); is {
		t.Error("a build that failed is kept, or a plain one after a process ran")
	}
	c.watching.ran.Store(0)
	if c.savePlainNoop(); !isKept(b) {
		t.Error("a build without GPU work is not kept")
	}
}

func isKept(b *bench) bool { _, _, is := b.m.Memo().Load(noopKind, "k"); return is }

// TestUnused: a toolkit or an architecture that was asked for and that no package used is said, if cargo built anything.
func TestUnused(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		o    tools.Options
		env  string
		said string
	}{
		{tools.Options{}, "", ""},
		{tools.Options{Toolkit: "13"}, "", "used --gpu-toolkit=13"},
		{tools.Options{Toolkit: "13", Arch: "90"}, "", "used --gpu-toolkit=13 or --gpu-arch=90"},
		{tools.Options{}, "GPUBUILD_CUDA=13", "used GPUBUILD_CUDA=13"},
		{tools.Options{}, "GPUBUILD_ARCH=90", "used GPUBUILD_ARCH=90"},
	} {
		b := newBench(t, nil)
		name, value, _ := strings.Cut(tt.env, "=")
		b.m.Host.Env = b.m.Host.Env.Set(name, value)
		c := b.command("build")
		c.Options.Tools = tt.o
		r := Result{Stale: &fresh.State{}}
		if got := unused(c, r); len(got) > 0 {
			t.Errorf("nothing was built: %v", got)
		}
		r.Built.Messages = []cargo.Message{{}}
		got := unused(c, r)
		if (len(got) == 1) != (tt.said != "") || !strings.Contains(b.said.String(), tt.said) || len(got) == 1 && (got[0].ID != "stale.unused" || !strings.HasSuffix(got[0].Message, tt.said)) {
			t.Errorf("%+v %s: %v", tt.o, tt.env, got)
		}
	}
}

// TestPrograms: which of the built programs a subcommand is about, and what is known of each.
func TestPrograms(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	r := Result{Session: &session.Session{}}
	for _, kind := range []string{"bin", "test", "bench", "example"} {
		b.write("w/"+kind, "")
		r.Built.Programs = append(r.Built.Programs, cargorun.Program{Name: kind, Kind: kind, Path: filepath.Join(b.top, "w", kind)})
	}
	r.Proof.Proofs = []proof.Proof{{Program: filepath.Join(b.top, "w", "test"), Test: "one"}, {Program: filepath.Join(b.top, "w", "test"), Test: "two"},
		{Program: filepath.Join(b.top, "doctest")}}
	for words, want := range map[string]string{
		"build": "bin, bench, example, test=proven one, test=proven two, doctest=proven ",
		"run":   "bin, bench, example, test=proven one, test=proven two, doctest=proven ",
		"test":  "test=proven one, test=proven two, bench, doctest=proven ",
		"bench": "test=proven one, test=proven two, bench, doctest=proven ",
	} {
		c, got := b.command(words), []string{}
		for _, p := range r.programs(c) {
			text := p.Name
			if p.Proof != nil {
				text += "=proven " + p.Test
			}
			got = append(got, text)
		}
		hosttest.Equal(t, strings.Join(got, ", "), want, words)
		list, err := r.receipts(c)
		if unproven := len(strings.Split(want, ", ")) - 3; err != nil || len(list) != unproven {
			t.Errorf("%s: %d receipts, want %d: %v", words, len(list), unproven, err)
		}
	}
	if list, err := (Result{Session: r.Session}).receipts(b.command("build")); err != nil || len(list) != 1 {
		t.Errorf("of a build that made nothing: %v %v", list, err)
	}
	r.Built.Programs[0].Path += "-gone"
	if _, err := r.receipts(b.command("build")); err == nil {
		t.Error("a program that is gone has a receipt")
	}
}

// TestCargoOf: cargo behind `exec` is a build of ours; of what other programs build a note says that it is not checked.
func TestCargoOf(t *testing.T) {
	t.Parallel()
	const note = "is not checked for stale artifacts"
	for words, want := range map[string]string{
		"cargo build": "build", "cargo nextest run": "nextest", "/opt/cargo test": "test", "cargo doc": "", "cargo build --help": "", "cargo build --unit-graph": "",
		"cargo install x": note, "cargo make": note, "cargo tree": "", "cargo xtask": note, "make": note, "bash -c x": note, "python x.py": "", "my-cargo build": "",
		"cargo build --gpu-arch=90": "usage", "cargo run -- --gpu-arch=90": "run", "other --gpu-arch=90": "",
	} {
		b := newBench(t, nil)
		c, ok, err := CargoOf(b.m, strings.Fields(words), tools.Options{Arch: "90"})
		got := ""
		switch {
		case exit.Of(err) == exit.Usage:
			got = "usage"
		case err != nil:
			t.Errorf("%s: %v", words, err)
		case ok:
			if got = c.Line.Verb; c.Options.Tools.Arch != "90" || strings.HasPrefix(words, "/opt") != (c.Tool.Path == "/opt/cargo") {
				t.Errorf("%s: %+v %+v", words, c.Options, c.Tool)
			}
		case strings.Contains(b.said.String(), note):
			got = note
		}
		hosttest.Equal(t, got, want, words)
	}
}

// TestKernelCacheModes: what is asked for by flag counts before the variable; without a toolkit that is called there is no cache.
func TestKernelCacheModes(t *testing.T) {
	t.Parallel()
	toolkit := func(b *bench) *cuda.Toolkit {
		b.write("cuda/bin/nvcc", "\x7fELF\x02\x01\x01"+strings.Repeat("\x00", 9)+"\x02\x00\x3e\x00\x01"+strings.Repeat("\x00", 43)) // a head alone
		root := filepath.Join(b.top, "cuda")
		return &cuda.Toolkit{Root: root, Real: root, NVCC: filepath.Join(root, "bin", "nvcc")}
	}
	for _, tt := range []struct {
		story, asked, env string
		none, calls       bool // no toolkit; crates call nvcc
		mode              string
		cached            bool
	}{
		{"nothing said", "", "", false, true, "on", true},
		{"by the flag", "read", "off", false, true, "read", true},
		{"by the variable", "", "read", false, true, "read", true},
		{"off", "off", "", false, true, "off", false},
		{"off by the variable", "", "off", false, true, "off", false},
		{"a word that is none", "", "yes", false, true, "", false},
		{"no toolkit", "", "", true, true, "on", false},
		{"nobody calls nvcc", "", "", false, false, "on", false},
	} {
		b := newBench(t, nil)
		b.m.Shell.Verbose = true
		chosen := tools.Tools{Env: b.m.Host.Env}
		if tt.env != "" {
			chosen.Env = chosen.Env.Set(nvcc.Variable, tt.env)
		}
		if chosen.Needs.NVCC = tt.calls; !tt.none {
			chosen.Set.Toolkit = toolkit(b)
		}
		k, err := startKernels(b.m, tt.asked, chosen)
		if tt.mode == "" {
			hosttest.Equal(t, exit.Of(err), exit.Usage, tt.story, err)
			continue
		}
		if err != nil || k.mode != tt.mode || k.env.Get(nvcc.Variable) != tt.mode || (k.log != "") != tt.cached ||
			strings.HasPrefix(k.env.Get("PATH"), filepath.Join(b.m.CacheDir, nvcc.Views)) != tt.cached {
			t.Errorf("%s: %q %q %v: %v %s", tt.story, k.mode, k.env.Get("PATH"), k.log != "", err, b.said.String())
		}
	}
}

// TestLacksToolkit: a type check does without a toolkit that is missing or does not fit, and not without anything else.
func TestLacksToolkit(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]bool{
		fmt.Errorf("x: %w", &toolchain.MissingError{}): true, &toolchain.MisfitError{}: true, exit.Code(11): false, nil: false,
	} {
		hosttest.Equal(t, lacksToolkit(err), want, err)
	}
}

// TestWithoutGPU: where the graph shows no GPU work, plain cargo builds, unless the command line asks for more.
func TestWithoutGPU(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]string{"w/Cargo.toml": plain, "w/src/lib.rs": ""})
	s := hosttest.Must(session.Open(b.m, lineOf(t, "build")))(t)
	none, on := reach.Judged{Reach: &features.Reach{}}, proof.Options{}
	on.On.Name = "slurm"
	for story, c := range map[string]Command{
		"plain": {}, "a toolkit": {Options: Options{Tools: tools.Options{Toolkit: "13"}}}, "Vulkan": {Options: Options{Proof: proof.Options{BackendGiven: true, Backend: probe.Vulkan}}},
		"elsewhere": {Options: Options{Proof: on}},
	} {
		c.Line = lineOf(t, "build")
		hosttest.Equal(t, c.lacksGPU(s, none), (story == "plain"), story)
	}
	c := b.command("build")
	if c.lacksGPU(s, reach.Judged{Reach: &features.Reach{Unknown: "x"}}) {
		t.Error("what is unknown may have GPU work")
	}
	b.write("w/Cargo.toml", plain+"[lib]\nproc-macro = true\n")
	b.write("w/src/lib.rs", "Command::new(\"nvcc\")")
	if c.lacksGPU(s, none) {
		t.Error("a procedural macro runs nvcc")
	}
}

// TestAsBuild: the build that has the needs of a subcommand that builds nothing has its features.
func TestAsBuild(t *testing.T) {
	t.Parallel()
	for words, want := range map[string]string{
		"publish": "build --manifest-path /w/Cargo.toml", "publish --features a,b": "build --manifest-path /w/Cargo.toml --features a,b",
		"package --all-features --no-default-features": "build --manifest-path /w/Cargo.toml --all-features --no-default-features",
		"nextest list --features a":                    "test --features=a",
	} {
		s := &session.Session{Line: lineOf(t, strings.Fields(words)...), Project: &manifest.Project{Manifest: "/w/Cargo.toml"}}
		got, err := asBuild(s)
		if err != nil || strings.Join(got.Words(), " ") != want {
			t.Errorf("%s: %q, want %q: %v", words, got.Words(), want, err)
		}
	}
}

// TestUnmarked: in CI, a run without GPU work that starts a marked program lacks a proof; one that starts none does not.
func TestUnmarked(t *testing.T) {
	t.Parallel()
	for bin, code := range map[string]int{"app": exit.Unproved, "other": 0} {
		b := newBench(t, map[string]string{"w/Cargo.toml": plain, "w/src/main.rs": "fn main() {}",
			"w/gpubuild.toml": "[prove]\nbin = \"" + bin + "\"\n"})
		b.m.Host.Env = b.m.Host.Env.Set("CI", "true")
		_, err := Dispatch(t.Context(), b.command("run --bin app"))
		if exit.Of(err) != code {
			t.Errorf("[prove] names %s: %v, want %d: %s", bin, err, code, b.said.String())
		}
	}
}
