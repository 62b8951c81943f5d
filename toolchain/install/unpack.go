package install

import (
	"archive/zip"
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sort"
	"strings"
	"sync"

	"github.com/klauspost/compress/flate"
)

// File is one file of a toolkit as it was put there.
type File struct {
	Path   string `json:"path"` // from the root, with slashes
	Size   int64  `json:"size,omitempty"`
	SHA256 string `json:"sha256,omitempty"`
	Exec   bool   `json:"exec,omitempty"`
	Link   string `json:"link,omitempty"` // where a symbolic link points; then it has no size and no hash
}

const (
	maxEntries = 200_000
	// margin is what a wheel may unpack to beyond what its pin says: the pin bounds a bomb, not an honest byte.
	margin     = 1 << 20
	bufferSize = 256 << 10
)

// tree is a toolkit that is being put together in root.
type tree struct {
	root    string
	workers int
	mu      sync.Mutex
	files   map[string]File // by lower-case path: two names that differ in case would be one file on Windows
	dirs    map[string]bool // those that were made
	twice   []twice         // compared when all is there: the other one may still be under way
}

// twice is a file that lay in a second archive, too.
type twice struct {
	rel, sha256 string
	differs     error
}

// agree says whether archives that hold files of the same name hold the same files.
func (t *tree) agree() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, x := range t.twice {
		if old := t.files[strings.ToLower(x.rel)]; old.Path != x.rel || old.SHA256 != x.sha256 {
			return x.differs
		}
	}
	return nil
}

func newTree(root string, workers int) *tree {
	return &tree{root: root, workers: min(max(workers, 1), 4), files: map[string]File{}, dirs: map[string]bool{}}
}

// place says where an entry of a wheel goes. NVIDIA's wheels hold nvidia/cu13/… and nvidia/cudnn/…, which are merged into one root; of
// the dist-info only the licence and METADATA are kept, because the licence has to stay with the files.
func place(w Wheel, entry string) (rel string, err error) {
	if err := safeName(entry); err != nil {
		return "", err
	}
	if strings.HasSuffix(entry, "/") {
		return "", nil
	}
	if w.Path != "" {
		return placeRedist(w, entry)
	}
	first, rest, _ := strings.Cut(entry, "/")
	switch {
	case strings.HasSuffix(first, ".dist-info"):
		base := path.Base(entry)
		if strings.HasPrefix(strings.ToLower(base), "licen") || strings.HasPrefix(rest, "licenses/") || base == "METADATA" {
			return "licenses/" + w.Package + "-" + w.Version + "/" + base, nil
		}
		return "", nil
	case path.Base(entry) == "__init__.py":
		return "", nil
	case first == "nvidia":
		if _, inner, ok := strings.Cut(rest, "/"); ok && inner != "" {
			return inner, nil
		}
	}
	return "", errors.New("it is not below nvidia/<toolkit>/")
}

// safeName refuses names that lead elsewhere, here or on another system.
func safeName(entry string) error {
	switch {
	case entry == "" || strings.ContainsAny(entry, "\\:\x00"):
		return errors.New("its name is not one that every system reads alike")
	case strings.HasPrefix(entry, "/"):
		return errors.New("its name is absolute")
	}
	for _, e := range strings.Split(strings.TrimSuffix(entry, "/"), "/") {
		if e == ".." || e == "." || e == "" {
			return errors.New("its name leaves the archive's root")
		}
	}
	return nil
}

// unpack adds a wheel's files to the tree. The wheel was checked against its hash before; that its entries stay in the tree and its size in
// bounds is checked all the same, because pins are data that a mistake could get into.
func (t *tree) unpack(ctx context.Context, archive string, w Wheel) error {
	if strings.HasSuffix(w.File, ".tar.xz") {
		return t.unpackTar(ctx, archive, w)
	}
	bad := func(entry, why string, err error) error {
		return &ArchiveError{Wheel: w.File, Entry: entry, Why: why, Err: err}
	}
	z, err := zip.OpenReader(archive)
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) {
		var p *fs.PathError
		if errors.As(err, &p) {
			return err
		}
		return bad("", "cannot be read", err)
	}
	defer z.Close()
	z.RegisterDecompressor(zip.Deflate, inflate)
	if len(z.File) > maxEntries {
		return bad("", fmt.Sprintf("holds %d entries", len(z.File)), nil)
	}
	type job struct {
		entry *zip.File
		rel   string
	}
	var jobs []job
	var total uint64
	for _, f := range z.File {
		rel, err := place(w, f.Name)
		if err != nil {
			return bad(f.Name, err.Error(), nil)
		}
		if mode := f.Mode(); !mode.IsRegular() && !mode.IsDir() {
			return bad(f.Name, "it is neither a file nor a directory ("+mode.Type().String()+")", nil)
		}
		if total += f.UncompressedSize64; f.UncompressedSize64 > w.bound() || total > w.bound() {
			return bad(f.Name, tooLarge(w), nil)
		}
		if rel != "" {
			jobs = append(jobs, job{f, rel})
		}
	}
	sort.SliceStable(jobs, func(i, j int) bool { return jobs[i].entry.UncompressedSize64 > jobs[j].entry.UncompressedSize64 })
	queue, errs := make(chan job, len(jobs)), make(chan error, t.workers)
	for _, j := range jobs {
		queue <- j
	}
	close(queue)
	for i := 0; i < t.workers; i++ {
		go func() {
			buffer := make([]byte, bufferSize)
			for j := range queue {
				err := ctx.Err()
				if err == nil {
					err = t.extract(j.entry, j.rel, w, buffer)
				}
				if err != nil {
					for range queue { // nobody need start another
					}
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	for i := 0; i < t.workers; i++ {
		if e := <-errs; err == nil || errors.Is(err, zip.ErrInsecurePath) {
			err = e
		}
	}
	return err
}

// inMemory is up to what size an entry's compressed bytes are read at once: 15 to 25 % less time than through a buffer, because the decoder takes
// single bytes from them. Four entries at a time keep that in bounds.
const inMemory = 64 << 20

// inflaters are used again: one takes 40 KB, and a wheel may have two thousand entries.
var inflaters sync.Pool

// inflater is a third faster than the standard library's decoder.
type inflater struct{ io.ReadCloser }

// inflate decompresses an entry; archive/zip hands it a reader that knows its size.
func inflate(r io.Reader) io.ReadCloser {
	if sized, ok := r.(interface{ Size() int64 }); ok && sized.Size() <= inMemory {
		data := make([]byte, sized.Size())
		if _, err := io.ReadFull(r, data); err != nil {
			return io.NopCloser(failing{err})
		}
		r = bytes.NewReader(data)
	} else {
		r = bufio.NewReaderSize(r, bufferSize) // else it would read 4 KB at a time
	}
	if used, ok := inflaters.Get().(io.ReadCloser); ok {
		if again, ok := used.(flate.Resetter); ok && again.Reset(r, nil) == nil {
			return &inflater{used}
		}
	}
	return &inflater{flate.NewReader(r)}
}

func (i *inflater) Close() error {
	err := i.ReadCloser.Close()
	if again, ok := i.ReadCloser.(flate.Resetter); ok && again.Reset(bytes.NewReader(nil), nil) == nil { // lets go of the entry's bytes
		inflaters.Put(i.ReadCloser)
	}
	i.ReadCloser = io.NopCloser(failing{fs.ErrClosed})
	return err
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// reserve makes a file's name taken. Two wheels may hold the same file: then the second answers the first's record.
func (t *tree) reserve(rel string) (File, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := strings.ToLower(rel)
	old, taken := t.files[key]
	if !taken {
		t.files[key] = File{Path: rel}
	}
	return old, taken
}

func (t *tree) record(f File) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.files[strings.ToLower(f.Path)] = f
}

func (t *tree) extract(entry *zip.File, rel string, w Wheel, buffer []byte) error {
	bad := func(why string, err error) error {
		return &ArchiveError{Wheel: w.File, Entry: entry.Name, Why: why, Err: err}
	}
	r, err := entry.Open()
	if err != nil {
		return bad("cannot be read", err)
	}
	defer r.Close()
	return t.put(File{Path: rel, Size: int64(entry.UncompressedSize64), Exec: entry.Mode()&0o100 != 0}, r, buffer, bad)
}

// put writes a file whose path and size are known and takes its hash on the way.
func (t *tree) put(f File, r io.Reader, buffer []byte, bad func(string, error) error) error {
	rel := f.Path
	if _, taken := t.reserve(rel); taken {
		h := sha256.New()
		if _, err := io.Copy(h, r); err != nil {
			return bad("cannot be read", err)
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		t.twice = append(t.twice, twice{rel, hex.EncodeToString(h.Sum(nil)), bad("another wheel of this toolkit holds another file of that name", nil)})
		return nil
	}
	to := filepath.Join(t.root, filepath.FromSlash(rel))
	if err := t.mkdir(filepath.Dir(to)); err != nil {
		return err
	}
	mode := os.FileMode(0o644)
	if f.Exec {
		mode = 0o755 // the wheels say 0744; others may use the compiler, too
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	h := sha256.New()
	n, err := io.CopyBuffer(io.MultiWriter(out, h), io.LimitReader(r, f.Size+1), buffer)
	if e := out.Close(); err == nil {
		err = e
	}
	var p *fs.PathError
	switch {
	case errors.As(err, &p):
		return err
	case err != nil:
		return bad("cannot be read", err)
	case n != f.Size:
		return bad("it is not as large as it says", nil)
	}
	f.SHA256 = hex.EncodeToString(h.Sum(nil))
	t.record(f)
	return nil
}

// mkdir makes a directory once; a wheel has two thousand files in a few hundred.
func (t *tree) mkdir(dir string) error {
	t.mu.Lock()
	done := t.dirs[dir]
	t.mu.Unlock()
	if done {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.dirs[dir] = true
	return nil
}

// link puts a symbolic link into the tree, unless a file is there.
func (t *tree) link(rel, target string) error {
	if _, taken := t.reserve(rel); taken {
		return nil
	}
	if err := os.Symlink(target, filepath.Join(t.root, filepath.FromSlash(rel))); err != nil {
		return err
	}
	t.record(File{Path: rel, Link: target})
	return nil
}

// write puts a file of our own into the tree.
func (t *tree) write(rel string, data []byte) error {
	to := filepath.Join(t.root, filepath.FromSlash(rel))
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(to, data, 0o644); err != nil {
		return err
	}
	sum := sha256.Sum256(data)
	t.record(File{Path: rel, Size: int64(len(data)), SHA256: hex.EncodeToString(sum[:])})
	return nil
}

// add takes a file into the record that another program made in the tree.
func (t *tree) add(rel string, exec bool) error {
	data, err := os.ReadFile(filepath.Join(t.root, filepath.FromSlash(rel)))
	if err != nil {
		return err
	}
	sum := sha256.Sum256(data)
	t.record(File{Path: rel, Size: int64(len(data)), SHA256: hex.EncodeToString(sum[:]), Exec: exec})
	return nil
}

// list answers the files, sorted by path.
func (t *tree) list() []File {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]File, 0, len(t.files))
	for _, f := range t.files {
		out = append(out, f)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Path < out[j].Path })
	return out
}

func (t *tree) has(rel string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ok := t.files[strings.ToLower(rel)]
	return ok
}
