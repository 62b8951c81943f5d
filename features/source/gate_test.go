package source

import (
	"testing"
)

func TestGatesCode(t *testing.T) {
	for text, want := range map[string]bool{
		`#[cfg(feature = "cuda")]` + "\nmod gpu;":                            true,
		`if cfg!(feature="cuda") {`:                                          true,
		`#[cfg(all(feature = "realizar", feature = "cuda"))]` + "\nfn f(){}": true,
		`// #[cfg(feature = "cuda")]`:                                        false,
		`//! built with feature = "cuda"`:                                    false,
		`#[cfg_attr(docsrs, doc(cfg(feature = "cuda")))]`:                    false,
		`#[cfg(feature = "cuda")]` + "\n" + `compile_error!("no");`:          false,
		`#[cfg(feature = "cuda-11")]`:                                        false,
		`let x = "cuda";`:                                                    false,
	} {
		if got := gatesCode(text, testOf("cuda")); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}
