package cli

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kballard/go-shellquote"

	"gpubuild/cmd/internal/pipeline"
	"gpubuild/toolchain/cargo"
	"gpubuild/toolchain/explain"
)

// accepts reads a command of gpubuild's as gpubuild does, without running it.
func accepts(command string) error {
	words, err := shellquote.Split(command)
	if err != nil {
		return err
	}
	words = verbFirst(words[slices.Index(words, "gpubuild")+1:])
	if len(words) == 0 {
		return nil
	}
	if v, ours := find(words[0]); ours {
		if asksHelp(words[1:]) != "" {
			return nil
		}
		return checkOnly(v, words[1:])
	}
	var o pipeline.Options
	flags := cargoFlags(&o)
	line, given, err := cargo.Split(words, ownFlags(flags, prefix))
	if err != nil {
		return err
	}
	if !line.Known() || len(line.Unknown()) > 0 {
		return fmt.Errorf("cargo has no command or flag of %q", words)
	}
	if err := setAll(flags, given, prefix); err != nil {
		return err
	}
	return checkCargo("", o, line, flags)
}

// setAll sets flags to the values of a command line. A toolkit is looked for only when it is needed: its name is judged here.
func setAll(flags []*flag, given []cargo.Own, prefix string) error {
	toolkit := regexp.MustCompile(`^(\d+(\.\d+)*|fetch|none|.*[/\\].*)$`)
	for _, g := range given {
		f := findFlag(flags, g.Name, prefix)
		if err := f.Value.Set(g.Value); err != nil {
			return fmt.Errorf("%s: %w", g.Name, err)
		}
		if f.Name == "toolkit" && !toolkit.MatchString(g.Value) {
			return fmt.Errorf("%s=%s names no toolkit", g.Name, g.Value)
		}
	}
	return nil
}

// TestCommandsOfExplain: gpubuild accepts every command of its own that explain prints.
func TestCommandsOfExplain(t *testing.T) {
	t.Parallel()
	rules, err := explain.Default()
	if err != nil {
		t.Fatal(err)
	}
	value := regexp.MustCompile(`\{[\w-]+\}`)
	quoted := regexp.MustCompile("`((?:[A-Z_]+=\\S+ )*gpubuild [^`]+)`")
	n := 0
	for _, r := range rules.All {
		commands := append(slices.Clone(r.Commands), r.Command)
		for _, m := range quoted.FindAllStringSubmatch(r.Cause+"\n"+r.Fix, -1) {
			commands = append(commands, m[1])
		}
		for _, c := range commands {
			if !slices.Contains(strings.Fields(c), "gpubuild") {
				continue
			}
			n++
			if err := accepts(value.ReplaceAllString(c, "80")); err != nil {
				t.Errorf("%s: %s: %v", r.ID, c, err)
			}
		}
	}
	if n < 40 {
		t.Errorf("only %d commands were read", n)
	}
}

// TestHintsOfScripts: and every one that a script awaits as a hint.
func TestHintsOfScripts(t *testing.T) {
	t.Parallel()
	hint := regexp.MustCompile(`(?m)'\^hint: (gpubuild [^$()|\n` + "`" + `]*?)\$'$`)
	n := 0
	err := filepath.WalkDir(filepath.Join("..", "..", "..", "testdata"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".txtar" {
			return err
		}
		data, err := os.ReadFile(path)
		for _, m := range hint.FindAllStringSubmatch(string(data), -1) {
			n++
			command := strings.NewReplacer("''", "'", `\`, "", ".*", "x").Replace(m[1])
			if err := accepts(command); err != nil {
				t.Errorf("%s: %s: %v", filepath.Base(path), command, err)
			}
		}
		return err
	})
	if err != nil || n < 10 {
		t.Errorf("%d hints were read: %v", n, err)
	}
}
