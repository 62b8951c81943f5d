package cargo

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// TestConfigEnv asks the real cargo: what a build script sees is what ConfigEnv says, and what WithEnv says instead.
func TestConfigEnv(t *testing.T) {
	p := newProject(t, `
-- Cargo.toml --
[package]
name = "p"
version = "0.1.0"
edition = "2021"
-- src/main.rs --
fn main() {}
-- build.rs --
fn main() {
    for n in ["PLAIN", "FORCED", "REL", "FAR", "CLI", "CLIFILE", "BOTH", "INCLUDED", "WEAK", "DEEP", "CLIINC"] {
        println!("cargo:warning={}={}", n, std::env::var(n).unwrap_or("unset".to_string()));
        println!("cargo:rerun-if-env-changed={}", n);
    }
}
-- .cargo/config.toml --
include = ["x/one.toml", { path = "two.toml", optional = true }, { path = "none.toml", optional = true }]
[env]
PLAIN = "near"
FORCED = { value = "near", force = true }
REL = { value = "sub/x", relative = true, force = true }
CLI = "near"
BOTH = { force = true }
-- .cargo/x/one.toml --
include = ["deep.toml"]
[env]
PLAIN = "included"
WEAK = "one"
INCLUDED = { value = "y", relative = true }
-- .cargo/x/deep.toml --
[env]
DEEP = "deep"
-- .cargo/two.toml --
[env]
WEAK = "two"
-- cli.toml --
[env]
CLIINC = "cli"
-- other/env.toml --
[env]
CLIFILE = { value = "y/z", relative = true }
-- ../home/config.toml --
[env]
PLAIN = "far"
FAR = "far"
BOTH = { value = "far" }
`)
	words := []string{"build", "--config", `env.CLI="word"`, "--config", "other/env.toml", "--config", `include=["cli.toml"]`}
	for _, set := range []map[string]string{{}, {"PLAIN": "mine", "FORCED": "mine", "FAR": ""}} {
		tool, l := p.tool, p.line(words...)
		for name, v := range set {
			tool.Env = tool.Env.Set(name, v)
		}
		want := map[string]string{}
		for _, name := range []string{"PLAIN", "FORCED", "REL", "FAR", "CLI", "CLIFILE", "BOTH", "INCLUDED", "WEAK", "DEEP", "CLIINC"} {
			want[name] = "unset"
			if v, ok := set[name]; ok {
				want[name] = v
			}
		}
		for _, g := range ConfigEnv(p.h, tool, l) {
			if _, ok := set[g.Name]; !ok || g.Force {
				want[g.Name] = g.Value
			}
		}
		sees := func(l Line) map[string]string {
			t.Helper()
			got := map[string]string{}
			res, err := p.run.Run(context.Background(), Build(tool, l, ""))
			errs := string(res.Stderr)
			if err != nil {
				t.Fatalf("cargo %q: %v\n%s", l.Args, err, errs)
			}
			for _, line := range strings.Split(errs, "\n") {
				if _, text, ok := strings.Cut(line, "warning: p@0.1.0: "); ok {
					name, v, _ := strings.Cut(text, "=")
					got[name] = v
				}
			}
			return got
		}
		if got := sees(l); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("with %v cargo says\n%v\nwe say\n%v", set, got, want)
		}
		want["FORCED"], want["REL"] = `ours "x" \`, "/abs"
		if got := sees(l.WithEnv("FORCED", `ours "x" \`).WithEnv("REL", "/abs")); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("with %v and other words cargo says\n%v\nwe say\n%v", set, got, want)
		}
	}
}
