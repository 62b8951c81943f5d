package cargo

import (
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest"
)

func TestNextest(t *testing.T) {
	for typed, want := range map[string]string{
		"nextest run": "test",
		"nextest r":   "test",
		"+nightly nextest run -p a --features cuda,cudnn":          "+nightly test --package=a --features=cuda,cudnn",
		"nextest run --release -E test(gpu) --no-run -- --ignored": "test --release --no-run",
		"nextest run -r -j 4 --retries 2 name --lib":               "test --release --lib",
		"nextest run --cargo-profile fat --profile ci -P ci":       "test --profile fat",
		"nextest run --cargo-profile=fat --build-jobs 2":           "test --profile fat --jobs 2",
		"nextest run --manifest-path x/Cargo.toml --no-fail-fast":  "test --manifest-path=x/Cargo.toml",
		"--offline nextest run --target t --all-features":          "test --offline --target=t --all-features",
		"nextest list":         "",
		"nextest":              "",
		"nextest run --help":   "",
		"nextest archive":      "",
		"test run":             "",
		"nextest-other run -r": "",
	} {
		l, _ := hosttest.Must2(Split(strings.Fields(typed), nil))(t)
		test, ok := l.Nextest()
		got := ""
		if ok {
			got = strings.Join(test.typed, " ")
		}
		hosttest.Equal(t, got, want, typed)
		_, builds := l.NextestBuild()
		if should := want != "" || typed == "nextest list" || typed == "nextest archive"; builds != should {
			t.Errorf("%s: builds is %v", typed, builds)
		}
	}
}
