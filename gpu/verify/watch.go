package verify

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/lazyregexp"
	"gpubuild/gpu/probe"
)

// How often the tree of processes is looked at, and how often closely: its file, namespaces and environment.
const (
	period    = 20 * time.Millisecond
	closeness = 5 // every fifth look
	maxSeen   = 4096
)

// sampler looks at the program's tree through /proc; on Windows csrc/watch_windows.c does that itself. What lives shorter than the period
// it may miss; that any child was there at all is known from the watcher.
type sampler struct {
	h    buildenv.Host
	of   probe.Backend
	dir  string // value of the record directory's variable
	seen map[processID]*Seen
	full bool // more processes than are kept

	asks func(*Seen) bool // of which processes it is to be known whether they have loaded the CUDA driver
}

type processID struct {
	pid     int
	started uint64
}

// driverFile finds the CUDA driver's library in a process's maps (proc(5)).
var driverFile = lazyregexp.New(`/\S*/libcuda\.so\S*`)

func newSampler(h buildenv.Host, of probe.Backend, dir string) *sampler {
	return &sampler{h: h, of: of, dir: dir, seen: map[processID]*Seen{}, asks: func(*Seen) bool { return false }}
}

// follow looks until stop is closed. The watcher's first line says which process is the program.
func (s *sampler) follow(watchFile string, stop <-chan struct{}) {
	root, wait := 0, 2*time.Millisecond
	tick := time.NewTimer(wait)
	defer tick.Stop()
	for n := 0; ; n++ {
		if root == 0 {
			if w, _, err := readWatch(s.h, watchFile); err == nil && w.Pid != 0 {
				root, wait, n = w.Pid, period, 0
			}
		}
		if root != 0 {
			s.look(root, n%closeness == 0)
		}
		tick.Reset(wait)
		select {
		case <-stop:
			return
		case <-tick.C:
		}
	}
}

// look walks the tree from the watcher down, so that orphans, which the watcher inherits, are met too.
func (s *sampler) look(root int, closely bool) {
	st, ok := s.stat(root)
	if !ok {
		return
	}
	s.one(root, st, true, closely)
	queue, met := []int{st.Parent}, map[int]bool{st.Parent: true, root: true}
	queue = append(queue, root)
	for len(queue) > 0 && len(met) < maxSeen {
		pid := queue[0]
		queue = queue[1:]
		for _, child := range s.children(pid) {
			if met[child] {
				continue
			}
			met[child] = true
			if st, ok := s.stat(child); ok {
				s.one(child, st, false, closely)
				queue = append(queue, child)
			}
		}
	}
}

func (s *sampler) one(pid int, st buildenv.ProcStat, root, closely bool) {
	id := processID{pid, st.Started}
	p := s.seen[id]
	switch {
	case st.Ended:
		return
	case p == nil && len(s.seen) >= maxSeen:
		s.full = true
		return
	case p == nil:
		p = &Seen{Pid: pid, Started: st.Started, Root: root}
		s.seen[id] = p
	case !closely && !p.bare && (p.Driver != "" || !s.asks(p)):
		return
	}
	proc := "/proc/" + strconv.Itoa(pid)
	exe, err := s.h.Files.EvalSymlinks(proc + "/exe")
	if p.Closed = p.Closed || errors.Is(err, fs.ErrPermission); err != nil && !errors.Is(err, fs.ErrPermission) {
		return // it ends: there is nothing of it any more
	}
	p.Exe = cmp.Or(exe, p.Exe)
	if p.Driver == "" && s.asks(p) {
		maps, _ := s.h.ReadFile(proc+"/maps", buildenv.System) // one that has ended has none
		p.Driver = driverFile.FindString(string(maps))
	}
	for _, own := range []string{"root", "ns/mnt"} { // links: what they lead to differs where it has another
		ours, err1 := s.h.Files.Stat("/proc/self/" + own)
		its, err2 := s.h.Files.Stat(proc + "/" + own)
		p.OwnRoot = p.OwnRoot || err1 == nil && err2 == nil && !os.SameFile(ours, its)
	}
	env, err := s.h.ReadFile(proc+"/environ", buildenv.System)
	if again, ok := s.stat(pid); !ok || again.Ended || again.Started != st.Started || err != nil {
		return // it ends
	}
	before := p.bare
	if p.bare = len(env) == 0; p.bare && !before {
		return // in the middle of an exec it has none
	}
	env = append([]byte{0}, env...) // where an exec came between, the next look corrects it
	injection := "\x00" + s.of.Injection() + "="
	p.NoInjection = !bytes.Contains(env, []byte("\x00"+probe.DirVariable+"="+s.dir+"\x00")) ||
		!bytes.Contains(env, []byte(injection)) || bytes.Contains(env, []byte(injection+"\x00"))
}

func (s *sampler) stat(pid int) (buildenv.ProcStat, bool) {
	data, err := s.h.ReadFile("/proc/"+strconv.Itoa(pid)+"/stat", buildenv.System)
	if err != nil {
		return buildenv.ProcStat{}, false
	}
	return buildenv.ParseStat(string(data))
}

// children lists a process's children. A kernel without lists of them (CONFIG_PROC_CHILDREN) shows none; that there were some the watcher
// knows.
func (s *sampler) children(pid int) (out []int) {
	tasks := "/proc/" + strconv.Itoa(pid) + "/task"
	for _, t := range s.h.Names(tasks) {
		data, err := s.h.ReadFile(tasks+"/"+t+"/children", buildenv.System)
		if err != nil {
			continue // it has ended
		}
		for _, f := range strings.Fields(string(data)) {
			if n, err := strconv.Atoi(f); err == nil {
				out = append(out, n)
			}
		}
	}
	return out
}

// watchLine is what the watcher wrote.
type watchLine struct {
	Watch              // what it calls otherwise follows
	Event              string
	Known, Running     bool // of "ended"
	Errno              int
	Exe, Driver        string
	Lost, Closed, Root bool
}

// readWatch reads the watcher's lines; a file that is not there yet is nothing read. refused is the errno of an exec that failed.
func readWatch(h buildenv.Host, file string) (w Watch, refused int, err error) {
	data, err := h.ReadFile(file, buildenv.Entry)
	if errors.Is(err, fs.ErrNotExist) {
		return w, 0, nil
	}
	if err != nil {
		return w, 0, err
	}
	in := bufio.NewScanner(bytes.NewReader(data))
	in.Buffer(nil, 64<<10)
	for in.Scan() {
		var l watchLine
		if json.Unmarshal(in.Bytes(), &l) != nil {
			continue
		}
		switch {
		case l.Event == "launched" && w.Pid == 0:
			w.Pid, w.Started, w.Namespace, w.Watcher = l.Pid, l.Started, l.Namespace, l.Watcher
		case l.Event == "exec-failed" && l.Pid == w.Pid:
			refused = l.Errno
		case l.Event == "seen" && len(w.Seen) < maxSeen: // on Windows
			w.Seen = append(w.Seen, Seen{Pid: l.Pid, Started: l.Started, Exe: l.Exe, Driver: l.Driver, Closed: l.Closed,
				NoInjection: l.Lost, Root: l.Root})
		case l.Event == "ended" && l.Pid == w.Pid: // only then it is complete
			w.Watched, w.Nodes, w.Kept, w.Childless, w.Later = l.Watched, l.Nodes, l.Kept, l.Childless, l.Later
			w.Complete, w.Children, w.Ignored, w.Left, w.Orphans = l.Known, l.Children, l.Ignored, l.Running, l.Orphans
		}
	}
	return w, refused, nil
}

func (w Watch) with(s *sampler) Watch {
	w.Complete = w.Complete && !s.full
	for _, p := range s.seen {
		w.Seen = append(w.Seen, *p)
	}
	slices.SortFunc(w.Seen, func(a, b Seen) int { return cmp.Or(cmp.Compare(a.Started, b.Started), a.Pid-b.Pid) })
	return w
}
