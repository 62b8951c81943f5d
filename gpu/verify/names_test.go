package verify

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestKernelNames judges real kernels' names.
func TestKernelNames(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "testdata", "kernelnames", "names.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for i, line := range strings.Split(strings.TrimSuffix(string(data), "\n"), "\n") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(line, "\t")
		if len(f) != 3 || f[0] != "product" && f[0] != "other" || f[1] == "" || f[2] == "" {
			t.Fatalf("line %d: %q", i+1, line)
		}
		if count[f[1]]++; count[f[1]] > 1 {
			t.Errorf("line %d: %s stands there twice", i+1, f[1])
		}
		if got := IsProduct(f[1]); got != (f[0] == "product") {
			t.Errorf("line %d: %.200s (%s) is said to be a product: %v", i+1, f[1], Plain(f[1]), got)
		}
	}
	if len(count) < 500 {
		t.Errorf("only %d names", len(count))
	}
}
