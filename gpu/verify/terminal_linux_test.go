package verify

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"

	"gpubuild/buildenv/hosttest/need"
	"gpubuild/buildenv/proc"
)

// On a terminal, too, what the program says is heard; it has a terminal of the same size, and the user's gets what it writes as it writes it.
func TestProgramOnATerminal(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	z := newZooKeeper(t, l).in(t)
	o := l.options(t)
	o.Env, o.Nodes = o.Env.Set("LD_LIBRARY_PATH", z.libs), z.nodes
	o.Launcher = []string{need.Program(t, "sh", "sh"), "-c", `test -t 1 && test -t 2 && stty size <&2 && exec "$@"`, "sh"}
	for said, want := range map[string]Kind{"all is well": Proved, "\x1b[31mno GPU found\x1b[0m, using CPU": Unproved} {
		user, theirs, err := pty.Open()
		if err != nil {
			need.Missing(t, "sh", "no terminal can be had here: %v", err)
		}
		if err := pty.Setsize(user, &pty.Winsize{Rows: 17, Cols: 71}); err != nil {
			t.Fatal(err)
		}
		shown := make(chan string)
		go func() {
			text, _ := io.ReadAll(user)
			shown <- string(text)
		}()
		o.Binary, o.Args, o.Stdout, o.Stderr = z.get("acts"), []string{"driver", "product", "say=" + said}, theirs, theirs
		e, err := Run(context.Background(), l.host, proc.Runner{Grace: time.Second}, o)
		if err != nil {
			t.Fatal(err)
		}
		theirs.Close()
		if v := Judge(e, o.Rules()); v.Kind != want {
			t.Errorf("%q: got %s: %s", said, v.Kind, v.Why)
		}
		if got := <-shown; got != "17 71\r\n"+said+"\r\n" {
			t.Errorf("the user's terminal got %q", got)
		}
		if strings.Contains(e.Said, "\x1b") {
			t.Errorf("%q", e.Said)
		}
	}
}
