package cargo

import (
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest"
)

func TestChange(t *testing.T) {
	for _, tt := range []struct {
		typed string
		c     Change
		want  string
	}{
		{"build --features cuda -p app", Change{Features: []string{"dep/cuda"}}, "build --features cuda,dep/cuda -p app"},
		{"build --release -F cuda --features=fast,cuda", Change{Features: []string{"x/y"}}, "build --features cuda,fast,x/y --release"},
		{"+1.80 --locked b -Fcuda --bin a", Change{Features: []string{"f"}}, "+1.80 --locked b --features cuda,f --bin a"},
		{"-p app --features cuda -p other --exclude x --offline", Change{Alone: "m/Cargo.toml", Features: []string{"f"}},
			"build --manifest-path m/Cargo.toml --features f --offline"},
		{"build --features cuda,fast", Change{Without: []string{"cuda"}}, "build --features fast"},
		{"build --features cuda", Change{Without: []string{"cuda"}}, "build"},
		{"run --features cuda -- --features x", Change{Features: []string{"f"}}, "run --features cuda,f -- --features x"},
		{"build -vFcuda", Change{Features: []string{"f"}}, "build --features cuda,f -vFcuda"},
	} {
		l, _ := hosttest.Must2(Split(strings.Fields(tt.typed), nil))(t)
		got, err := l.Change(tt.c)
		if err != nil || strings.Join(got.Words(), " ") != tt.want {
			t.Errorf("%s: %q %v, want %q", tt.typed, strings.Join(got.Words(), " "), err, tt.want)
		}
	}
}

// TestAs: a hint is the user's own command as another one, without what only theirs takes.
func TestAs(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string]string{
		"build --features cuda -p app":                        "features --fix --features=cuda --package=app",
		"+1.80 -C sub --locked run -Fcuda --bin a -- --sizes": "+1.80 -C sub features --fix --features=cuda --bin=a",
		"test --features cuda name -- --nocapture":            "features --fix --features=cuda",
		"b --manifest-path x/Cargo.toml --release":            "features --fix --manifest-path=x/Cargo.toml --release",
	} {
		l, _ := hosttest.Must2(Split(strings.Fields(typed), nil))(t)
		hosttest.Equal(t, strings.Join(l.As("features", "--fix"), " "), want, typed)
	}
}
