package cargo

import (
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest"
)

func TestInstallIsTheBuildOfItsPath(t *testing.T) {
	for _, tt := range []struct{ typed, path, build string }{
		{"install --path . --features cuda", ".", "build --release --manifest-path ./Cargo.toml --features=cuda"},
		{"+nightly --config a.b=1 install --root /x --path=../app/ -fFcuda,x --bin tool -j -1 --locked", "../app/", "+nightly build --release --manifest-path ../app/Cargo.toml --config=a.b=1 --features=cuda,x --bin=tool --locked"},
		{"install --debug --path p --version 1.2 --no-default-features", "p", "build --manifest-path p/Cargo.toml --no-default-features"},
		{"install --path p --profile fast --target t name", "p", "build --manifest-path p/Cargo.toml --profile=fast --target=t"},
		{"install --git https://x --features cuda name", "", "build --release --features=cuda"},
		{"install cargo-thing@1.2", "", "build --release"},
	} {
		l, _ := hosttest.Must2(Split(strings.Fields(tt.typed), nil))(t)
		in, ok := l.Install()
		if got := strings.Join(in.Build.Words(), " "); !ok || in.Path != tt.path || got != tt.build {
			t.Errorf("%s: %v %q %s, want %s", tt.typed, ok, in.Path, got, tt.build)
		}
	}
	l, _, err := Split([]string{"install", "--path", "p", "--frozen", "--locked"}, nil)
	if in, ok := l.Install(); err != nil || !ok ||
		strings.Join(in.Unlocked.Words(), " ") != "build --release --manifest-path p/Cargo.toml --offline" ||
		!in.Build.Has("--frozen") {
		t.Errorf("%v %q", err, in.Unlocked.Words())
	}
	for _, typed := range []string{"build --path x", "install --help"} {
		if l, _, _ := Split(strings.Fields(typed), nil); l.Verb == "" {
			t.Fatal(typed)
		} else if _, ok := l.Install(); ok {
			t.Errorf("%s installs nothing", typed)
		}
	}
}

func TestLinksUnlessRustcIsAskedForElse(t *testing.T) {
	for typed, want := range map[string]bool{
		"rustc":                                  true,
		"rustc -- -Cdebuginfo=0":                 true,
		"rustc -- --emit=asm":                    false,
		"rustc -- --emit asm,link=out":           true,
		"rustc -- --emit=link,dep-info":          true,
		"rustc -- --emit metadata -Copt-level=3": false,
	} {
		l, _, err := Split(strings.Fields(typed), nil)
		if err != nil || l.Links() != want {
			t.Errorf("%s: %v %v", typed, l.Links(), err)
		}
	}
}
