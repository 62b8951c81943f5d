package toolkits

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest"
)

// TestCacheCleanKnowsEveryPart: what gpubuild creates below its cache, by its own source, is what `cache clean` takes for gpubuild's.
func TestCacheCleanKnowsEveryPart(t *testing.T) {
	t.Parallel()
	joined := regexp.MustCompile(`(?:Join\((?:m\.CacheDir|s\.Machine\.CacheDir|cacheDir|p\.cache), |\.Scratch\()(?:"([^"]+)"|(?:\w+\.)?(\w+))`)
	constant := regexp.MustCompile(`(?m)^\s*(?:const )?(\w+) += "([\w.-]+)"$`)
	dirs, values, named := map[string]bool{}, map[string]string{}, map[string]bool{}
	hosttest.OK(t, filepath.WalkDir("../../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		data, err := os.ReadFile(path)
		for _, c := range constant.FindAllStringSubmatch(string(data), -1) {
			values[c[1]] = c[2]
		}
		for _, j := range joined.FindAllStringSubmatch(string(data), -1) {
			if j[1] != "" {
				dirs[j[1]] = true
			} else {
				named[j[2]] = true
			}
		}
		return err
	}))
	for name := range named {
		if name != "dir" && name != "name" { // variables of loops, over names that stand elsewhere, too
			dirs[values[name]] = true
		}
	}
	if len(dirs) < 11 { // it finds what there is
		t.Errorf("found only %v", dirs)
	}
	for dir := range dirs {
		if !slices.Contains(cacheParts, dir) {
			t.Errorf("cacheParts lacks %q", dir)
		}
	}
}
