package features

import (
	"strings"
	"testing"
)

// TestClearWhereAnotherEdgeTurnsItOn: p0 does not pass cuda on. Alone that is a fault; whoever uses p0 and passes cuda to the crate itself has none.
func TestClearWhereAnotherEdgeTurnsItOn(t *testing.T) {
	files := chainFiles(4)
	files["/w/crates/p0/Cargo.toml"] = strings.Replace(files["/w/crates/p0/Cargo.toml"], `"candle-core/cuda"`, "", 1)
	// p2 passes it to p1 only, p3 to p2 only.
	for _, at := range []string{"p2", "p3"} {
		name := "/w/crates/" + at + "/Cargo.toml"
		files[name] = strings.Replace(files[name], `"candle-core/cuda", `, "", 1)
	}
	// q reaches one GPU crate and not the other; r, which uses q, passes it to the other.
	files["/w/crates/candle-nn/Cargo.toml"] = strings.Replace(files["/w/crates/candle-core/Cargo.toml"], "candle-core", "candle-nn", 1)
	files["/w/crates/candle-nn/src/lib.rs"] = ""
	both := "candle-core = { path = \"../candle-core\" }\ncandle-nn = { path = \"../candle-nn\" }\n"
	files["/w/crates/q/Cargo.toml"] = pkg("q", "[features]\ncuda = [\"candle-core/cuda\"]\n[dependencies]\n"+both)
	files["/w/crates/r/Cargo.toml"] = pkg("r", "[features]\ncuda = [\"q/cuda\", \"candle-nn/cuda\"]\n[dependencies]\nq = { path = \"../q\" }\ncandle-nn = { path = \"../candle-nn\" }\n")
	files["/w/Cargo.lock"] += "\n[[package]]\nname = \"candle-nn\"\nversion = \"0.11.1\"\n\n[[package]]\nname = \"q\"\nversion = \"0.1.0\"\ndependencies = [\n \"candle-core\",\n \"candle-nn\",\n]\n\n[[package]]\nname = \"r\"\nversion = \"0.1.0\"\ndependencies = [\n \"candle-nn\",\n \"q\",\n]\n"
	clear := func() map[string]bool {
		p, err := Load(memHost(files), "/w/Cargo.toml")
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]bool{}
		for _, m := range p.Members {
			out[m.Name] = p.Clear(m, Request{Features: []string{"cuda"}})
		}
		return out
	}
	got := clear()
	if got["p0"] {
		t.Error("p0 alone is said to be clear, and computes on the CPU")
	}
	if got["q"] {
		t.Error("q is said to be clear, and candle-nn computes on the CPU")
	}
	for _, name := range []string{"p1", "p2", "p3", "r"} {
		if !got[name] {
			t.Errorf("%s is not clear, though what others lack is turned on", name)
		}
	}
	files["/w/crates/p1/Cargo.toml"] = strings.Replace(files["/w/crates/p1/Cargo.toml"], `"candle-core/cuda", `, "", 1)
	for name, is := range clear() {
		if is != (name == "r") {
			t.Errorf("%s: clear is %v, and only q turns candle-core's cuda on", name, is)
		}
	}
}

func TestFeatureSet(t *testing.T) {
	var none featureSet
	small, large := none.plus(3), none.plus(3).plus(200)
	if !none.within(none) || !none.within(small) || !small.within(large) || large.within(small) || small.within(none) {
		t.Errorf("%v in %v", small, large)
	}
	both := none.with(small).with(none.plus(64))
	if !small.within(both) || !both.within(none.plus(64).plus(3)) || large.within(both) {
		t.Errorf("%v", both)
	}
	if len(none) != 0 {
		t.Error("an empty set was changed")
	}
}
