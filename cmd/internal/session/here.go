package session

import (
	"io"
	"os"
	"time"

	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/local"
	"gpubuild/buildenv/proc"
	"gpubuild/cmd/internal/console"
)

// Here is the machine that gpubuild runs on. It sets the shell's colours.
func Here(stdin io.Reader, shell *console.Shell, real RealDriver) (*Machine, error) {
	host, err := local.Host()
	if err != nil {
		return nil, err
	}
	terminal := false
	if f, ok := shell.Err.(*os.File); ok {
		terminal = local.Terminal(f)
	}
	shell.Colour = console.Colour("", host.Env.Lookup, terminal)
	shell.Guarded = host.Env.Get("GITHUB_ACTIONS") == "true"
	self, err := proc.Self()
	if err != nil {
		return nil, err
	}
	dir, err := cache.Dir(host)
	if err != nil {
		return nil, err
	}
	return &Machine{
		Host:     host,
		Runner:   proc.Runner{},
		Shell:    shell,
		Stdin:    stdin,
		Self:     self,
		CacheDir: dir,
		Real:     real,
		Began:    time.Now(),
	}, nil
}
