// Package saved keeps what is asked of a machine while something looks at it, and writes that as the txtar in which
// tests store machines, so that a bug report becomes a test. It keeps nothing that was not asked for, nothing of a
// file that a predicate calls private or that by its name belongs to a project, the content of no file that is not
// read for a version or a limit, no variable and no word of one that nothing here reads, no user or question of a
// URL, and it puts general names in place of the user's and of others who have a home on the machine.
//
// The format belongs to buildenv/hosttest, whose description it follows; only tests read it. Headers are cut down to their preprocessor
// lines, which is all that is read of them. What cannot be written in the format is named in a comment at the top.
package saved

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"sort"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/txtar"

	"gpubuild/buildenv"
	"gpubuild/buildenv/lazyregexp"
)

// contentLimit is how much of a file is kept; a longer one is kept by its size alone.
const contentLimit = 256 << 10

// Recorder answers like the machine that it was made of, and remembers what it answered.
type Recorder struct {
	host    buildenv.Host
	private func(path string) bool

	mu       sync.Mutex
	files    map[string]*entry // by real path
	links    map[string]string
	registry map[string]*regKey
	commands map[string]txtar.File
	left     map[string]bool
}

type entry struct {
	dir, unreadable bool
	mode            fs.FileMode
	data            []byte
	read            bool
}

type regKey struct {
	unreadable bool
	values     map[string]string
}

// NewRecorder looks at a machine. private says of a path that neither its name nor its content may be kept.
func NewRecorder(h buildenv.Host, private func(path string) bool) *Recorder {
	return &Recorder{host: h, private: private, files: map[string]*entry{}, links: map[string]string{}, registry: map[string]*regKey{},
		commands: map[string]txtar.File{}, left: map[string]bool{}}
}

// Host is the machine with its files and registry overheard.
func (r *Recorder) Host() buildenv.Host {
	h := r.host
	h.Files = files{r}
	if h.Registry != nil {
		h.Registry = reg{r}
	}
	return h
}

type files struct{ r *Recorder }

// place notes the links on the way to a path and answers the path without them.
func (r *Recorder) place(p string) (string, bool) {
	h := r.host
	p = h.Clean(p)
	if !h.IsAbs(p) {
		return "", false
	}
	for range 40 { // as many links as Linux follows
		at, rest := "", ""
		for dir := p; ; dir = h.Dir(dir) {
			up := h.Dir(dir)
			if h.SamePath(up, dir) {
				break
			}
			realUp, err1 := h.Files.EvalSymlinks(up)
			real, err2 := h.Files.EvalSymlinks(dir)
			if err1 == nil && err2 == nil && !h.SamePath(real, h.Join(realUp, h.Base(dir))) {
				at, rest = dir, real // the outermost link is found last
			}
		}
		if at == "" {
			return h.Real(p), true // as the disk spells it, where case means nothing
		}
		r.links[at] = rest
		p = h.Clean(h.Join(rest, strings.TrimPrefix(p[len(at):], "/")))
	}
	return "", false
}

func (r *Recorder) note(p string, fi fs.FileInfo) *entry {
	if r.hidden(p) {
		return &entry{}
	}
	real, ok := r.place(p)
	if !ok {
		return &entry{}
	}
	e := r.files[real]
	if e == nil {
		e = &entry{}
		r.files[real] = e
	}
	if fi != nil {
		e.dir, e.mode = fi.IsDir(), fi.Mode()
	}
	return e
}

func (f files) Stat(p string) (fs.FileInfo, error) {
	fi, err := f.r.host.Files.Stat(p)
	if err == nil {
		f.r.mu.Lock()
		f.r.note(p, fi)
		f.r.mu.Unlock()
	}
	return fi, err
}

func (f files) EvalSymlinks(p string) (string, error) {
	real, err := f.r.host.Files.EvalSymlinks(p)
	if err == nil {
		if fi, err := f.r.host.Files.Stat(p); err == nil {
			f.r.mu.Lock()
			f.r.note(p, fi)
			f.r.mu.Unlock()
		}
	}
	return real, err
}

func (f files) ReadDir(p string) ([]fs.DirEntry, error) {
	list, err := f.r.host.Files.ReadDir(p)
	fi, statErr := f.r.host.Files.Stat(p)
	if statErr != nil {
		return list, err
	}
	f.r.mu.Lock()
	defer f.r.mu.Unlock()
	f.r.note(p, fi).unreadable = isDenied(err)
	if err != nil || f.r.hidden(p) {
		return list, err
	}
	// A directory of programs or libraries, /opt, a home are asked for a few names; the others say much of the user and nothing of the
	// toolchain. In a Visual Studio any name may count: that of an edition, of an instance.
	few := len(list) > 100 || f.r.host.OS != buildenv.Windows || slices.Contains(f.r.host.SplitList(f.r.host.Env.Get("PATH")), p)
	for _, d := range list {
		if few && !telling.MatchString(d.Name()) {
			continue
		}
		child := f.r.host.Join(p, d.Name())
		if fi, err := f.r.host.Files.Stat(child); err == nil {
			f.r.note(child, fi)
		}
	}
	return list, nil
}

func (f files) Open(p string) (fs.File, error) {
	file, err := f.r.host.Files.Open(p)
	fi, statErr := f.r.host.Files.Stat(p)
	if statErr != nil {
		return file, err
	}
	f.r.mu.Lock()
	defer f.r.mu.Unlock()
	e := f.r.note(p, fi)
	e.unreadable = isDenied(err)
	if err != nil || e.read || fi.IsDir() {
		return file, err
	}
	e.read = true
	switch {
	case f.r.hidden(p), fi.Size() > 64<<20, !readable.MatchString(f.r.host.Base(p)):
	default:
		if data, err := f.r.host.ReadFile(p, 64<<20); err == nil {
			e.data = f.r.essence(p, data)
		}
	}
	return file, nil
}

// hidden says that nothing of a path may be kept.
func (r *Recorder) hidden(p string) bool { return r.private(p) || projects.MatchString(p) }

var telling = lazyregexp.New(
	`(?i)gcc|g\+\+|clang|^cc|c\+\+|cuda|cudnn|cupti|nvrtc|nvidia|nvcc|^nv|rocm|hip|msvc|^cl\b|` +
		`^v?\d+(\.\d+)*$|^(lib)?cu(rt|rand|blas|fft|solver|sparse|\d)|^python3|^linux_`,
)

func isDenied(err error) bool {
	return err != nil && strings.Contains(err.Error(), fs.ErrPermission.Error())
}

var (
	directive = lazyregexp.New(`^\s*#|_EMIT_STL_ERROR|\\$`)
	versions  = lazyregexp.New(`^\s*#.*(VERSION|__CUDACC)|_EMIT_STL_ERROR`)
)

// essence is what of a file's content is kept: a header's preprocessor lines, another text of bearable length as it is, nothing else.
func (r *Recorder) essence(p string, data []byte) []byte {
	text := utf8.Valid(data) && !bytes.ContainsRune(data, 0)
	switch ext := strings.ToLower(r.host.Ext(p)); {
	case text && (ext == ".h" || ext == ".hpp"):
		var b bytes.Buffer
		long := len(data) > 64<<10 // a thousand names of functions; what is read of such a one are versions
		for _, l := range strings.SplitAfter(string(data), "\n") {
			switch line := strings.TrimRight(l, "\r\n"); {
			case long && versions.MatchString(line), !long && directive.MatchString(line):
				b.WriteString(l)
			case !long: // the lines keep their numbers
				b.WriteString(l[len(line):])
			}
		}
		return b.Bytes()
	case len(data) <= contentLimit:
		return data
	}
	return nil
}

type reg struct{ r *Recorder }

func (r *Recorder) key(path string, view int, err error) *regKey {
	name := fmt.Sprintf("%d %s", view, path)
	k := r.registry[name]
	if k == nil {
		k = &regKey{values: map[string]string{}}
		r.registry[name] = k
	}
	k.unreadable = k.unreadable || isDenied(err)
	return k
}

func (g reg) String(key, value string, view int) (string, error) {
	v, err := g.r.host.Registry.String(key, value, view)
	g.r.mu.Lock()
	defer g.r.mu.Unlock()
	if err == nil {
		g.r.key(key, view, nil).values[value] = v
	} else if isDenied(err) {
		g.r.key(key, view, err)
	}
	return v, err
}

func (g reg) Keys(key string, view int) ([]string, error) {
	names, err := g.r.host.Registry.Keys(key, view)
	g.r.mu.Lock()
	defer g.r.mu.Unlock()
	if err == nil || isDenied(err) {
		g.r.key(key, view, err)
	}
	for _, n := range names {
		g.r.key(key+`\`+n, view, nil)
	}
	return names, err
}

func (g reg) Values(key string, view int) ([]string, error) {
	names, err := g.r.host.Registry.Values(key, view)
	g.r.mu.Lock()
	defer g.r.mu.Unlock()
	if err == nil || isDenied(err) {
		g.r.key(key, view, err)
	}
	for _, n := range names {
		if v, err := g.r.host.Registry.String(key, n, view); err == nil {
			g.r.key(key, view, nil).values[n] = v
		}
	}
	return names, err
}

// Ran remembers a command that was run and what came of it.
func (r *Recorder) Ran(c buildenv.Cmd, res buildenv.Result) {
	words := make([]string, 0, len(c.Args)+1)
	for _, w := range append([]string{c.Path}, c.Args...) {
		switch {
		case strings.ContainsAny(w, "\n'\""):
			return
		case w == "" || strings.ContainsAny(w, " \t"):
			w = "'" + w + "'"
		}
		words = append(words, w)
	}
	f := txtar.File{Name: "$ " + strings.Join(words, " "), Data: answer(c.Path, res.Stdout)}
	if res.Code != 0 {
		f.Name += fmt.Sprintf(" +exit=%d", res.Code)
	}
	if len(res.Stdout) == 0 && len(res.Stderr) > 0 {
		f.Name, f.Data = f.Name+" +stderr", answer(c.Path, res.Stderr)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if marker.Match(f.Data) || !utf8.Valid(f.Data) {
		r.left["what a command printed: "+words[0]] = true
		return
	}
	if n := len(f.Data); n > 0 && f.Data[n-1] != '\n' {
		f.Data = append(f.Data, '\n')
	}
	r.commands[f.Name] = f
}

var (
	uuid   = lazyregexp.New(`\b(GPU|MIG)-[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b`)
	marker = lazyregexp.New(`(?m)^-- .* --\r?$`)
)

// uuids numbers the GPUs' identifiers, which name one device in the world.
func uuids(text []byte) []byte {
	seen := map[string]int{}
	return uuid.ReplaceAllFunc(text, func(id []byte) []byte {
		if seen[string(id)] == 0 {
			seen[string(id)] = len(seen) + 1
		}
		return fmt.Appendf(nil, "%s-00000000-0000-0000-0000-%012d", id[:3], seen[string(id)])
	})
}

// Encode writes what was remembered, below a comment.
func (r *Recorder) Encode(comment string) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.host
	a := &txtar.Archive{}
	head := fmt.Sprintf("os: %s\narch: %s\n", h.OS, h.Arch)
	// The current directory would show the project's name.
	for _, l := range [][2]string{{"kernel", h.Kernel}, {"home", h.Home}, {"cwd", h.Join(h.Home, "app")}} {
		if l[1] != "" {
			head += l[0] + ": " + l[1] + "\n"
		}
	}
	head += fmt.Sprintf("cpus: %d\n", h.CPUs)
	if h.Memory > 0 {
		head += fmt.Sprintf("memory: %d\n", h.Memory)
	}
	add := func(name string, lines []string) {
		if len(lines) > 0 {
			sort.Strings(lines)
			a.Files = append(a.Files, txtar.File{Name: name, Data: []byte(strings.Join(lines, "\n") + "\n")})
		}
	}
	var env, links, dirs, empty []string
	for _, e := range h.Env.Entries() {
		name, value, _ := strings.Cut(e, "=")
		kept, ok := variable(h, name, value)
		if ok && pathLists[strings.ToUpper(name)] {
			kept = r.searched(kept)
		}
		if ok {
			env = append(env, name+"="+kept)
		}
		if ok && kept != value {
			r.left["parts of "+name] = true
		}
	}
	add("@env", env)
	for from, to := range r.links {
		if r.plain(from) && r.plain(to) {
			links = append(links, from+" -> "+to)
		}
	}
	add("@links", links)
	var full []txtar.File
	for p, e := range r.files {
		if h.SamePath(h.Dir(p), p) || !r.plain(p) {
			continue
		}
		var attrs string
		if e.unreadable {
			attrs = " +unreadable"
		}
		switch {
		case e.dir:
			dirs = append(dirs, p+attrs)
			continue
		case h.OS != buildenv.Windows && e.mode&0o111 != 0:
			attrs = " +x" + attrs
		}
		f, ok := content(p, attrs, e.data)
		if !ok {
			empty = append(empty, p+attrs)
			continue
		}
		full = append(full, f)
	}
	add("@dirs", dirs)
	add("@empty", empty)
	add("@registry", r.registryLines())
	sort.Slice(full, func(i, j int) bool { return full[i].Name < full[j].Name })
	a.Files = append(a.Files, full...)
	for _, n := range slices.Sorted(maps.Keys(r.commands)) {
		a.Files = append(a.Files, r.commands[n])
	}
	var said strings.Builder
	for _, l := range strings.Split(strings.TrimSpace(string(uuids([]byte(comment)))), "\n") {
		said.WriteString(strings.TrimRight("# "+strings.TrimRight(l, "\r"), " ") + "\n")
	}
	left := make([]string, 0, len(r.left))
	for l := range r.left {
		left = append(left, "# left out: "+l+"\n")
	}
	sort.Strings(left)
	a.Comment = []byte(said.String() + strings.Join(left, "") + head)
	return []byte(r.anonymous(Text(h.Env, string(txtar.Format(a)))))
}

// searched is a list of directories without those in which nothing was found: they change no answer, and name projects and customers.
func (r *Recorder) searched(list string) string {
	h := r.host
	dirs := slices.DeleteFunc(h.SplitList(list), func(dir string) bool {
		real := h.Real(dir)
		below := func(p string) bool { return !h.SamePath(p, real) && h.Below(p, real) }
		return !slices.ContainsFunc(slices.Collect(maps.Keys(r.files)), below) &&
			!slices.ContainsFunc(slices.Collect(maps.Keys(r.links)), below)
	})
	return h.JoinList(dirs...)
}

// plain says whether the format can hold a path.
func (r *Recorder) plain(p string) bool {
	if strings.ContainsAny(p, "\r\n") || strings.Contains(p, " +") || strings.Contains(p, " -> ") || strings.Contains(p, " --") ||
		!utf8.ValidString(p) {
		r.left[fmt.Sprintf("a path that the format cannot hold: %q", p)] = true
		return false
	}
	return true
}

// content makes a file's section; false when there is nothing to say of its content.
func content(p, attrs string, data []byte) (txtar.File, bool) {
	if len(data) == 0 {
		return txtar.File{}, false
	}
	crlf := bytes.Count(data, []byte("\r\n"))
	mixed := crlf > 0 && crlf != bytes.Count(data, []byte("\n"))
	loneCR := crlf == 0 && bytes.ContainsRune(data, '\r')
	switch {
	case !utf8.Valid(data) || marker.Match(data) || mixed || loneCR:
		var b strings.Builder
		for text := base64.StdEncoding.EncodeToString(data); text != ""; {
			n := min(76, len(text))
			b.WriteString(text[:n] + "\n")
			text = text[n:]
		}
		return txtar.File{Name: p + attrs + " +base64", Data: []byte(b.String())}, true
	case data[len(data)-1] != '\n':
		data = append(bytes.Clone(data), '\n')
		attrs += " +chomp"
	}
	if crlf > 0 {
		data = bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
		attrs += " +crlf"
	}
	return txtar.File{Name: p + attrs, Data: data}, true
}

func (r *Recorder) registryLines() []string {
	var out []string
	for name, k := range r.registry {
		head := name
		if k.unreadable {
			head = "unreadable " + name
		}
		section := "[" + head + "]"
		values := make([]string, 0, len(k.values))
		for n, v := range k.values {
			n = cmp.Or(n, "@")
			if !strings.ContainsAny(n+v, "\r\n") {
				values = append(values, n+"="+v)
			}
		}
		sort.Strings(values)
		for _, v := range values {
			section += "\n" + v
		}
		out = append(out, section)
	}
	return out
}
