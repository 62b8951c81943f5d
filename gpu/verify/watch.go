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
	"gpubuild/buildenv/cache"
	"gpubuild/gpu/probe"
)

// How often the tree of processes is looked at, and how often closely: environment and mapped files.
const (
	period    = 20 * time.Millisecond
	closeness = 5 // every fifth look
	maxSeen   = 4096
)

// sampler looks at the program's tree through /proc; on Windows csrc/watch_windows.c does that itself. What lives shorter than the period
// it may miss; that any child was there at all is known from the watcher.
type sampler struct {
	h      buildenv.Host
	of     probe.Backend
	dir    string // value of the record directory's variable
	seen   map[processID]*Seen
	partly map[processID]image // those whose environment could not be read whole at the last close look, and what they ran then
	in     uint64              // our own PID namespace
	placed bool                // the kernel reports where a process's environment is
	looked bool
	full   bool // more processes than are kept
}

type processID struct {
	pid     int
	started uint64
}

func newSampler(h buildenv.Host, dir string) *sampler {
	s := &sampler{h: h, dir: dir, seen: map[processID]*Seen{}, partly: map[processID]image{}}
	if data, err := h.ReadFile("/proc/self/stat", 8192); err == nil {
		own, ok := parseStat(string(data))
		s.placed = ok && own.image.there()
	}
	if in, err := cache.Identify("/proc/self/ns/pid"); err == nil {
		s.in = in.Inode
	}
	return s
}

// inner is a process's pid as its own namespace has it: the last of NSpid (proc(5)).
func (s *sampler) inner(proc string) int {
	status, _ := s.h.ReadFile(proc+"/status", 64<<10) // without it the number is 0, which none has
	_, rest, _ := strings.Cut(string(status), "\nNSpid:")
	line, _, _ := strings.Cut(rest, "\n")
	all := strings.Fields(line)
	if len(all) == 0 {
		return 0
	}
	n, _ := strconv.Atoi(all[len(all)-1])
	return n
}

// follow looks until stop is closed. The watcher's first line says which process is the program.
func (s *sampler) follow(watchFile string, stop <-chan struct{}) {
	root, wait := 0, 2*time.Millisecond
	tick := time.NewTimer(wait)
	defer tick.Stop()
	for n := 0; ; n++ {
		if root == 0 {
			if w, err := readWatch(s.h, watchFile); err == nil && w.pid != 0 {
				root, wait, n = w.pid, period, 0
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
	s.looked = true
	s.one(root, st, true, closely)
	queue, met := []int{st.parent}, map[int]bool{st.parent: true, root: true}
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

func (s *sampler) one(pid int, st stat, root, closely bool) {
	id := processID{pid, st.started}
	p := s.seen[id]
	if p == nil {
		if len(s.seen) >= maxSeen {
			s.full = true
			return
		}
		p = &Seen{Pid: pid, Started: st.started, Parent: st.parent, Root: root}
		s.seen[id] = p
		closely = true
	}
	if _, again := s.partly[id]; !closely && !again || st.zombie {
		return
	}
	proc := "/proc/" + strconv.Itoa(pid)
	if exe, err := s.h.Files.EvalSymlinks(proc + "/exe"); err == nil {
		before := p.Script
		if p.Exe, p.Script = exe, s.script(proc, exe); p.Script != before {
			p.scriptID, _ = cache.Identify(p.Script) // one that is not there is another when it is hashed
		}
	}
	if p.Driver == "" { // of a process that has it the probe knows more
		if maps, err := s.h.ReadFile(proc+"/maps", 32<<20); err == nil {
			p.Driver, p.API = mapped(maps, s.of.IsLoader), cmp.Or(p.API, mapped(maps, s.of.IsOtherAPI))
		}
	}
	if in, err := cache.Identify(proc + "/ns/pid"); err == nil && s.in != 0 && in.Inode != s.in {
		p.Namespace, p.Inner = in.Inode, s.inner(proc)
	}
	for _, own := range []string{"root", "ns/mnt"} { // links: what they lead to differs where it has another
		ours, err1 := s.h.Files.Stat("/proc/self/" + own)
		its, err2 := s.h.Files.Stat(proc + "/" + own)
		p.Apart = p.Apart || err1 == nil && err2 == nil && !os.SameFile(ours, its)
	}
	env, err := s.h.ReadFile(proc+"/environ", 4<<20)
	again, ok := s.stat(pid)
	if !ok || again.zombie || again.started != st.started {
		return // it ended meanwhile: what was read may be nothing
	}
	if err != nil {
		p.Closed = p.Closed || errors.Is(err, fs.ErrPermission)
		return
	}
	if s.whole(id, st.image, again.image, env) &&
		!(carries(env, probe.DirVariable+"="+s.dir) && carriesName(env, s.of.Injection())) {
		p.NoInjection = true
	}
}

// whole says whether what was read is the environment of one program, all of it. In the middle of an exec a process has none for a moment
// that a loaded machine makes long; and of one that is read while the process execs or ends, only a beginning may come.
func (s *sampler) whole(id processID, before, after image, env []byte) bool {
	if !s.placed {
		return s.likely(id, env)
	}
	last, was := s.partly[id]
	switch {
	case before != after || !before.there(): // look again soon
		s.partly[id] = image{}
		return false
	case uint64(len(env)) == before.envEnd-before.envStart, was && last == before: // it lasts: the program gave that memory away
		delete(s.partly, id)
		return true
	}
	s.partly[id] = before
	return false
}

// likely replaces whole where the kernel does not report enough: an empty environment counts when it is read twice in a row.
func (s *sampler) likely(id processID, env []byte) bool {
	if _, was := s.partly[id]; len(env) > 0 || was {
		delete(s.partly, id)
		return true
	}
	// A process about to end has no memory any more, and so neither environment nor files.
	if maps, err := s.h.ReadFile("/proc/"+strconv.Itoa(id.pid)+"/maps", 32<<20); err == nil && len(maps) > 0 {
		s.partly[id] = image{}
	}
	return false
}

func carries(env []byte, entry string) bool {
	for _, e := range bytes.Split(env, []byte{0}) {
		if string(e) == entry {
			return true
		}
	}
	return false
}

func carriesName(env []byte, name string) bool {
	for _, e := range bytes.Split(env, []byte{0}) {
		if bytes.HasPrefix(e, []byte(name+"=")) {
			return true
		}
	}
	return false
}

// mapped finds a library among mapped files.
func mapped(maps []byte, is func(name string) bool) string {
	for len(maps) > 0 {
		line, rest, _ := bytes.Cut(maps, []byte{'\n'})
		maps = rest
		if i := bytes.IndexByte(line, '/'); i >= 0 {
			path := string(line[i:])
			if is(path[strings.LastIndexByte(path, '/')+1:]) {
				return path
			}
		}
	}
	return ""
}

type stat struct {
	parent  int
	started uint64
	zombie  bool
	image   image
}

// image is where the kernel put a program and its environment. It writes the program's place down last (create_elf_tables and
// load_elf_binary in fs/binfmt_elf.c), and reads them from one memory (do_task_stat in fs/proc/array.c): while that is not there, the
// rest need not be, either.
type image struct{ code, stack, envStart, envEnd uint64 }

func (i image) there() bool { return i.code != 0 }

// stat reads /proc/<pid>/stat; the name in parentheses may hold anything. Source: proc(5).
func (s *sampler) stat(pid int) (stat, bool) {
	data, err := s.h.ReadFile("/proc/"+strconv.Itoa(pid)+"/stat", 8192)
	if err != nil {
		return stat{}, false
	}
	return parseStat(string(data))
}

func parseStat(text string) (stat, bool) {
	i := strings.LastIndexByte(text, ')')
	if i < 0 {
		return stat{}, false
	}
	f := strings.Fields(text[i+1:]) // from field 3 on
	if len(f) < 20 {
		return stat{}, false
	}
	parent, err1 := strconv.Atoi(f[1])
	started, err2 := strconv.ParseUint(f[19], 10, 64)
	st := stat{parent: parent, started: started, zombie: f[0] == "Z" || f[0] == "X"}
	// as proc(5) numbers them
	for field, to := range map[int]*uint64{27: &st.image.code, 28: &st.image.stack, 50: &st.image.envStart, 51: &st.image.envEnd} {
		if field-3 < len(f) {
			*to, _ = strconv.ParseUint(f[field-3], 10, 64) // 0 where it is not a number
		}
	}
	return st, err1 == nil && err2 == nil
}

// children lists a process's children, by the kernel's own list (CONFIG_PROC_CHILDREN) or by asking every process for its parent.
func (s *sampler) children(pid int) (out []int) {
	tasks := "/proc/" + strconv.Itoa(pid) + "/task"
	names := s.h.Names(tasks)
	if names == nil {
		return nil
	}
	listed := false
	for _, t := range names {
		data, err := s.h.ReadFile(tasks+"/"+t+"/children", 1<<20)
		if err != nil {
			continue
		}
		listed = true
		for _, f := range strings.Fields(string(data)) {
			if n, err := strconv.Atoi(f); err == nil {
				out = append(out, n)
			}
		}
	}
	if listed {
		return out
	}
	for _, name := range s.h.Names("/proc") {
		if n, err := strconv.Atoi(name); err == nil {
			if st, ok := s.stat(n); ok && st.parent == pid {
				out = append(out, n)
			}
		}
	}
	return out
}

// watched is what the watcher wrote.
type watched struct {
	pid     int
	started uint64
	in      uint64 // its PID namespace
	watcher [2]uint64
	ended   *watchLine
	refused int    // errno of an exec that failed
	seen    []Seen // by the watcher itself: on Windows
}

type watchLine struct {
	Event    string    `json:"event"`
	Pid      int       `json:"pid"`
	Started  uint64    `json:"started"`
	In       uint64    `json:"namespace"`
	Watcher  [2]uint64 `json:"watcher"`
	Known    bool      `json:"known"`
	Children bool      `json:"children"`
	Ignored  bool      `json:"ignored"`
	Orphans  int       `json:"orphans"`
	Running  bool      `json:"running"`
	Renamed  bool      `json:"renamed"`
	Name     string    `json:"name"`
	Watched  int       `json:"watched"`
	Nodes    []string  `json:"nodes"`
	Errno    int       `json:"errno"`
	Exe      string    `json:"exe"`
	Driver   string    `json:"driver"`
	Lost     bool      `json:"lost"`
	Closed   bool      `json:"closed"`
	Root     bool      `json:"root"`
}

// readWatch reads the watcher's lines; a file that is not there yet is nothing read.
func readWatch(h buildenv.Host, file string) (watched, error) {
	var w watched
	data, err := h.ReadFile(file, 64<<20)
	if errors.Is(err, fs.ErrNotExist) {
		return w, nil
	}
	if err != nil {
		return w, err
	}
	in := bufio.NewScanner(bytes.NewReader(data))
	in.Buffer(nil, 64<<10)
	for in.Scan() {
		var l watchLine
		if json.Unmarshal(in.Bytes(), &l) != nil {
			continue
		}
		switch {
		case l.Event == "launched" && w.pid == 0:
			w.pid, w.started, w.in, w.watcher = l.Pid, l.Started, l.In, l.Watcher
		case l.Event == "exec-failed" && l.Pid == w.pid:
			w.refused = l.Errno
		case l.Event == "seen" && len(w.seen) < maxSeen:
			w.seen = append(w.seen, Seen{
				Pid: l.Pid, Started: l.Started, Exe: l.Exe, Driver: l.Driver, NoInjection: l.Lost, Closed: l.Closed, Root: l.Root,
			})
		case l.Event == "ended" && l.Pid == w.pid:
			w.ended = &l
		}
	}
	return w, nil
}

// merge joins what the watcher and the sampler know. Only the watcher can make it complete.
func (w watched) merge(s *sampler) Watch {
	out := Watch{Pid: w.pid, Started: w.started, Namespace: w.in, Watcher: w.watcher, Looked: s.looked || len(w.seen) > 0, Seen: w.seen}
	if e := w.ended; e != nil {
		out.Watched, out.Nodes, out.Renamed, out.Name = e.Watched, e.Nodes, e.Renamed, e.Name
		out.Complete, out.Children, out.Ignored, out.Left, out.Orphans = e.Known && !s.full, e.Children, e.Ignored, e.Running, e.Orphans
	}
	for _, p := range s.seen {
		out.Seen = append(out.Seen, *p)
	}
	slices.SortFunc(out.Seen, func(a, b Seen) int { return cmp.Or(cmp.Compare(a.Started, b.Started), a.Pid-b.Pid) })
	return out
}
