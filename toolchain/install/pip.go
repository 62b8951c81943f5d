package install

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
)

// runner is all that an installation asks of the world besides the cache's own files.
type runner interface {
	Run(ctx context.Context, c buildenv.Cmd) (buildenv.Result, error)
}

// pip is one way to start the user's pip.
type pip struct {
	path  string
	args  []string // before pip's own
	multi bool     // takes --platform more than once: since pip 20.3 (its NEWS, #6121)
	name  string   // pip 23.2.1 of /usr/bin/python3
}

// pips lists the ways to start pip, best first: through an interpreter, because a script called pip may belong to one that is gone.
func pips(h buildenv.Host) []pip {
	words := [][]string{{"python3", "-m", "pip"}, {"python", "-m", "pip"}, {"pip3"}, {"pip"}}
	if h.OS == buildenv.Windows {
		words = append([][]string{{"py", "-3", "-m", "pip"}}, words...)
	}
	var out []pip
	for _, w := range words {
		if path, err := h.LookPath(w[0]); err == nil {
			out = append(out, pip{path: path, args: w[1:]})
		}
	}
	return out
}

// version are the arguments that have it say "pip 23.2.1". An interpreter is asked for the module: `-m pip --version` takes five times as long, for it
// loads all of pip.
func (c pip) version() []string {
	if len(c.args) == 0 {
		return []string{"--version"}
	}
	return append(slices.Clone(c.args[:len(c.args)-2]), "-c", "import pip; print('pip', pip.__version__)")
}

// findPip asks each for its version, because python3 without pip is common and Windows has a python3 that only opens a shop.
func (p Plan) findPip(ctx context.Context, run runner, dir string) (pip, error) {
	var tried []string
	for _, c := range pips(p.host) {
		tried = append(tried, strings.Join(append([]string{c.path}, c.args...), " "))
		r, err := run.Run(ctx, p.pipCmd(pip{path: c.path}, dir, c.version()...))
		if ctx.Err() != nil {
			return pip{}, ctx.Err()
		}
		word := strings.Fields(string(r.Stdout))
		if err != nil || len(word) < 2 || word[0] != "pip" {
			continue
		}
		c.name = "pip " + word[1] + " of " + c.path
		var major, minor int
		if n, _ := fmt.Sscanf(word[1], "%d.%d", &major, &minor); n == 2 {
			c.multi = major > 20 || major == 20 && minor >= 3
		}
		return c, nil
	}
	if len(tried) == 0 {
		tried = []string{"python3", "python", "pip3", "pip, none of them on PATH"}
	}
	return pip{}, &NoPipError{Tried: tried}
}

// FindPip looks for the user's pip where the plan needs one; a *NoPipError says that there is none. Run uses what was found.
func (p *Plan) FindPip(ctx context.Context, run runner) error {
	if p.Installed || p.Fetch == 0 || p.source != nil {
		return nil
	}
	dir, err := os.MkdirTemp("", "gpubuild-pip-") // empty: nothing there can pass for a module
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	c, err := p.findPip(ctx, run, dir)
	p.pip = c
	return err
}

// pipCmd passes the whole environment, so that the user's index, proxy and certificates hold. It starts in our own directory, because
// `python -m` looks for modules where it starts, and a cloned repository could hold a "pip"; its temporary files go there, too, so
// that none are left elsewhere when it is killed.
func (p Plan) pipCmd(c pip, dir string, args ...string) buildenv.Cmd {
	env := p.host.Env
	for _, name := range []string{"TMPDIR", "TEMP", "TMP"} {
		env = env.Set(name, filepath.Join(dir, tmpDir))
	}
	return buildenv.Cmd{Path: c.path, Args: append(append([]string{}, c.args...), args...), Dir: dir, Env: env.Entries()}
}

// runs is how many runs of pip work at the same time: a second one is half a second of a core, which two cores have better use for; of more cores it takes
// one that has nothing to do. On Windows no wheel can be taken before its run ends, so each large one gets a run.
func (p Plan) runs() int {
	if p.host.OS == buildenv.Windows {
		return len(p.Items)
	}
	return min(max(p.host.CPUs/2, 1), 4)
}

// batches says which wheels each run of pip fetches, in which order: those that are the most work to unpack for a byte come first, so that the cores have
// something to do while the rest is fetched. A run has one large wheel at least: for small ones it would cost more than it saves.
func batches(items []Item, multi bool, runs int) [][]Item {
	const large = 32e6
	items = append([]Item{}, items...)
	sort.SliceStable(items, func(i, j int) bool { return items[i].Size > items[j].Size })
	var out [][]Item
	if multi {
		n := sort.Search(len(items), func(i int) bool { return items[i].Size < large })
		out = make([][]Item, min(max(n, 1), runs))
		bytes := make([]int64, len(out))
		for _, it := range items {
			least := 0
			for i := range bytes {
				if bytes[i] < bytes[least] {
					least = i
				}
			}
			out[least] = append(out[least], it)
			bytes[least] += it.Size
		}
	} else {
		at := map[string]int{} // tag and where its batch is
		for _, it := range items {
			i, ok := at[it.tag()]
			if !ok {
				i = len(out)
				at[it.tag()], out = i, append(out, nil)
			}
			out[i] = append(out[i], it)
		}
	}
	work := func(it Item) float64 { return float64(it.Unpacked) / float64(it.Size) }
	for _, b := range out {
		sort.SliceStable(b, func(i, j int) bool { return work(b[i]) > work(b[j]) })
	}
	return out
}

// requirements is the text of a requirements file that lets pip take those very files and no others.
func requirements(batch []Item) string {
	var b strings.Builder
	for _, it := range batch {
		fmt.Fprintf(&b, "%s==%s --hash=sha256:%s\n", it.Package, it.Version, it.SHA256)
	}
	return b.String()
}

// downloadArgs are pip's arguments for one batch.
func downloadArgs(batch []Item, dir string) []string {
	args := []string{"download", "--quiet", "--disable-pip-version-check", "--no-input", "--progress-bar", "off",
		"--no-deps", "--require-hashes", "--only-binary=:all:"}
	seen := map[string]bool{}
	for _, it := range batch {
		if t := it.tag(); !seen[t] {
			seen[t] = true
			args = append(args, "--platform", t)
		}
	}
	return append(args, "--dest", dir, "--requirement", filepath.Join(dir, "requirements.txt"))
}

// fetch has pip fetch one batch into dir and moves each file that is the pinned one to where wheels are kept.
func (p Plan) fetch(ctx context.Context, run runner, c pip, dir string, batch []Item, progress func(string), deliver func(string, Wheel)) error {
	var total int64
	var names []string
	for _, it := range batch {
		total += it.Size
		names = append(names, it.Wheel.String())
	}
	what := strings.Join(names, ", ")
	if len(names) > 2 {
		what = fmt.Sprintf("%d wheels", len(names)) // the plan named them
	}
	progress(fmt.Sprintf("fetching %s (%s)", what, size(total)))
	tmp := filepath.Join(dir, tmpDir)
	if err := os.MkdirAll(tmp, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "requirements.txt"), []byte(requirements(batch)), 0o600); err != nil {
		return err
	}
	stop := watch(tmp, func(n int64) { progress(fmt.Sprintf("fetching %s: %s of %s", what, size(n), size(total))) })
	enough, cancel := context.WithCancel(ctx)
	defer cancel()
	rest := p.takeEarly(tmp, batch, deliver, cancel)
	_, err := run.Run(enough, p.pipCmd(c, dir, downloadArgs(batch, dir)...))
	stop()
	missing := rest()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil && len(missing) > 0 {
		return fetchError(batch, names, err)
	}
	for _, it := range missing {
		from := filepath.Join(dir, it.File)
		if _, err := os.Stat(from); err != nil {
			return &FetchError{Wheels: []string{it.File}, Err: errors.New("pip ended well, but the file is not there")}
		}
		if err := check(from, it.Wheel); err != nil {
			return err
		}
		if err := os.Rename(from, p.kept(it.Wheel)); err != nil {
			return err
		}
		deliver(p.kept(it.Wheel), it.Wheel)
	}
	return nil
}

// takeEarly delivers wheels while pip still fetches others: pip writes each under its own name below its temporary directory and copies all of them to
// where they belong when it has the last (23.2.1: operations/prepare.py). What has the pinned size and hash is the pinned file, whatever pip does with it
// afterwards; it gets a second name. all is called when there are no more: what pip still does is to hash and copy them once more. Where that cannot be, and where another pip works in another way, rest answers what is still to be taken. It is to be
// called when pip has ended. On Windows nothing is taken: pip could not remove a file that is being read.
func (p Plan) takeEarly(tmp string, batch []Item, deliver func(string, Wheel), all func()) (rest func() []Item) {
	if p.host.OS == buildenv.Windows {
		return func() []Item { return batch }
	}
	tried, taken := map[string]bool{}, map[string]bool{}
	look := func() {
		_ = filepath.WalkDir(tmp, func(path string, d os.DirEntry, err error) error {
			i := slices.IndexFunc(batch, func(it Item) bool { return err == nil && it.File == d.Name() })
			if i < 0 || tried[batch[i].File] {
				return nil // what vanishes meanwhile is found at the end
			}
			it := batch[i]
			if fi, err := d.Info(); err != nil || !fi.Mode().IsRegular() || fi.Size() != it.Size {
				return nil
			}
			tried[it.File] = true
			if check(path, it.Wheel) == nil && os.Link(path, p.kept(it.Wheel)) == nil {
				taken[it.File] = true
				deliver(p.kept(it.Wheel), it.Wheel)
				if len(taken) == len(batch) {
					all()
				}
			}
			return nil
		})
	}
	stop := every(20*time.Millisecond, look)
	return func() []Item {
		stop()
		return slices.DeleteFunc(slices.Clone(batch), func(it Item) bool { return taken[it.File] })
	}
}

// kept is where a wheel waits until the toolkit is complete.
func (p Plan) kept(w Wheel) string { return filepath.Join(p.cacheDir, wheelsDir, w.File) }

// check compares a file with its pin.
func check(path string, w Wheel) error {
	got, err := cache.Hash(path)
	if err != nil {
		return err
	}
	if got != w.SHA256 {
		return &HashError{File: path, Want: w.SHA256, Got: got}
	}
	return nil
}

// watch calls report every few seconds with the bytes of the wheels that lie below dir, until stop is called.
func watch(dir string, report func(int64)) (stop func()) {
	return every(3*time.Second, func() {
		var n int64
		_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(path, ".whl") {
				if fi, err := d.Info(); err == nil {
					n += fi.Size()
				}
			}
			return nil // what vanishes meanwhile is not counted
		})
		if n > 0 {
			report(n)
		}
	})
}

// every calls f again and again until stop is called, which waits for a call that is under way.
func every(period time.Duration, f func()) (stop func()) {
	done, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		tick := time.NewTicker(period)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				f()
			}
		}
	}()
	return func() { close(done); <-gone }
}

// words that pip and the libraries below it write, and what they mean. Source: pip's _internal/exceptions.py and urllib3's messages.
var fetchWords = []struct {
	word string
	kind FetchKind
}{
	{"No space left on device", FetchSpace},
	{"There is not enough space on the disk", FetchSpace},
	{"Disk quota exceeded", FetchSpace},
	{"Could not find an activated virtualenv", FetchPolicy},
	{"Temporary failure in name resolution", FetchNetwork},
	{"Name or service not known", FetchNetwork},
	{"getaddrinfo failed", FetchNetwork},
	{"nodename nor servname", FetchNetwork},
	{"Network is unreachable", FetchNetwork},
	{"No route to host", FetchNetwork},
	{"Connection refused", FetchNetwork},
	{"Connection reset", FetchNetwork},
	{"Max retries exceeded", FetchNetwork},
	{"ReadTimeoutError", FetchNetwork},
	{"ConnectTimeoutError", FetchNetwork},
	{"IncompleteRead", FetchNetwork},
	{"ProxyError", FetchNetwork},
	{"SSLError", FetchNetwork},
	{"NewConnectionError", FetchNetwork},
	{"No matching distribution", FetchAbsent},
	{"Could not find a version", FetchAbsent},
	{"404 Client Error", FetchAbsent},
}

func fetchError(batch []Item, names []string, err error) error {
	var x *buildenv.ExitError
	if !errors.As(err, &x) {
		return &FetchError{Wheels: names, Err: err}
	}
	text := string(x.Result.Stdout) + string(x.Result.Stderr)
	if strings.Contains(text, "THESE PACKAGES DO NOT MATCH THE HASHES") {
		it := batch[0]
		for _, b := range batch {
			if strings.Contains(text, b.SHA256) {
				it = b
			}
		}
		return &HashError{File: it.File, Want: it.SHA256}
	}
	for _, w := range fetchWords {
		if strings.Contains(text, w.word) {
			return &FetchError{Wheels: names, Kind: w.kind, Err: err}
		}
	}
	return &FetchError{Wheels: names, Err: err}
}
