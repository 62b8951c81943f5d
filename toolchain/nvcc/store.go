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
)

// Kernels is the directory of gpubuild's cache that holds the results.
const Kernels = "kernels"

// temporaries is the directory in Kernels that holds a directory for each call that runs.
const temporaries = "tmp"

// store keeps results and hashes of large files, one file each. Every file begins with the hash of its key and of the rest, and is written
// to a temporary file and renamed: what is damaged, vanishes, or has another one's name was never there.
type store struct {
	dir      string
	readOnly bool
}

var errDamaged = errors.New("damaged")

func (s store) path(kind, key string) string { return filepath.Join(s.dir, kind, key[:2], key) }

func (s store) read(kind, key string) ([]byte, error) {
	data, err := os.ReadFile(s.path(kind, key))
	if err != nil {
		return nil, err
	}
	sum, rest, ok := bytes.Cut(data, []byte("\n"))
	if !ok || string(sum) != hashOf([]byte(kind), []byte(key), rest) {
		return nil, errDamaged
	}
	return rest, nil
}

func (s store) write(kind, key string, data []byte) error {
	if s.readOnly {
		return nil
	}
	path := s.path(kind, key)
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	return cache.Keep(path, slices.Concat([]byte(hashOf([]byte(kind), []byte(key), data)), []byte("\n"), data), 0o644)
}

// used keeps an entry from being pruned.
func (s store) used(kind, key string) {
	if !s.readOnly {
		now := time.Now()
		_ = os.Chtimes(s.path(kind, key), now, now) // it may have vanished
	}
}

func hashOf(parts ...[]byte) string {
	sum := sha256.New()
	for _, part := range parts {
		_, _ = sum.Write(part) // a hash takes all
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// result is what a call of nvcc left.
type result struct {
	Output, Dependencies, Stdout, Stderr []byte
	Milliseconds                         int64 // what it took
}

func (s store) result(key string) (r result, err error) {
	packed, err := s.read("results", key)
	if err != nil {
		return r, err
	}
	reader, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return r, err
	}
	defer reader.Close()
	data, err := reader.DecodeAll(packed, nil)
	if err != nil {
		return r, err
	}
	err = json.Unmarshal(data, &r)
	s.used("results", key)
	return r, err
}

func (s store) keep(key string, r result) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	writer, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	return s.write("results", key, writer.EncodeAll(data, nil))
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
func (s store) content(path string) (string, error) {
	is, changed := state(path)
	if is == "" {
		return "", &fs.PathError{Op: "hash", Path: path, Err: fs.ErrNotExist}
	}
	if size, _, _ := strings.Cut(is, " "); len(size) < 6 {
		return cache.Hash(path)
	}
	key := hashOf([]byte(path))
	if data, err := s.read("files", key); err == nil {
		if sum, known, _ := strings.Cut(string(data), "\n"); known == is {
			return sum, nil
		}
	}
	began := time.Now()
	sum, err := cache.Hash(path)
	if err != nil {
		return "", err
	}
	if after, _ := state(path); after == is && began.Sub(changed) > settled {
		_ = s.write("files", key, []byte(sum+"\n"+is)) // costs time only
	}
	return sum, nil
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

// ReadLog counts what the calls of one build noted.
func ReadLog(file string) (u Use) {
	u.Reasons = map[string]int{}
	data, err := os.ReadFile(file)
	if err != nil {
		return u // nvcc was not called
	}
	for line := range strings.Lines(string(data)) {
		note, _, _ := strings.Cut(line, "\t")
		what, value, _ := strings.Cut(note, " ")
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

const totals = "totals.json"

// Totals is what the cache in a directory of gpubuild's cache did, and its size.
func Totals(cacheDir string) (u Use) {
	dir := filepath.Join(cacheDir, Kernels)
	if data, err := os.ReadFile(filepath.Join(dir, totals)); err == nil {
		_ = json.Unmarshal(data, &u) // damaged: counted from the start
	}
	_, u.Size = files(dir)
	return u
}

// limit bounds the size of the cache in bytes.
const limit = 5 << 30

// End adds a build's use to the totals, and removes what was used least recently where the cache has become too large.
func End(cacheDir string, u Use) error { return end(cacheDir, u, limit) }

func end(cacheDir string, u Use, limit int64) error {
	if u.Hits+u.Misses+u.Uncached == 0 {
		return nil
	}
	dir := filepath.Join(cacheDir, Kernels)
	sum := Totals(cacheDir)
	sum.Hits, sum.Misses, sum.Uncached, sum.Saved = sum.Hits+u.Hits, sum.Misses+u.Misses, sum.Uncached+u.Uncached, sum.Saved+u.Saved
	sum.Size = 0
	all := Use{Reasons: maps.Clone(u.Reasons)}
	for reason, n := range sum.Reasons {
		if all.Reasons == nil {
			all.Reasons = map[string]int{}
		}
		all.Reasons[reason] += n
	}
	const most = 20
	for i, reason := range all.MostFrequent() {
		if i >= most {
			delete(all.Reasons, reason)
		}
	}
	sum.Reasons = all.Reasons
	data, err := json.Marshal(sum)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	if err := cache.Keep(filepath.Join(dir, totals), data, 0o644); err != nil {
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
