package cargo

import (
	"testing"

	"gpubuild/buildenv/hosttest"
)

// TestUnfetched reads what cargo 1.95 said with an empty CARGO_HOME, offline and in a network namespace without a network.
func TestUnfetched(t *testing.T) {
	for _, tt := range []struct{ story, stderr, want string }{
		{"no index", "error: no matching package named `candle-core` found\nlocation searched: crates.io index\nrequired by package `a v0.1.0 (/a)`\n" +
			"As a reminder, you're using offline mode (--frozen) which can sometimes cause surprising resolution failures", "candle-core is not fetched yet"},
		{"the index alone", "error: failed to download `allocator-api2 v0.2.21`\n\nCaused by:\n  attempting to make an HTTP request, but --offline was specified\n",
			"allocator-api2 is not fetched yet"},
		{"no network", "warning: spurious network error (1 try remaining): [6] Could not resolve hostname\nerror: failed to get `candle-core` as a dependency of " +
			"package `a v0.1.0 (/a)`\n\nCaused by:\n  download of config.json failed\n\nCaused by:\n  [6] Could not resolve hostname (Could not resolve host: index)\n",
			"candle-core is not fetched yet, and cargo could not reach the index: [6] Could not resolve hostname (Could not resolve host: index)"},
		{"a wrong name, with a network", "error: no matching package named `candle-cor` found\nlocation searched: crates.io index\n", ""},
		{"a broken manifest", "error: failed to parse manifest at `/a/Cargo.toml`\n\nCaused by:\n  invalid", ""},
	} {
		hosttest.Equal(t, Unfetched(tt.stderr), tt.want, tt.story)
	}
}
