package verify

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestWordsOfFallingBack judges lines that programs write.
func TestWordsOfFallingBack(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "testdata", "fallback", "phrases.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for i, line := range strings.Split(strings.TrimSuffix(string(data), "\n"), "\n") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(line, "\t")
		if len(f) != 3 || f[0] != "fell" && f[0] != "innocent" || f[2] == "" {
			t.Fatalf("line %d: %q", i+1, line)
		}
		count[f[0]]++
		text := "a\n" + strings.NewReplacer(`\e`, "\x1b", `\r`, "\r", `\\`, `\`).Replace(f[1]) + "\nb"
		if got := conflicting([]byte(text)); (got != "") != (f[0] == "fell") {
			t.Errorf("line %d: %s: %q is heard in %q", i+1, f[0], got, f[1])
		}
	}
	// Who fails says that there is no GPU, too: that alone is no announced fallback.
	for _, honest := range []string{"error: no CUDA devices found", "CUDA not available", "failed to initialize CUDA", "pass --cpu to run on the CPU"} {
		if got := FellBack([]byte(honest)); got != "" {
			t.Errorf("%q is taken for a fallback", got)
		}
	}
	if count["fell"] < 60 || count["innocent"] < 40 {
		t.Errorf("%v", count)
	}
}
