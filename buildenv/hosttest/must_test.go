package hosttest

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// ended is a test that only notes whether it was ended.
type ended struct {
	testing.TB
	by error
}

func (e *ended) Helper() {}

func (e *ended) Fatal(args ...any) {
	e.by, _ = args[0].(error)
	runtime.Goexit()
}

func TestMustEndsTheTestThatItIsGiven(t *testing.T) {
	fails, left := &ended{}, true
	done := make(chan struct{})
	go func() {
		defer close(done)
		Must(1, fs.ErrExist)(fails)
		left = false
	}()
	<-done
	if !errors.Is(fails.by, fs.ErrExist) || !left {
		t.Errorf("it was ended by %v", fails.by)
	}
}

// A statement Must(f()) without (t) compiles and looks at no error.
func TestMustIsGivenATest(t *testing.T) {
	forgotten, seen := regexp.MustCompile(`(?m)^\s*hosttest\.Must2?\(.*\)\)$`), 0
	OK(t, filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text := string(Must(os.ReadFile(path))(t))
		seen += strings.Count(text, "hosttest.Must")
		for _, line := range forgotten.FindAllString(text, -1) {
			t.Errorf("%s: the test is missing behind %s", path, strings.TrimSpace(line))
		}
		return nil
	}))
	if seen < 100 {
		t.Errorf("only %d calls were looked at", seen)
	}
}
