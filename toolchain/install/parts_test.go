package install

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Every part that a document or a rule of explain names can be installed.
func TestNamedParts(t *testing.T) {
	c, err := DefaultCatalog()
	if err != nil {
		t.Fatal(err)
	}
	pages, _ := filepath.Glob("../../docs/*.md")
	verbs, _ := filepath.Glob("../../docs/commands/*.md")
	seen := 0
	for _, f := range slices.Concat([]string{"../explain/rules.toml"}, pages, verbs) {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`--parts[ =]([a-z]+(?:,[a-z]+)*)`).FindAllStringSubmatch(string(text), -1) {
			for _, part := range strings.Split(m[1], ",") {
				if seen++; !slices.Contains(c.names(), part) {
					t.Errorf("%s: %s: no part is called %s", f, m[0], part)
				}
			}
		}
	}
	if seen == 0 {
		t.Error("no document names a part")
	}
}
