package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gpubuild/buildenv/hosttest"
)

const root = "../.."

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)|(?:src|srcset)="([^"]+)"`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	fenced  = regexp.MustCompile("(?ms)^```.*?^```$")
	code    = regexp.MustCompile("`[^`\n]*`")
	snippet = regexp.MustCompile(`(?m)^--8<-- "(.*)"$`)
)

// read returns a page without its code blocks, and with the file that it includes.
func read(t *testing.T, path string) string {
	t.Helper()
	data := hosttest.Must(os.ReadFile(path))(t)
	text := fenced.ReplaceAllString(string(data), "")
	if m := snippet.FindStringSubmatch(text); m != nil {
		return read(t, filepath.Join(root, m[1]))
	}
	return text
}

// anchors are what GitHub makes of a page's headings.
func anchors(text string) map[string]bool {
	out := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		slug := strings.ReplaceAll(strings.ToLower(m[1]), " ", "-")
		out[regexp.MustCompile(`[^\p{L}\p{N}_-]`).ReplaceAllString(slug, "")] = true
	}
	return out
}

// TestLinks: each link of README and of docs/ leads to a file, and to a heading of it.
func TestLinks(t *testing.T) {
	pages := []string{"README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"}
	for _, pattern := range []string{"docs/*.md", "docs/commands/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(found) == 0 {
			t.Fatal(pattern, err)
		}
		for _, path := range found {
			pages = append(pages, strings.TrimPrefix(filepath.ToSlash(path), root+"/"))
		}
	}
	links := 0
	for _, page := range pages {
		path := filepath.Join(root, page)
		for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(read(t, path), ""), -1) {
			to, anchor, _ := strings.Cut(m[1]+m[2], "#")
			if strings.Contains(to, "://") {
				continue
			}
			links++
			target := path
			if to != "" {
				target = filepath.Join(filepath.Dir(path), to)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: %v", page, err)
			} else if anchor != "" && !anchors(read(t, target))[anchor] {
				t.Errorf("%s: %s has no heading #%s", page, to, anchor)
			}
		}
	}
	if links < 90 {
		t.Errorf("only %d links were found", links)
	}
}

// TestReadmesFigures: each figure with a unit has a source, which is a row of docs/measurements.md with its command.
func TestReadmesFigures(t *testing.T) {
	text, measured := read(t, filepath.Join(root, "README.md")), read(t, filepath.Join(root, "docs", "measurements.md"))
	if n := strings.Count(text, "\n"); n > 150 {
		t.Errorf("README has %d lines, more than 150", n)
	}
	for _, figure := range regexp.MustCompile(`[0-9][0-9.]* (?:MB|GB|kB|ms|s|seconds|minutes|min|%|times)\b`).FindAllString(text, -1) {
		if !regexp.MustCompile(`(?m)^\|.*\b` + regexp.QuoteMeta(figure) + "\\b.*\\| .*`.*` \\|$").MatchString(measured) {
			t.Errorf("%q has no row with a command in docs/measurements.md", figure)
		}
	}
}

// TestSecurityHasTests: each test and script that SECURITY.md names is there.
func TestSecurityHasTests(t *testing.T) {
	named := regexp.MustCompile("`(Test\\w+|[a-z-]+\\.txtar)`").FindAllStringSubmatch(read(t, filepath.Join(root, "SECURITY.md")), -1)
	if len(named) < 30 {
		t.Errorf("only %d tests are named", len(named))
	}
	var tests strings.Builder
	hosttest.OK(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, "_test.go") {
			data, err := os.ReadFile(path)
			tests.Write(data)
			return err
		}
		return err
	}))
	for _, m := range named {
		_, err := os.Stat(filepath.Join(root, "testdata", "script", m[1]))
		if err != nil && !strings.Contains(tests.String(), "\nfunc "+m[1]+"(t *testing.T) {") {
			t.Errorf("SECURITY.md names %s, which is no test", m[1])
		}
	}
}
