package manifest

import (
	"fmt"
	"testing"

	"gpubuild/buildenv/hosttest"
)

// BenchmarkQuickLook is what a build without GPU work pays: 600 packages that nothing leads to a GPU, all of them local.
func BenchmarkQuickLook(b *testing.B) {
	files := map[string]string{"/w/Cargo.toml": "[workspace]\nmembers = [\"crates/*\"]\nresolver = \"2\"\n"}
	text := lock("serde")
	for i := 0; i < 600; i++ {
		deps := "serde = \"1\"\n"
		if i > 0 {
			deps += fmt.Sprintf("p%d = { path = \"../p%d\" }\n", i-1, i-1)
		}
		files[fmt.Sprintf("/w/crates/p%d/Cargo.toml", i)] = pkg(fmt.Sprintf("p%d", i), "[features]\nfast = []\n[dependencies]\n"+deps)
		text += fmt.Sprintf("\n[[package]]\nname = \"p%d\"\nversion = \"0.1.0\"\ndependencies = [\n \"serde\",\n]\n", i)
	}
	files["/w/Cargo.lock"] = text
	benchmark(b, files, "/w/Cargo.toml")
}

// BenchmarkQuickLookSmall is the same for one package with some registry dependencies.
func BenchmarkQuickLookSmall(b *testing.B) {
	benchmark(
		b,
		map[string]string{
			"/w/Cargo.toml": pkg(
				"app",
				"[features]\nfast = [\"rayon/fast\"]\n[dependencies]\nrayon = \"1\"\nserde = \"1\"\n",
			),
			"/w/Cargo.lock": lock("app: rayon serde", "rayon: either", "either", "serde"),
		},
		"/w/Cargo.toml",
	)
}

func benchmark(b *testing.B, files map[string]string, manifest string) {
	h := hosttest.Memory(files)
	for i := 0; i < b.N; i++ {
		p, err := Load(h, manifest)
		if err != nil {
			b.Fatal(err)
		}
		if work, why := p.GPUWork(Request{}); work {
			b.Fatal(why)
		}
	}
}
