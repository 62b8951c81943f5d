package nvcc

import (
	"cmp"
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/memo"
)

// Kernels is the directory of gpubuild's cache that holds the results.
const Kernels = "kernels"

// temporaries is the directory in Kernels that holds a directory for each call that runs.
const temporaries = "tmp"

// result is what a call of nvcc left.
type result struct {
	Key          string // another one's entry is none
	Output       []byte
	Files        map[string][]byte `json:",omitempty"` // of a part: each by its place among the names of a step
	Order        []string          // of the steps
	Said         map[string]said
	Milliseconds int64 // what it took
}

// said is what a step says.
type said struct{ Out, Err []byte }

// entries are the results, of which the memo bounds the number for one kind: here a kind is the begin of a key.
func entries(h buildenv.Host, cacheDir string) memo.Store {
	return memo.Open(h, filepath.Join(cacheDir, Kernels), time.Now())
}

func (r *run) kept(key string) (res result, err error) {
	packed, ok := entries(r.host, r.cacheDir).Get(key[:2], key)
	if !ok {
		return res, fs.ErrNotExist
	}
	reader, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return res, err
	}
	defer reader.Close()
	data, err := reader.DecodeAll(packed, nil)
	if err == nil {
		err = json.Unmarshal(data, &res)
	}
	if err == nil && res.Key != key {
		err = fs.ErrNotExist
	}
	return res, err
}

func (r *run) keep(key string, res result) error {
	if r.readOnly {
		return nil
	}
	res.Key = key
	data, err := json.Marshal(res)
	if err != nil {
		return err
	}
	writer, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	return entries(r.host, r.cacheDir).Put(key[:2], key, nil, writer.EncodeAll(data, nil))
}

// settled is the age from which the time of a change is trusted: two changes within one tick of a clock have the same.
var settled = 100 * time.Millisecond // 0 in tests, which start a process between two changes

// content is the hash of a file's content. That of a large one, which does not change from call to call, is remembered.
func (r *run) content(path string) (string, error) {
	fi, err := os.Stat(path)
	if err != nil || fi.Size() < 100_000 {
		return cache.Hash(path)
	}
	key := memo.Key(path)
	if sum, ok := r.memo.Get("tools-1", key); ok {
		return string(sum), nil
	}
	is := r.memo.Watch(path)
	sum, err := cache.Hash(path)
	if err == nil && !r.readOnly {
		_ = r.memo.Put("tools-1", key, is, []byte(sum)) // costs time only
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
	// Only are packages with code for one of several architectures alone: that and the name.
	Only []string `json:"-"`
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
		case "only":
			if !slices.Contains(u.Only, value) {
				u.Only = append(u.Only, value)
			}
		case "uncached":
			u.Uncached++
			u.Reasons[value]++
		}
	}
	return u
}

// log is the file in Kernels in which the builds note what their calls did.
const log = "log"

// Totals is what the cache in a directory of gpubuild's cache did, and its size.
func Totals(cacheDir string) Use {
	dir := filepath.Join(cacheDir, Kernels)
	u := ReadLog(filepath.Join(dir, log))
	_, u.Size = Files(dir)
	return u
}

// Limit bounds the size of the cache in bytes.
const Limit = 5 << 30

// End adds the log of a build to that of all, and removes what killed calls left, of which none takes a day, and the oldest results where
// the cache has become too large.
func End(cacheDir, of string, limit int64) error {
	data, err := os.ReadFile(of)
	if err != nil || len(data) == 0 {
		return err
	}
	dir := filepath.Join(cacheDir, Kernels)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	all, err := os.ReadFile(filepath.Join(dir, log))
	if err != nil || len(all) > 1<<20 {
		all = nil // counted from the start
	}
	if err := cache.Keep(filepath.Join(dir, log), append(all, data...), 0o644); err != nil {
		return err
	}
	list, size := Files(dir)
	slices.SortFunc(list, func(a, b aged) int { return a.made.Compare(b.made) })
	most := size
	if size > limit {
		most = limit / 10 * 9
	}
	for _, f := range list {
		killed := filepath.Base(filepath.Dir(filepath.Dir(f.path))) == temporaries && time.Since(f.made) > 24*time.Hour
		if (killed || size > most) && os.Remove(f.path) == nil { // another gpubuild may have removed it
			size -= f.size
			if killed {
				_ = os.Remove(filepath.Dir(f.path)) // unless there is more
			}
		}
	}
	return nil
}

type aged struct {
	path string
	size int64
	made time.Time
}

// Files lists what is in a directory of the cache, and the size of all of it.
func Files(dir string) (list []aged, size int64) {
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
