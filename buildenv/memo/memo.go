// Package memo is gpubuild's one persistent cache: bytes, kept together with the state of everything that they were made from. It decides
// when an entry still holds; it never knows what the bytes mean, and losing an entry costs time only.
//
// It owns the files below CACHE/memo/KIND: a line of JSON, a line for each watched input, then the bytes, with a checksum over both.
//
// An entry is taken although an input changed in these cases:
//   - on Windows, a file was rewritten with the same size, modification time, inode and device, and the entry is older than 100 ms.
//     Elsewhere the time of its last change of state shows that. (On Windows a directory is known by its names, because its time need not
//     change with them.)
//   - something was read that the caller did not watch. What is below CARGO_HOME's registry and git checkouts is not watched on
//     purpose: cargo never changes a package there, and the watched Cargo.lock names it.
package memo

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
)

const (
	schema = 1
	// kept bounds the entries of one kind.
	kept = 500
	// young is the age below which a modification time says nothing: two changes within one tick of a file system's clock have the same
	// time. What is younger is known by its content, too.
	young = 100 * time.Millisecond
	// byContent separates the identity of a young file from the hash of its content.
	byContent = " = "
)

// Store keeps entries in a directory of gpubuild's cache.
type Store struct {
	host  buildenv.Host
	dir   string
	began time.Time
	puts  *atomic.Int64 // nil: nobody counts
}

// Counting is the store that counts what is put into it.
func (s Store) Counting(puts *atomic.Int64) Store {
	s.puts = puts
	return s
}

// Open is the store in a cache directory. began is when this run started: a file changed shortly before is known by its content.
func Open(h buildenv.Host, cacheDir string, began time.Time) Store {
	return Store{host: h, dir: h.Join(cacheDir, "memo"), began: began}
}

// Input is the state of one path that an entry was made from.
type Input struct {
	path  string
	state string // empty: it did not exist
}

// Key is the name of an entry for a question of any length.
func Key(parts ...string) string {
	sum := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(sum, "%q\n", p)
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

type header struct {
	Schema int    `json:"schema"`
	Inputs int    `json:"inputs"`
	Sum    uint32 `json:"sum"`
}

// Load returns the bytes of an entry, and its inputs, which Unchanged compares; false where there is none, where it is damaged, or where
// another user may have written it.
func (s Store) Load(kind, key string) (data []byte, inputs []Input, ok bool) {
	path := s.path(kind, key)
	file, err := s.host.ReadFile(path, buildenv.Entry)
	if err != nil || cache.Trusted(s.dir, filepath.Dir(path), path) != nil { // the checksum holds off damage, and nobody else
		return nil, nil, false
	}
	line, rest, ok := bytes.Cut(file, []byte("\n"))
	var h header
	if !ok || json.Unmarshal(line, &h) != nil || h.Schema != schema || h.Sum != crc32.ChecksumIEEE(rest) {
		return nil, nil, false
	}
	inputs, data, ok = readInputs(rest, h.Inputs)
	return data, inputs, ok
}

// Get returns the bytes of an entry whose inputs are all what they were.
func (s Store) Get(kind, key string) ([]byte, bool) {
	data, inputs, ok := s.Load(kind, key)
	if !ok || !s.Unchanged(inputs) {
		return nil, false
	}
	if s.aged(inputs) {
		_ = s.Put(kind, key, inputs, data) // without it, those files are read again the next time
	}
	return data, true
}

// GetJSON is Get of a value, into what v points to.
func (s Store) GetJSON(kind, key string, v any) bool {
	data, ok := s.Get(kind, key)
	return ok && json.Unmarshal(data, v) == nil
}

// PutJSON is Put of a value.
func (s Store) PutJSON(kind, key string, inputs []Input, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return s.Put(kind, key, inputs, data)
}

// aged drops the hashes of unchanged files that are no longer young, and reports whether there were any: from now on their identity is
// enough.
func (s Store) aged(inputs []Input) bool {
	found := false
	for i, in := range inputs {
		if was, _, hashed := strings.Cut(in.state, byContent); hashed {
			if fi, err := s.host.Files.Stat(in.path); err == nil && !s.young(fi) {
				inputs[i].state, found = was, true
			}
		}
	}
	return found
}

func (s Store) young(fi fs.FileInfo) bool {
	return s.began.Sub(fi.ModTime()) < young || !fi.IsDir() && s.began.UnixNano()-cache.StateTimeOf(fi) < int64(young)
}

// Put writes an entry to a temporary file next to its place and renames it. The file is not flushed to the disk: the checksum finds a
// torn one.
func (s Store) Put(kind, key string, inputs []Input, data []byte) error {
	var b bytes.Buffer
	for _, in := range inputs {
		if strings.ContainsAny(in.path, "\n\t") {
			return fmt.Errorf("not cached: the path %.200q has a line break or a tab", in.path)
		}
		fmt.Fprintf(&b, "%s\t%s\n", in.state, in.path)
	}
	b.Write(data)
	line, err := json.Marshal(header{schema, len(inputs), crc32.ChecksumIEEE(b.Bytes())})
	if err != nil {
		return err
	}
	path := s.path(kind, key)
	if err := cache.Make(filepath.Dir(path)); err != nil {
		return err
	}
	prune(filepath.Dir(path))
	if err := cache.Keep(path, slices.Concat(line, []byte("\n"), b.Bytes()), 0o600); err != nil {
		return err
	}
	if s.puts != nil {
		s.puts.Add(1)
	}
	return nil
}

// Remove forgets an entry.
func (s Store) Remove(kind, key string) error {
	if err := os.Remove(s.path(kind, key)); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}

// Watch is the state of paths as they are now. A path that does not exist is an input, too: its appearance invalidates the entry.
func (s Store) Watch(paths ...string) []Input {
	list := make([]Input, len(paths))
	for i, path := range paths {
		list[i] = Input{path, s.State(path)}
	}
	return list
}

// WatchThere is Watch of files of which it matters whether they are there, and not what is in them.
func (s Store) WatchThere(paths ...string) []Input {
	list := make([]Input, len(paths))
	for i, path := range paths {
		list[i] = Input{path, s.there(path)}
	}
	return list
}

// there begins the state of a path of which the content does not matter.
const there = "there "

func (s Store) there(path string) string {
	look := s.host.Files.Stat
	if r, is := s.host.Files.(*Recorder); is {
		look = r.There
	}
	fi, err := look(path)
	return s.thereOf(path, fi, err)
}

func (s Store) thereOf(path string, fi fs.FileInfo, err error) string {
	if err != nil {
		return ""
	}
	if !fi.IsDir() {
		return there + "file"
	}
	id, err := cache.IdentityOf(path, fi)
	return there + fmt.Sprint(id.Inode, id.Device, err)
}

func (s Store) path(kind, key string) string { return s.host.Join(s.dir, kind, key) }

func readInputs(data []byte, n int) (list []Input, rest []byte, ok bool) {
	if n < 0 || n > len(data) {
		return nil, nil, false
	}
	list = make([]Input, 0, n)
	for range n {
		line, after, found := bytes.Cut(data, []byte("\n"))
		state, path, tab := bytes.Cut(line, []byte("\t"))
		if !found || !tab {
			return nil, nil, false
		}
		list = append(list, Input{string(path), string(state)})
		data = after
	}
	return list, data, true
}

// State is what a path is now, for comparison with a later state: empty where it does not exist.
func (s Store) State(path string) string {
	fi, err := s.host.Files.Stat(path)
	if err != nil {
		return ""
	}
	return s.stateOf(path, fi)
}

// Identity is State without the content of a young file, which a later state would not have: what is made from a file just installed is not
// made a second time when that file is no longer young.
func (s Store) Identity(path string) string {
	fi, err := s.host.Files.Stat(path)
	if err != nil {
		return ""
	}
	return s.identity(path, fi)
}

func (s Store) stateOf(path string, fi fs.FileInfo) string {
	state := s.identity(path, fi)
	if s.young(fi) {
		state += byContent + s.content(path, fi)
	}
	return state
}

func (s Store) same(in Input) bool {
	if strings.HasPrefix(in.state, there) {
		return s.there(in.path) == in.state
	}
	fi, err := s.host.Files.Stat(in.path)
	if err != nil {
		return in.state == ""
	}
	is := s.identity(in.path, fi)
	if was, content, ok := strings.Cut(in.state, byContent); ok {
		return is == was && s.content(in.path, fi) == content
	}
	return is == in.state
}

// identity changes when another file takes the same path; it is found without reading the file.
func (s Store) identity(path string, fi fs.FileInfo) string {
	if ofKernel(path) || fi.IsDir() && s.host.OS == buildenv.Windows {
		return "d " + s.content(path, fi)
	}
	id, err := cache.IdentityOf(path, fi)
	if err != nil {
		return "unreadable"
	}
	b := make([]byte, 0, 64)
	if fi.IsDir() {
		b = append(b, "d "...)
	} else {
		b = append(strconv.AppendInt(b, id.Size, 36), ' ')
	}
	b = append(strconv.AppendInt(b, id.MTime, 36), ' ')
	if !fi.IsDir() {
		b = append(strconv.AppendInt(b, cache.StateTimeOf(fi), 36), ' ')
	}
	b = append(strconv.AppendUint(b, id.Inode, 36), ' ')
	return string(strconv.AppendUint(b, id.Device, 36))
}

// ofKernel reports whether the kernel makes a path up when it is read: its times say nothing.
func ofKernel(path string) bool {
	return strings.HasPrefix(path, "/proc/") || strings.HasPrefix(path, "/sys/")
}

// Largest is the size up to which a file is known by its content: a hole of terabytes, which an archive can bring in a kilobyte, would be
// read for hours.
const Largest = 4 << 30

// content is a hash of a file's bytes or of a directory's names.
func (s Store) content(path string, fi fs.FileInfo) string {
	if !fi.IsDir() && ofKernel(path) { // without a size, and none of a repository's
		data, err := s.host.ReadFile(path, buildenv.System)
		if err != nil {
			return "unreadable"
		}
		sum := sha256.Sum256(data)
		return hex.EncodeToString(sum[:])
	}
	if !fi.IsDir() {
		if fi.Size() > Largest {
			return "large"
		}
		sum, err := cache.Hash(path)
		if err != nil {
			return "unreadable"
		}
		return sum
	}
	entries, err := s.host.Files.ReadDir(path)
	if err != nil {
		return "unreadable"
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	sort.Strings(names)
	sum := sha256.Sum256([]byte(strings.Join(names, "\x00")))
	return hex.EncodeToString(sum[:12])
}

// Unchanged reports whether all inputs are what they were.
func (s Store) Unchanged(list []Input) bool {
	return !slices.ContainsFunc(list, func(in Input) bool { return !s.same(in) })
}

// prune removes the older half of a kind that has too many entries.
func prune(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) < kept {
		return
	}
	made := func(e fs.DirEntry) int64 {
		fi, err := e.Info()
		if err != nil {
			return 0 // another gpubuild has removed it
		}
		return fi.ModTime().UnixNano()
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(made(a), made(b)) })
	for _, e := range entries[:len(entries)/2] {
		_ = os.Remove(filepath.Join(dir, e.Name())) // as above
	}
}
