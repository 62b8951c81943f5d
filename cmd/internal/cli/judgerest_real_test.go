//go:build linux

package cli_test

import (
	"path/filepath"
	"testing"
)

// inOurEnvironment is plain cargo with everything that gpubuild sets, so that neither finds a variable changed.
func (b *twoToolkits) inOurEnvironment(root, arch string) {
	b.t.Helper()
	b.must(b.command(nil, "bash", "-ec", `set="$(`+binary(b.t)+` env --shell=bash --features cuda --toolkit=`+root+` --arch=`+arch+
		`)"; eval "$set"; exec cargo build --features cuda`))
}

// TestTakenWithoutBeingCompared: plain cargo built with another toolkit where gpubuild had not been (other RUSTFLAGS, so another OUT_DIR),
// and cargo takes that for fresh although gpubuild chose otherwise. Only after cargo's run is it known which OUT_DIR it took.
func TestTakenWithoutBeingCompared(t *testing.T) {
	t.Parallel()
	b := sampleWithTwoToolkits(t)
	link, use := b.linkTo()
	use(b.first)
	b.gpubuild(link, "sm_90")
	b.env = append(b.env, "RUSTFLAGS=--cfg=elsewhere")
	use(b.other)
	b.inOurEnvironment(link, "sm_90")
	outs, _ := filepath.Glob(filepath.Join(b.dir, "target", "debug", "build", "matmul-*", "out"))
	if len(outs) != 2 {
		t.Fatalf("RUSTFLAGS gave it no OUT_DIR of its own: %s", outs)
	}
	use(b.first)
	const reason = "matmul: there is no record of what it was built with"
	for _, story := range []string{"--gpu-no-clean", "--gpu-no-clean, the next time", "--gpu-no-clean, the time after"} {
		text, code := b.runs(link, "sm_90", "--gpu-no-clean")
		b.said(story, text, code, 13, 0, "Unknown "+reason, "error: stale, but --gpu-no-clean does not allow cleaning: matmul",
			"hint: leave --gpu-no-clean out, or run cargo clean -p matmul")
		b.rebuilt(story, text)
		b.holds(story, b.other, "sm_90")
	}
	text := b.ends("with cleaning", link, "sm_90", 0, 1, "Unknown "+reason)
	b.rebuilt("with cleaning", text, "matmul")
	b.holds("with cleaning", b.first, "sm_90")
	b.rebuilt("and then nothing", b.ends("and then nothing", link, "sm_90", 0, 0, "!Stale"))
	text, code := b.runs(link, "sm_90", "--gpu-no-clean")
	b.said("--gpu-no-clean, with nothing to clean", text, code, 0, 0)
}

// TestNoCleanAfterPlainCargo: plain cargo built with another toolkit in the very OUT_DIR of which a record speaks, then in a directory
// without a record. Neither becomes fresh by being asked for again.
func TestNoCleanAfterPlainCargo(t *testing.T) {
	t.Parallel()
	b := sampleWithTwoToolkits(t)
	link, use := b.linkTo()
	use(b.first)
	b.gpubuild(link, "sm_90")
	use(b.other)
	b.must(b.command(nil, "cargo", "clean", "-q", "-p", "matmul"))
	b.inOurEnvironment(link, "sm_90")
	use(b.first)
	const reason = "matmul: there is no record of what it was built with"
	for _, story := range []string{"plain cargo was here", "the next time"} {
		text, code := b.runs(link, "sm_90", "--gpu-no-clean")
		b.said(story, text, code, 13, 0, "Unknown "+reason, "error: stale, but --gpu-no-clean does not allow cleaning: matmul")
		b.rebuilt(story, text)
		b.holds(story, b.other, "sm_90")
		text, code = b.asks(link, "sm_90")
		b.said(story+": gpubuild stale", text, code, 13, 0, "unknown: "+reason)
	}
	b.ends("with cleaning", link, "sm_90", 0, 1, "Unknown "+reason)
	b.holds("with cleaning", b.first, "sm_90")
}
