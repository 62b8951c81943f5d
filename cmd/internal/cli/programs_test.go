package cli_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// programs are what tests build, each once for all of them: a link takes seconds. tidy removes them.
var programs struct {
	sync.Mutex
	dir   string
	built map[string]func() (string, error)
}

// built is the program of a package of ours, for an operating system; with "test -c" of words its tests.
func built(t testing.TB, goos, pkg string, words ...string) string {
	t.Helper()
	p := &programs
	p.Lock()
	key := strings.Join(append(words, goos, pkg), " ")
	if p.built == nil {
		p.built = map[string]func() (string, error){}
		var err error
		if p.dir, err = os.MkdirTemp("", "gpubuild-test"); err != nil {
			t.Fatal(err)
		}
	}
	if p.built[key] == nil {
		path := filepath.Join(p.dir, strconv.Itoa(len(p.built)), "gpubuild")
		p.built[key] = sync.OnceValues(func() (string, error) {
			c := exec.Command("go", append(words, "-buildvcs=false", "-o", path, pkg)...)
			c.Dir, c.Env = repository, os.Environ()
			if goos != runtime.GOOS {
				c.Env = append(c.Env, "GOOS="+goos, "GOARCH=amd64", "CGO_ENABLED=0")
			}
			if out, err := c.CombinedOutput(); err != nil {
				return "", fmt.Errorf("%s: %w\n%s", key, err, out)
			}
			return path, nil
		})
	}
	build := p.built[key]
	p.Unlock()
	path, err := build()
	noError(t, err)
	return path
}

// tidy runs the tests and then removes the programs that they built.
type tidy struct{ tests interface{ Run() int } }

func (r tidy) Run() int {
	defer func() { _ = os.RemoveAll(programs.dir) }() // empty where none was built
	return r.tests.Run()
}
