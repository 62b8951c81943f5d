package nvcc

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/memo"
)

// Kernels is the directory of gpubuild's cache that holds the results.
const Kernels = "kernels"

// temporaries is the directory in Kernels that holds a directory for each call that runs.
const temporaries = "tmp"

// store keeps results, one file each. Every file begins with the hash of its key and of the rest, and is written to a temporary file and
// renamed: what is damaged, vanishes, or has another one's name was never there.
type store struct {
	dir      string
	readOnly bool
}

func (s store) path(key string) string { return filepath.Join(s.dir, "results", key[:2], key) }

func hashOf(parts ...[]byte) string {
	sum := sha256.Sum256(slices.Concat(parts...))
	return hex.EncodeToString(sum[:])
}

// result is what a call of nvcc left.
type result struct {
	Output, Stdout, Stderr []byte
	Milliseconds           int64 // what it took
}

func (s store) result(key string) (r result, err error) {
	file, err := os.ReadFile(s.path(key))
	if err != nil {
		return r, err
	}
	sum, packed, ok := bytes.Cut(file, []byte("\n"))
	if !ok || string(sum) != hashOf([]byte(key), packed) {
		return r, errors.New("damaged")
	}
	reader, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return r, err
	}
	defer reader.Close()
	data, err := reader.DecodeAll(packed, nil)
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	if now := time.Now(); !s.readOnly {
		_ = os.Chtimes(s.path(key), now, now) // keeps it from being pruned; it may have vanished
	}
	return r, err
}

func (s store) keep(key string, r result) error {
	if s.readOnly {
		return nil
	}
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	writer, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	packed := writer.EncodeAll(data, nil)
	if err := os.MkdirAll(filepath.Dir(s.path(key)), 0o777); err != nil {
		return err
	}
	return cache.Keep(s.path(key), slices.Concat([]byte(hashOf([]byte(key), packed)), []byte("\n"), packed), 0o644)
}

// state shows quickly whether a file or directory is still the same; empty where it does not exist. No tool sets back the time at which
// the state of a file changed.
func state(path string) (string, time.Time) {
	fi, err := os.Stat(path)
	if err != nil {
		return "", time.Time{}
	}
	id, err := cache.IdentityOf(path, fi)
	if err != nil {
		return "", time.Time{}
	}
	changed := max(cache.StateTimeOf(fi), id.MTime)
	return fmt.Sprintf("%d %d %d %d %d", id.Size, id.MTime, changed, id.Inode, id.Device), time.Unix(0, changed)
}

// settled is the age from which a state is trusted: two changes within one tick of a clock have the same time.
var settled = 100 * time.Millisecond // 0 in tests, which start a process between two changes

// content is the hash of a file's content. That of a large one, which does not change from call to call, is remembered.
func (r *run) content(path string) (string, error) {
	fi, err := os.Stat(path)
	if err != nil || fi.Size() < 100_000 {
		return cache.Hash(path)
	}
	store, key := memo.Open(r.host, filepath.Dir(r.store.dir), time.Now()), memo.Key(path)
	if sum, ok := store.Get("tools-1", key); ok {
		return string(sum), nil
	}
	is := store.Watch(path)
	sum, err := cache.Hash(path)
	if err == nil && !r.store.readOnly {
		_ = store.Put("tools-1", key, is, []byte(sum)) // costs time only
	}
	return sum, err
}

// Use is what the cache did.
type Use struct {
	Hits     int           `json:"hits"`
	Misses   int           `json:"misses"`
	Uncached int           `json:"uncached"` // compilations that the cache does not understand
	Saved    time.Duration `json:"saved_ns"`
	Size     int64         `json:"size,omitempty"` // bytes on the disk
	// Reasons counts the uncached compilations by the reason.
	Reasons map[string]int `json:"reasons,omitempty"`
}

// MostFrequent lists the reasons, the most frequent first.
func (u Use) MostFrequent() []string {
	return slices.SortedFunc(maps.Keys(u.Reasons), func(a, b string) int {
		return cmp.Or(u.Reasons[b]-u.Reasons[a], strings.Compare(a, b))
	})
}

// ReadLog counts what calls noted.
func ReadLog(file string) (u Use) {
	u.Reasons = map[string]int{}
	data, err := os.ReadFile(file)
	if err != nil {
		return u // nvcc was not called
	}
	for line := range strings.Lines(string(data)) {
		what, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch what {
		case "hit":
			u.Hits++
			ms, _ := strconv.ParseInt(value, 10, 64)
			u.Saved += time.Duration(ms) * time.Millisecond
		case "miss":
			u.Misses++
		case "uncached":
			u.Uncached++
			u.Reasons[value]++
		}
	}
	return u
}

// log is the file in Kernels in which the builds note what their calls did, of at most so many bytes.
const (
	log     = "log"
	mostLog = 1 << 20
)

// Totals is what the cache in a directory of gpubuild's cache did, and its size.
func Totals(cacheDir string) Use {
	dir := filepath.Join(cacheDir, Kernels)
	u := ReadLog(filepath.Join(dir, log))
	_, u.Size = files(dir)
	return u
}

// limit bounds the size of the cache in bytes.
const limit = 5 << 30

// End adds the log of a build to that of all, and removes what was used least recently where the cache has become too large.
func End(cacheDir, of string) error { return end(cacheDir, of, limit) }

func end(cacheDir, of string, limit int64) error {
	data, err := os.ReadFile(of)
	if err != nil || len(data) == 0 {
		return err
	}
	dir := filepath.Join(cacheDir, Kernels)
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	all, err := os.ReadFile(filepath.Join(dir, log))
	if err != nil || len(all) > mostLog {
		all = nil // counted from the start
	}
	if err := cache.Keep(filepath.Join(dir, log), append(all, data...), 0o644); err != nil {
		return err
	}
	sweep(filepath.Join(dir, temporaries))
	list, size := files(dir)
	if size <= limit {
		return nil
	}
	slices.SortFunc(list, func(a, b aged) int { return a.used.Compare(b.used) })
	for _, f := range list {
		if size <= limit/10*9 {
			break
		}
		if os.Remove(f.path) == nil { // another gpubuild may have removed it
			size -= f.size
		}
	}
	return nil
}

// sweep removes what killed calls left. No call takes a day.
func sweep(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return // there was none
	}
	for _, e := range entries {
		if fi, err := e.Info(); err == nil && time.Since(fi.ModTime()) > 24*time.Hour {
			_ = os.RemoveAll(filepath.Join(dir, e.Name())) // the next build tries again
		}
	}
}

type aged struct {
	path string
	size int64
	used time.Time
}

func files(dir string) (list []aged, size int64) {
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil //nolint:nilerr // it vanished, or there is no cache
		}
		if fi, err := d.Info(); err == nil {
			list = append(list, aged{path, fi.Size(), fi.ModTime()})
			size += fi.Size()
		}
		return nil
	})
	return list, size
}
