package catalog

import (
	"reflect"
	"regexp"
	"strings"
	"testing"
)

func TestCatalog(t *testing.T) {
	c := Default()
	for i := range c.Crates {
		e := &c.Crates[i]
		if c.Crate(e.Name) != e {
			t.Errorf("%s stands twice", e.Name)
		}
		if len(e.Sources) == 0 || e.Backend == "" || strings.ContainsAny(e.Name, " ()") {
			t.Errorf("%s: %+v", e.Name, e)
		}
		switch e.Role {
		case Carrier, Gated, Monitor, ByFile, Helper, FalseFriend:
		default:
			t.Errorf("%s: role %q", e.Name, e.Role)
		}
		if e.Role == Gated && len(e.CUDAFeatures) == 0 {
			t.Errorf("%s is gated by nothing", e.Name)
		}
		for _, f := range e.Floors {
			if f.Arch.IsZero() || f.Why == "" || len(f.Sources) == 0 || (f.File == "") != (f.Has == "") {
				t.Errorf("%s: floor %+v", e.Name, f)
			}
			f.AppliesTo("x") // panics where a pattern is none
		}
		for _, name := range e.Env() {
			if !regexp.MustCompile(`^[A-Z][A-Z0-9_]*\*?$`).MatchString(name) || name == "PATH" || name == "OUT_DIR" || strings.HasPrefix(name, "CARGO_") {
				t.Errorf("%s: %q is no variable that is recorded", e.Name, name)
			}
		}
		for f := range e.Lost {
			if _, ok := e.Features[f]; !ok {
				t.Errorf("%s loses something without %s, which it has not", e.Name, f)
			}
		}
	}
	if got := c.Crate("candle-kernels").Env(); !reflect.DeepEqual(got, []string{"CUDA_COMPUTE_CAP", "CUDA_HOME", "NVCC", "NVCC_CCBIN"}) {
		t.Errorf("variables of candle-kernels: %v", got)
	}
	if c.Crate("serde") != nil || c.Crate("serde").CUDA() {
		t.Error("a crate that nobody listed")
	}
	if _, err := parseCatalog("schema = 1\nunknown = 2\n"); err == nil {
		t.Error("an unknown key went unnoticed")
	}
}
