package need

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest"
)

func TestWishes(t *testing.T) {
	got, err := parse("wine=/w, zsh,random=500,")
	if err != nil || len(got) != 3 || got["wine"] != "/w" || got["random"] != "500" {
		t.Errorf("%v %v", got, err)
	}
	if _, err := parse("zsh,vine"); err == nil || !strings.Contains(err.Error(), `no test needs "vine"; the names are all, actionlint`) {
		t.Errorf("%v", err)
	}
	if got, err := parse(""); err != nil || len(got) != 0 {
		t.Errorf("%v %v", got, err)
	}
}

// elsewhere is what only this package may do: look for programs, read the tests' configuration (GPUBUILD_CACHE and GPUBUILD_CUPTI are the
// product's), and skip.
var elsewhere = regexp.MustCompile(`\bexec\.LookPath\(|os\.(Getenv|LookupEnv)\("GPUBUILD_[ABD-Z]|\b[tbf]\.Skip(f|Now)?\(|testing\.Short\(`)

// inScripts is a condition of testscript's own, which takes any program that is there.
var inScripts = regexp.MustCompile(`(?m)^(\[[^\]]*\] )*\[!?exec:|^(\[[^\]]*\] )*skip\b`)

// TestNobodyElseDecides reads all tests: whether one runs is decided here, so that GPUBUILD_TEST says all of it.
func TestNobodyElseDecides(t *testing.T) {
	root, read := filepath.Join("..", "..", ".."), 0
	hosttest.OK(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); name == "target" || name == ".git" || name == "need" {
				return filepath.SkipDir
			}
			return nil
		}
		rule := elsewhere
		switch {
		case strings.HasSuffix(path, "_test.go"):
		case strings.HasSuffix(path, ".txtar") && filepath.Base(filepath.Dir(path)) == "script":
			rule = inScripts
		default:
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		read++
		for _, at := range rule.FindAllIndex(text, -1) {
			line := 1 + strings.Count(string(text[:at[0]]), "\n")
			t.Errorf("%s:%d: %q belongs to buildenv/hosttest/need: call need.Tool, need.Asked or need.Missing", path, line, text[at[0]:at[1]])
		}
		return nil
	}))
	if read < 100 {
		t.Errorf("only %d files were read: the test does not see the repository", read)
	}
}
