package cargo

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/hosttest/need"
)

const tool = `
-- Cargo.toml --
[package]
name = "prog"
version = "0.1.0"
edition = "2021"
-- src/main.rs --
fn main() { println!("the program itself"); }
`

// TestOurRunnerCallsTheUsers sets our runner over every kind of the user's and looks at what cargo then starts.
func TestOurRunnerCallsTheUsers(t *testing.T) {
	need.Asked(t, "long")
	if runtime.GOOS == "windows" {
		need.Missing(t, "links", "Windows has none for everyone")
	}
	p := newProject(t, tool)
	out := p.must("-Vv")
	v, ok := ParseVersion([]byte(out))
	if !ok || v.Minor < 60 || !strings.HasPrefix(v.Text, "cargo ") {
		t.Fatalf("%+v of %s", v, out)
	}
	p.must("build")
	self := hosttest.Must(os.Executable())(t)
	// a directory with .cargo in it and one with a space in its name
	for _, d := range []string{"sub", ".cargo", "with space"} {
		hosttest.OK(t, os.MkdirAll(filepath.Join(p.dir, d), 0o755))
	}
	for _, name := range []string{"sub/theirs", "with space/ours", "ours", "theirs"} {
		hosttest.OK(t, os.Symlink(self, filepath.Join(p.dir, name)))
	}
	p.tool.Env = p.tool.Env.Set("CARGO_TEST_ECHO", "ran")
	plain := p.tool
	ours, spaced := filepath.Join(p.dir, "ours"), filepath.Join(p.dir, "with space", "ours")
	tests := []struct{ story, config, env, args, want string }{
		{"none", "", "", "run -q", ""},
		{"variable", "", "sub/theirs a", "run -q", "sub/theirs a"},
		{"file, string", "[target.TRIPLE]\nrunner = 'sub/theirs a b'\n", "", "run -q", "sub/theirs a b"},
		{"file, list", "[target.TRIPLE]\nrunner = ['sub/theirs', 'a b']\n", "", "run -q", "sub/theirs|a b"},
		{"variable over file", "[target.TRIPLE]\nrunner = 'sub/theirs a b'\n", "./theirs c", "run -q", "theirs c"},
		{"variable over list", "[target.TRIPLE]\nrunner = ['sub/theirs', 'b']\n", "./theirs c", "run -q", "theirs c"},
		{"--config over variable", "", "./theirs c", "--config target.TRIPLE.runner='sub/theirs' run -q", "sub/theirs"},
		{"--config, list", "", "", "run -q --config target.TRIPLE.runner=['sub/theirs','d']", "sub/theirs d"},
		{"--config file", "", "./theirs c", "run -q --config sub/c.toml", "theirs e"},
		{
			"cfg",
			"[target.'cfg(all(not(windows), any(unix, target_os = \"none\")))']\nrunner = 'sub/theirs f'\n[target.'cfg(windows)']\nrunner = 'no'\n",
			"",
			"run -q",
			"sub/theirs f",
		},
		{"triple over cfg", "[target.'cfg(unix)']\nrunner = 'no'\n[target.TRIPLE]\nrunner = 'sub/theirs'\n", "", "run -q", "sub/theirs"},
		{"another triple", "[target.wasm32-wasip1]\nrunner = 'no'\n", "", "run -q", ""},
	}
	hosttest.OK(t, os.WriteFile(filepath.Join(p.dir, "sub", "c.toml"), []byte("[target."+v.Host+"]\nrunner = './theirs e'\n"), 0o644))
	for _, tt := range tests {
		for _, our := range []string{ours, spaced} {
			p.tool = plain
			config := filepath.Join(p.dir, ".cargo", "config.toml")
			hosttest.OK(t, os.WriteFile(config, []byte(strings.ReplaceAll(tt.config, "TRIPLE", v.Host)), 0o644))
			if tt.env != "" {
				p.tool.Env = p.tool.Env.Set(RunnerVar(v.Host), tt.env)
			}
			l := p.line(words(strings.ReplaceAll(tt.args, "TRIPLE", v.Host))...)
			user, err := UserRunner(context.Background(), p.h, p.run, p.tool, l, v.Host)
			if err != nil {
				t.Errorf("%s: %v", tt.story, err)
				continue
			}
			var want []string
			if tt.want != "" {
				sep := " "
				if strings.Contains(tt.want, "|") {
					sep = "|"
				}
				want = strings.Split(tt.want, sep)
				want[0] = filepath.Join(p.dir, filepath.FromSlash(want[0]))
			}
			hosttest.Equal(t, strings.Join(user.Words, "|"), strings.Join(want, "|"), tt.story, "user's runner", user.Words, want)
			with, line, err := WithRunner(p.tool, l, v.Host, append([]string{our, "--"}, user.Words...), user)
			if err != nil {
				if u, ok := err.(*exit.UsageError); !ok || our != spaced || user.textBeside == "" || u.Hint() == "" {
					t.Errorf("%s: %v", tt.story, err)
				}
				continue
			}
			res, err := p.run.Run(context.Background(), Command(with, line))
			if err != nil {
				t.Errorf("%s: %v\n%s", tt.story, err, res.Stderr)
				continue
			}
			quoted := `["--"`
			for _, w := range want {
				quoted += ` "` + w + `"`
			}
			if got := string(res.Stdout); !strings.HasPrefix(got, "ran "+quoted+` "target/debug/prog"]`) {
				t.Errorf("%s: cargo started %s, want %s", tt.story, got, quoted)
			}
		}
	}
	// two that fit are refused by cargo and by us
	two := "[target.'cfg(unix)']\nrunner = 'a'\n[target.'cfg(not(windows))']\nrunner = 'b'\n"
	hosttest.OK(t, os.WriteFile(filepath.Join(p.dir, ".cargo", "config.toml"), []byte(two), 0o644))
	if _, err := UserRunner(context.Background(), p.h, p.run, plain, p.line("run"), v.Host); err == nil ||
		!strings.Contains(err.Error(), "two runners fit") {
		t.Errorf("%v", err)
	}
}

func TestNamesOfTargets(t *testing.T) {
	hosttest.Equal(t, RunnerVar("x86_64-unknown-linux-gnu"), "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER")
	for in, want := range map[string]string{"": "host", "host-tuple": "host", "a-b": "a-b", "dir/my.json": "my", `C:\t\my.json`: "my"} {
		hosttest.Equal(t, Triple(in, "host"), want, in)
	}
}

func TestCfgExpressions(t *testing.T) {
	cfgs := parseCfgs([]byte("unix\ntarget_os=\"linux\"\r\ntarget_feature=\"sse\"\ntarget_feature=\"sse2\"\n"))
	for in, want := range map[string]string{
		"cfg(unix)": "true", "cfg( windows )": "false", `cfg(target_os = "linux")`: "true", `cfg(target_os="win")`: "false",
		`cfg(all())`: "true", `cfg(any())`: "false", `cfg(not(windows))`: "true", `cfg(all(unix, any(windows, target_feature = "sse2"), not(windows),))`: "true",
		`cfg(true)`: "true", `cfg(all)`: "false", "unix": "error", "cfg(": "error", "cfg()": "error", "cfg(not())": "error", "cfg(all(unix)": "error",
		"cfg(unix) ": "true", "cfg(unix windows)": "error", "cfg(a=)": "error", `cfg(a="b)`: "error", "cfg(all(unix windows))": "error",
		"cfg(" + strings.Repeat("not(", 100) + "unix" + strings.Repeat(")", 101): "error",
	} {
		got := "false"
		v, err := cfgs.match(in)
		if v {
			got = "true"
		}
		if err != nil {
			got = "error"
		}
		hosttest.Equal(t, got, want, in, err)
	}
}

func FuzzCfg(f *testing.F) {
	for _, s := range []string{"cfg(unix)", `cfg(all(not(windows), target_os = "linux"))`, "cfg(not(", "cfg(any(a,b,)) "} {
		f.Add(s)
	}
	cfgs := parseCfgs([]byte("unix\ntarget_os=\"linux\"\n"))
	f.Fuzz(func(t *testing.T, s string) {
		v, err := cfgs.match(s)
		if err != nil {
			return
		}
		inner := strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(s), "cfg("), ")")
		if n, err := cfgs.match("cfg(not(" + inner + "))"); err == nil && n == v {
			t.Fatalf("%q is %v and so is its opposite", s, v)
		}
	})
}
