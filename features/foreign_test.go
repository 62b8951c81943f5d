package features

import (
	"fmt"
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest"
	"gpubuild/features/graph"
	"gpubuild/features/manifest"
)

// TestForeignPackagesOfATree: by which id cargo's messages name the packages of a tree, as cargo 1.95 was seen to, and which have none.
func TestForeignPackagesOfATree(t *testing.T) {
	const git, other = "git+https://host.example/x/kern?branch=main#0123456789abcdef0123456789abcdef01234567", "registry+https://host.example/index"
	lock := func(sources ...string) string {
		text := "version = 4\n"
		for _, s := range sources {
			text += "\n[[package]]\nname = \"kern\"\nversion = \"0.1.0\"\nsource = \"" + s + "\"\n"
		}
		return text
	}
	for _, tt := range []struct{ story, source, lock, want string }{
		{"crates.io", "", lock(graph.CratesIO), graph.CratesIO + "#kern@0.1.0"},
		{"a repository that is called as the package", " (https://host.example/x/kern?branch=main#01234567)", lock(git), "git+https://host.example/x/kern?branch=main#0.1.0"},
		{"one that is not", " (https://host.example/x/all.git#01234567)", lock("git+https://host.example/x/all.git#0123456789abcdef"), "git+https://host.example/x/all.git#kern@0.1.0"},
		{"two repositories", " (https://host.example/x/kern?branch=main#01234567)", lock("git+https://host.example/y/kern#89abcdef0123456789", git), "git+https://host.example/x/kern?branch=main#0.1.0"},
		{"another registry", " (registry `ours`)", lock(graph.CratesIO, other), other + "#kern@0.1.0"},
		{"one of two other registries", " (registry `ours`)", lock(other, other+"2"), "undetermined kern"},
		{"no lock file", " (https://host.example/x/kern?branch=main#01234567)", "", "undetermined kern"},
		{"a lock file of another commit", " (https://host.example/x/kern?branch=main#76543210)", lock(git), "undetermined kern"},
	} {
		files := map[string]string{
			"/w/Cargo.toml": pkg("app", "[dependencies]\nkern = \"0.1\"\n"), "/w/src/main.rs": "fn main() {}", "/w/Cargo.lock": tt.lock,
			registryRoot + "kern-0.1.0/Cargo.toml":                              pkg("kern", "[features]\ncuda = []\n"),
			registryRoot + "kern-0.1.0/build.rs":                                "fn main() { run(\"nvcc\") }",
			"/home/u/.cargo/git/checkouts/kern-1111/0123456/Cargo.toml":         pkg("kern", "[features]\ncuda = []\n"),
			"/home/u/.cargo/git/checkouts/kern-1111/0123456/build.rs":           "fn main() { run(\"nvcc\") }",
			"/home/u/.cargo/git/checkouts/all-2222/0123456/crates/k/Cargo.toml": pkg("kern", "[features]\ncuda = []\n"),
			"/home/u/.cargo/git/checkouts/all-2222/0123456/crates/k/build.rs":   "fn main() { run(\"nvcc\") }",
			"/home/u/.cargo/git/checkouts/kern-3333/89abcde/no/such/thing.md":   "",
		}
		if tt.lock == "" {
			delete(files, "/w/Cargo.lock")
		}
		h := hosttest.Memory(files)
		p, err := manifest.Load(h, "/w/Cargo.toml")
		if err != nil {
			t.Fatal(err)
		}
		tree, err := graph.ParseTree(strings.NewReader("0app v0.1.0 (/w) \n1kern v0.1.0" + tt.source + " cuda\n"))
		if err != nil {
			t.Fatal(err)
		}
		a, err := Judge(h, Input{Project: p, Request: ask("kern/cuda"), Tree: tree})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, u := range a.Units {
			got += u.PkgID
		}
		for _, name := range a.Undetermined {
			got += fmt.Sprint("undetermined ", name)
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", tt.story, got, tt.want)
		}
	}
}
