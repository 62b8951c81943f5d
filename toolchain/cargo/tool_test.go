package cargo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/hosttest"
)

func host(t *testing.T, text string) buildenv.Host {
	t.Helper()
	h, err := hosttest.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

const machine = `os: linux
home: /home/u
cwd: /w/app
-- @env --
PATH=/usr/bin:/home/u/.cargo/bin
HOME=/home/u
-- /home/u/.cargo/bin/cargo +x --
-- /opt/cargo/cargo +x --
`

// TestCargoBesidePATH holds that a cargo of rustup's which a service or an IDE does not have on PATH is named: it need not be installed.
func TestCargoBesidePATH(t *testing.T) {
	for machine, want := range map[string]string{
		"os: linux\nhome: /home/u\n-- @env --\nPATH=/usr/bin\n-- @empty --\n/home/u/.cargo/bin/cargo +x\n":                       "add /home/u/.cargo/bin to PATH",
		"os: linux\nhome: /home/u\n-- @env --\nPATH=/usr/bin\nCARGO_HOME=/opt/rust\n-- @empty --\n/opt/rust/bin/cargo +x\n":      "add /opt/rust/bin to PATH",
		"os: windows\nhome: C:\\Users\\u\n-- @env --\nPath=C:\\Windows\n-- @empty --\nC:\\Users\\u\\.cargo\\bin\\cargo.exe\n":    `add C:\Users\u\.cargo\bin to PATH`,
		"os: linux\nhome: /home/u\n-- @env --\nPATH=/usr/bin\nCARGO_HOME=/opt/rust\n-- @empty --\n/home/u/.cargo/bin/cargo +x\n": "install Rust (https://rustup.rs) or add cargo's directory to PATH",
		"os: linux\nhome: /home/u\n-- @env --\nPATH=/usr/bin\n-- @empty --\n/home/u/.cargo/bin/cargo\n":                          "install Rust (https://rustup.rs) or add cargo's directory to PATH",
	} {
		h, err := hosttest.Parse([]byte(machine))
		if err != nil {
			t.Fatal(err)
		}
		_, err = Find(h, Line{})
		if exit.Of(err) != exit.Missing || exit.Hint(err) != want {
			t.Errorf("%s%v", machine, err)
		}
	}
}

func TestWhichCargo(t *testing.T) {
	h := host(t, machine)
	set := func(v string) buildenv.Host { n := h; n.Env = h.Env.Set("CARGO", v); return n }
	for _, tt := range []struct {
		story     string
		h         buildenv.Host
		toolchain string
		want      string
	}{
		{"PATH", h, "", "/home/u/.cargo/bin/cargo by PATH"},
		{"CARGO, as cargo sets it for subcommands", set("/opt/cargo/cargo"), "", "/opt/cargo/cargo by CARGO"},
		{"+toolchain needs the proxy", set("/opt/cargo/cargo"), "nightly", "/home/u/.cargo/bin/cargo by PATH"},
		{"CARGO that is gone", set("/gone/cargo"), "", "no cargo: CARGO names /gone/cargo, which is no file"},
		{
			"none",
			func() buildenv.Host { n := h; n.Env = h.Env.Set("PATH", "/usr/bin"); return n }(),
			"",
			"no cargo: it lies in /home/u/.cargo/bin, which PATH does not have here",
		},
	} {
		tool, err := Find(tt.h, Line{Toolchain: tt.toolchain})
		got := tool.Path + " by " + tool.Origin
		if err != nil {
			got = err.Error()
			if exit.Of(err) != exit.Missing || exit.Hint(err) == "" {
				t.Errorf("%s: no hint", tt.story)
			}
		}
		hosttest.Equal(t, got, tt.want, tt.story)
	}
}

func TestWhichConfigurationIsRead(t *testing.T) {
	h := host(t, machine+`-- /w/.cargo/config.toml --
[build]
-- /w/app/.cargo/config --
-- /w/app/.cargo/config.toml --
cargo reads "config" instead of this one
-- /home/u/.cargo/config.toml --
[target.x]
runner = "r"
`)
	tool, err := Find(h, Line{})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(ConfigFiles(h, tool, Line{}), " "); got != "/w/app/.cargo/config /w/.cargo/config.toml /home/u/.cargo/config.toml" {
		t.Error(got)
	}
	hosttest.Equal(t, strings.Join(ConfigFiles(h, tool, Line{Dir: "/home/u/x"}), " "), "/home/u/.cargo/config.toml")
	for _, tt := range []struct {
		key, env, want string
		config         []string
	}{
		{"target.x.runner", "", "r of /home/u/.cargo/config.toml", nil},
		{"target.x.runner", "CARGO_TARGET_X_RUNNER=e", "e of ", nil},
		{"target.x.runner", "CARGO_TARGET_X_RUNNER=e", "c of --config", []string{"a.b=1", "target.x.runner='c'"}},
		{"target.y.runner", "CARGO_TARGET_X_RUNNER=e", "<nil> of ", nil},
		{"unstable.x", "", "true of --config", []string{"unstable.x=true"}},
		{"alias.up-to", "CARGO_ALIAS_UP_TO=e", "e of ", nil},
	} {
		tool.Env = buildenv.NewEnv(h.OS, append(h.Env.Entries(), tt.env))
		v, is := readConfig(h, tool, Line{Config: tt.config}).find(strings.Split(tt.key, ".")...)
		hosttest.Equal(t, fmt.Sprint(v, " of ", is.origin), tt.want, tt.key)
	}
}

// TestRustflags: what files, --config and a variable have for rustc, for whatever target, and in place of a build script.
func TestRustflags(t *testing.T) {
	h := host(t, machine+`-- /w/.cargo/config.toml --
[build]
rustflags = "-L /a"
[target.x]
rustflags = ["-Lnative=/b"]
runner = "r"
[target.x.ks]
rustc-link-search = ["/c"]
rustc-link-lib = ["ks"]
`)
	tool := hosttest.Must(Find(h, Line{}))(t)
	tool.Env = h.Env.Set("CARGO_BUILD_RUSTFLAGS", "-L/e")
	got := Rustflags(h, tool, Line{Config: []string{"build.rustflags=['-L/d']"}})
	slices.Sort(got)
	hosttest.Equal(t, strings.Join(got, " "), "-L -L/d -L/e -Lnative=/b /a /c", "words")
}

// TestConfigurationThatIsNotUnderstood: cargo may understand it, and wake unstable settings in it.
func TestConfigurationThatIsNotUnderstood(t *testing.T) {
	for text, unread := range map[string]string{
		"[unstable": "/w/.cargo/config.toml",
		`include = [{ path = "none.toml", optional = true }]`: "",
		`include = ["none.toml"]`:                             "/w/.cargo/none.toml",
	} {
		h := host(t, machine+"-- /w/.cargo/config.toml --\n"+text+"\n")
		tool, err := Find(h, Line{})
		if err != nil {
			t.Fatal(err)
		}
		run := answers{"--unit-graph": {0, `{"version":1,"units":[],"roots":[]}`, ""}}
		q := Request{Line: must(t, "build"), Mkdir: func(string) error { return nil }}
		if a, err := Graph(context.Background(), h, run, tool, q); err != nil || (a.Reason != "") != (unread != "") ||
			!strings.Contains(a.Reason, unread) {
			t.Errorf("%s: %q, %v", text, a.Reason, err)
		}
	}
}

// answers is a runner that knows what comes of a command by a word of it.
type answers map[string]struct {
	code     int
	out, err string
}

func (a answers) Run(_ context.Context, c buildenv.Cmd) (buildenv.Result, error) {
	for word, r := range a {
		if strings.Contains(" "+strings.Join(c.Args, " ")+" ", " "+word+" ") {
			if c.Stderr != nil {
				_, _ = c.Stderr.Write([]byte(r.err))
			}
			res := buildenv.Result{Code: r.code, Stdout: []byte(r.out), Stderr: []byte(r.err)}
			if r.code != 0 {
				return res, &buildenv.ExitError{Cmd: c, Result: res}
			}
			return res, nil
		}
	}
	return buildenv.Result{}, errors.New("unexpected: " + c.String())
}

func TestOtherCargosAreUnknown(t *testing.T) {
	h := host(t, machine)
	tool, err := Find(h, Line{})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		story string
		run   answers
		line  string
		want  string
	}{
		{
			"1.43 knows no such flag",
			answers{
				"--unit-graph": {1, "", "error: Found argument '--unit-graph' which wasn't expected, or isn't valid in this context\n"},
			},
			"build",
			"unknown: this cargo refuses --unit-graph",
		},
		{
			"a cargo that takes no other channel",
			answers{
				"--unit-graph": {
					101,
					"",
					"error: the `-Z` flag is only accepted on the nightly channel of Cargo, but this is the `stable` channel\n",
				},
			},
			"build",
			"unknown: this cargo takes no unstable flag",
		},
		{
			"a flag that was stabilised away",
			answers{
				"--unit-graph": {
					101,
					"",
					"\x1b[1m\x1b[91merror\x1b[0m: the `--unit-graph` flag is unstable, and only available on the nightly channel of Cargo\n",
				},
			},
			"build",
			"unknown: this cargo refuses --unit-graph",
		},
		{
			"another answer",
			answers{"--unit-graph": {0, "{}", ""}},
			"build",
			"unknown: this cargo answered --unit-graph with something else",
		},
		{
			"an unknown feature",
			answers{"--unit-graph": {101, "", "error: none of the selected packages contains this feature: x\n"}},
			"build",
			"cargo: error: none of the selected packages contains this feature: x",
		},
		{
			"+toolchain without rustup",
			answers{"--unit-graph": {101, "", "error: no such command: `+nightly`\n"}},
			"+nightly build",
			"cargo: error: no such command: `+nightly`",
		},
		{"nothing to ask", answers{}, "fmt", "`fmt` builds nothing that cargo could be asked about"},
		{"a graph", answers{"--unit-graph": {0, `{"version":1,"units":[],"roots":[]}`, "warning: w\n"}}, "build", "graph"},
	} {
		var made []string
		q := Request{
			Line:   must(t, tt.line),
			Asking: Asking{Private: Private{Root: "/c"}},
			Mkdir:  func(d string) error { made = append(made, d); return nil },
		}
		a, err := Graph(context.Background(), h, tt.run, tool, q)
		got := "graph"
		switch {
		case err != nil:
			got = err.Error()
		case a.Reason != "":
			got = "unknown: " + a.Reason
		}
		hosttest.Equal(t, got, tt.want, tt.story)
		if len(made) != 2 && tt.line != "fmt" {
			t.Errorf("%s: directories made: %q", tt.story, made)
		}
	}
	full := errors.New("no space left on device")
	_, err = Graph(context.Background(), h, answers{}, tool, Request{Line: must(t, "build"), Mkdir: func(string) error { return full }})
	if !errors.Is(err, full) {
		t.Errorf("full disk: %v", err)
	}
}

func TestInterruptedQuestionIsNoRefusal(t *testing.T) {
	h := host(t, machine)
	tool, _ := Find(h, Line{})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	q := Request{Line: must(t, "build"), Mkdir: func(string) error { return nil }}
	_, err := Graph(ctx, h, answers{"--unit-graph": {130, "", "error: x"}}, tool, q)
	var refused *RefusedError
	if err == nil || errors.As(err, &refused) {
		t.Errorf("%v", err)
	}
}

// On a fresh machine the question downloads what the build needs: the user sees it as it happens, and an error once and without it.
func TestProgressIsPassedOn(t *testing.T) {
	h := host(t, machine)
	tool, _ := Find(h, Line{})
	var status, notice strings.Builder
	q := Request{Line: must(t, "build"), Mkdir: func(string) error { return nil },
		Status: func(s string) { status.WriteString(s) }, Notice: func(s string) { notice.WriteString(s) }}
	words := "\x1b[1m\x1b[92m    Updating\x1b[0m the index\n\x1b[1m\x1b[96m    Blocking\x1b[0m waiting for file lock on package cache\n Downloading crates ...\nerror: failed to get `x`\n\nCaused by:\n  gone"
	_, err := Graph(context.Background(), h, answers{"--unit-graph": {101, "", words}}, tool, q)
	var refused *RefusedError
	if !errors.As(err, &refused) || string(refused.Stderr) != "error: failed to get `x`\n\nCaused by:\n  gone" {
		t.Errorf("%v", err)
	}
	if status.String() != "\x1b[1m\x1b[92m    Updating\x1b[0m the index\n Downloading crates ...\n" ||
		notice.String() != "Blocking waiting for file lock on package cache" {
		t.Errorf("%q, %q", status.String(), notice.String())
	}
}
