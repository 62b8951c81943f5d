package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestPlaces: in how many places a verb, an exit code and a verdict stand, counted for one example of each. CONTRIBUTING.md ("Where to add")
// names the places. What only uses an exit code or a verdict is not one of them: it returns it, or asks for it.
func TestPlaces(t *testing.T) {
	t.Parallel()
	for what, tt := range map[string]struct {
		line  string // what its lines look like
		skip  string // files where it is used
		most  int
		among []string // besides Go
	}{
		"the verb scan":      {`\bscanVerb\b|(?:case |, )"scan"|\[.scan.\]`, `^cmd/internal/(scan|config)/`, 3, []string{"README.md"}},
		"the exit code 23":   {`^\tAlert\s|\{Alert,|exit\.Alert\b|^   23  `, `^cmd/internal/(watch|cli)/`, 3, []string{"docs/exit-codes.md", "README.md"}},
		"the verdict Proved": {`\{Proved, "|^\tProved\s|return Proved\b|== Proved && |^id = "proof.proved"`, `^cmd/`, 4, []string{"buildenv/finding/findings.toml"}},
	} {
		line, skip := regexp.MustCompile("(?m)"+tt.line), regexp.MustCompile(tt.skip)
		var places []string
		err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
			name := filepath.ToSlash(strings.TrimPrefix(path, filepath.Join("..", "..")+string(filepath.Separator)))
			if d != nil && d.IsDir() && (d.Name() == "testdata" || d.Name() == ".git" || d.Name() == "target") {
				return fs.SkipDir
			}
			if err != nil || d.IsDir() || strings.HasSuffix(name, "_test.go") || filepath.Ext(name) != ".go" && !slices.Contains(tt.among, name) || skip.MatchString(name) {
				return err
			}
			data, err := os.ReadFile(path)
			for _, m := range line.FindAllString(string(data), -1) {
				places = append(places, name+": "+strings.TrimSpace(m))
			}
			return err
		})
		t.Logf("%s: %q", what, places)
		if err != nil || len(places) > tt.most || len(places) < 2 {
			t.Errorf("%s stands in %d places, which may be %d: %v", what, len(places), tt.most, err)
		}
	}
}
