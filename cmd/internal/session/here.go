package session

import (
	"io"
	"os"
	"sync/atomic"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/local"
	"gpubuild/buildenv/proc"
	"gpubuild/cmd/internal/console"
)

// Here is the machine that gpubuild runs on. It sets the shell's colours.
func Here(stdin io.Reader, shell *console.Shell, real RealDriver, nodes func(buildenv.Host) []string) (*Machine, error) {
	host, err := local.Host()
	if err != nil {
		return nil, err
	}
	if f, ok := shell.Err.(*os.File); ok {
		shell.ErrTerminal = local.Terminal(f)
	}
	if f, ok := shell.Out.(*os.File); ok {
		shell.OutTerminal, shell.Columns = local.Terminal(f), local.Width(f)
	}
	shell.Colour = console.Colour("", host.Env.Lookup, shell.ErrTerminal)
	shell.OutColour = console.Colour("", host.Env.Lookup, shell.OutTerminal)
	shell.Home = host.Home
	shell.Guarded = host.Env.Get("GITHUB_ACTIONS") == "true"
	self, err := proc.Self()
	if err != nil { // Linux without /proc: only what starts itself, or copies itself, misses it
		self = ""
	}
	dir, refused := cache.Dir(host)
	if refused == nil {
		dir, refused = cache.Private(dir)
	}
	if refused != nil {
		dir = cache.Nowhere
	}
	children := &proc.Children{}
	return &Machine{
		Host:        host,
		Runner:      proc.Runner{Children: children},
		Children:    children,
		Shell:       shell,
		Stdin:       stdin,
		Self:        self,
		CacheDir:    dir,
		NoCache:     refused,
		Real:        real,
		Nodes:       nodes,
		Waited:      &atomic.Bool{},
		JSONWritten: &atomic.Bool{},
		Silent:      &atomic.Pointer[[]string]{},
		Began:       time.Now(),
		Temp:        &Temporary{},
	}, nil
}
