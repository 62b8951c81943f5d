package tree

import (
	"archive/tar"
	"archive/zip"
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/klauspost/compress/flate"
	"github.com/ulikunitz/xz"
	"golang.org/x/sync/errgroup"

	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/exit"
)

const bufferSize = 128 << 10

// Source is an archive and the file that it is in.
type Source struct {
	Archive
	From string
}

// Unpack adds the files of all archives, several at once. Their hashes were checked before. Entry names, sizes and links are checked
// all the same, because pins and indexes are data that may be wrong.
func (t *Tree) Unpack(ctx context.Context, sources []Source, workers int) error {
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(min(max(workers, 1), 4))
	var opened []io.Closer
	for _, s := range sources {
		if strings.HasSuffix(s.File, ".tar.xz") { // one stream: its entries come one after another
			work.Go(func() error { return t.unpackTar(ctx, s) })
			continue
		}
		z, err := zip.OpenReader(s.From)
		if err == nil || errors.Is(err, zip.ErrInsecurePath) { // place looks at the names
			opened = append(opened, z)
			err = t.unpackZip(ctx, z, s.Archive, work)
		} else if disk := (*fs.PathError)(nil); !errors.As(err, &disk) {
			err = archiveError(s.File, "", "cannot be read", err)
		}
		if err != nil {
			work.Go(func() error { return err })
			break
		}
	}
	err := work.Wait()
	for _, z := range opened {
		_ = z.Close()
	}
	if err != nil {
		return err
	}
	return t.checkRepeats()
}

// unpackZip checks a wheel's names and sizes, and starts work on each of its entries.
func (t *Tree) unpackZip(ctx context.Context, z *zip.ReadCloser, a Archive, work *errgroup.Group) error {
	// klauspost's decoder is a third faster than the standard library's.
	z.RegisterDecompressor(zip.Deflate, func(r io.Reader) io.ReadCloser { return flate.NewReader(bufio.NewReaderSize(r, 16<<10)) })
	if len(z.File) > maxEntries {
		return archiveError(a.File, "", fmt.Sprintf("holds %d entries", len(z.File)), nil)
	}
	type job struct {
		entry *zip.File
		rel   string
	}
	var jobs []job
	var total uint64
	for _, f := range z.File {
		rel, err := place(a, f.Name)
		size := f.UncompressedSize64
		switch total += size; {
		case err != nil:
			return archiveError(a.File, f.Name, err.Error(), nil)
		case !f.Mode().IsRegular() && !f.Mode().IsDir():
			why := "it is neither a file nor a directory (" + f.Mode().Type().String() + ")"
			return archiveError(a.File, f.Name, why, nil)
		case size > a.limit() || total > a.limit():
			return archiveError(a.File, f.Name, a.tooLarge(), nil)
		case rel != "":
			jobs = append(jobs, job{f, rel})
		}
	}
	// The largest first, so that no worker is left alone with one at the end.
	slices.SortStableFunc(jobs, func(a, b job) int { return cmp.Compare(b.entry.UncompressedSize64, a.entry.UncompressedSize64) })
	for _, j := range jobs {
		work.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			bad := func(why string, err error) error {
				return archiveError(a.File, j.entry.Name, why, err)
			}
			r, err := j.entry.Open()
			if err != nil {
				return bad("cannot be read", err)
			}
			defer r.Close()
			return t.put(File{Path: j.rel, Size: int64(j.entry.UncompressedSize64), Exec: j.entry.Mode()&0o100 != 0, Part: a.Part}, r, bad)
		})
	}
	return nil
}

func (t *Tree) unpackTar(ctx context.Context, s Source) error {
	bad := func(entry, why string, err error) error {
		return archiveError(s.File, entry, why, err)
	}
	f, err := os.Open(s.From)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := xz.NewReader(bufio.NewReaderSize(f, bufferSize))
	if err != nil {
		return bad("", "cannot be read", err)
	}
	stream := &io.LimitedReader{R: bufio.NewReaderSize(z, bufferSize), N: int64(s.limit())}
	entries := tar.NewReader(stream)
	var total uint64
	for n := 0; ; n++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		h, err := entries.Next()
		switch {
		case err == io.EOF && stream.N > 0:
			return nil
		case err != nil && stream.N <= 0:
			return bad("", s.tooLarge(), nil)
		case err != nil && !errors.Is(err, tar.ErrInsecurePath):
			return bad("", "cannot be read", err)
		case n > maxEntries:
			return bad("", fmt.Sprintf("holds more than %d entries", maxEntries), nil)
		case h.Typeflag == tar.TypeXGlobalHeader, path.Clean(h.Name) == ".":
			continue
		}
		// Of a sparse file the stream holds less than is written, so the limit on the stream is not enough.
		if total += uint64(h.Size); h.Size < 0 || total > s.limit() {
			return bad(h.Name, s.tooLarge(), nil)
		}
		if err := t.addEntry(s.Archive, h, entries, func(why string, err error) error { return bad(h.Name, why, err) }); err != nil {
			return err
		}
	}
}

func (t *Tree) addEntry(a Archive, h *tar.Header, content io.Reader, bad func(string, error) error) error {
	name := strings.TrimPrefix(h.Name, "./")
	if h.Typeflag == tar.TypeDir {
		name = strings.TrimSuffix(name, "/") + "/"
	}
	rel, err := place(a, name)
	if err != nil {
		return bad(err.Error(), nil)
	}
	if rel != "" && t.belowFile(rel) {
		return bad("it is below a link", nil)
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return nil
	case tar.TypeReg:
		if rel == "" {
			return nil
		}
		return t.put(File{Path: rel, Size: h.Size, Exec: h.Mode&0o100 != 0, Part: a.Part}, content, bad)
	case tar.TypeSymlink:
		if rel == "" {
			return nil
		}
		return t.linkWithin(File{Path: rel, Link: h.Linkname, Part: a.Part}, bad)
	}
	return bad(fmt.Sprintf("it is neither a file nor a directory nor a symbolic link (type %.200q)", h.Typeflag), nil)
}

// belowFile reports whether one of a path's directories is a link or a file: through a link, the entry would be written elsewhere.
func (t *Tree) belowFile(rel string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for dir := path.Dir(rel); dir != "."; dir = path.Dir(dir) {
		if _, is := t.files[strings.ToLower(dir)]; is {
			return true
		}
	}
	return false
}

// linkWithin adds a link that an archive holds. Its target is relative to the link's directory: some "..", then names, never above the
// root. No directory above a link is a link itself, so ".." means what it says.
func (t *Tree) linkWithin(f File, bad func(string, error) error) error {
	rel, target := f.Path, f.Link
	steps := target
	for strings.HasPrefix(steps, "../") {
		steps = steps[len("../"):]
	}
	if steps != ".." && !plainPath(strings.TrimSuffix(steps, "/")) {
		return bad(fmt.Sprintf("a link to %.200q, which is not a plain relative path", target), nil)
	}
	if to := path.Join(path.Dir(rel), target); !fs.ValidPath(to) {
		return bad(fmt.Sprintf("a link to %.200q, which leaves the archive's root", target), nil)
	}
	if err := t.root.MkdirAll(path.Dir(rel), 0o755); err != nil {
		return err
	}
	switch old, taken := t.reserve(rel); {
	case taken && old.Link == target && old.Path == rel:
		return nil
	case taken:
		return bad("another archive of this toolkit holds another file of that name", nil)
	}
	err := t.symlink(f)
	if errors.Is(err, fs.ErrExist) {
		return bad("a directory has that name already", nil)
	}
	return err
}

// place returns where an entry goes, from the toolkit's root; empty: it is left out.
func place(a Archive, entry string) (rel string, err error) {
	if !plainPath(strings.TrimSuffix(entry, "/")) {
		return "", errors.New("its name is not a plain path below the archive's root")
	}
	if strings.HasSuffix(entry, "/") {
		return "", nil
	}
	if strings.EqualFold(path.Base(entry), MarkerFile) { // else a toolkit would count as complete before it is
		return "", errors.New("only gpubuild writes a file of that name")
	}
	licences := "licenses/" + a.Package + "-" + a.Version + "/"
	first, rest, below := strings.Cut(entry, "/")
	if a.Path == "" {
		return placeWheel(licences, entry, first, rest)
	}
	// All of a redistributable lies below one directory (cuda_nvcc-linux-x86_64-12.9.86-archive/); the files directly in it are licences.
	// Left out is what no build reads: CUPTI's samples and documents, and static versions of libraries that programs load, which are
	// larger than all the rest.
	if !below {
		return "", errors.New("it is not below <component>-archive/")
	}
	switch dir, _, deeper := strings.Cut(rest, "/"); {
	case !deeper:
		return licences + rest, nil
	case dir == "samples" || dir == "doc" || dir == "docs":
		return "", nil
	case strings.HasSuffix(rest, ".a") && a.Part != "runtime" && a.Part != "nvcc":
		return "", nil
	}
	return rest, nil
}

// placeWheel: NVIDIA's wheels hold nvidia/cu13/… and nvidia/cudnn/…, which are merged into one root. Of the dist-info only the licence
// and METADATA are kept, because the licence has to stay with the files.
func placeWheel(licences, entry, first, rest string) (string, error) {
	base := path.Base(entry)
	switch {
	case strings.HasSuffix(first, ".dist-info"):
		if strings.HasPrefix(strings.ToLower(base), "licen") || strings.HasPrefix(rest, "licenses/") || base == "METADATA" {
			return licences + base, nil
		}
		return "", nil
	case base == "__init__.py":
		return "", nil
	case first == "nvidia":
		if _, inner, ok := strings.Cut(rest, "/"); ok {
			return inner, nil
		}
	}
	return "", errors.New("it is not below nvidia/<toolkit>/")
}

// plainPath reports whether a path stays below its root on every system: also on Windows, which knows drives and backslashes.
func plainPath(p string) bool {
	return fs.ValidPath(p) && p != "." && !strings.ContainsAny(p, "\\:\x00")
}

// Archive is one file that goes into a toolkit: a pinned wheel, or an archive of NVIDIA's redistributables.
type Archive struct {
	Part     string `toml:"-"` // nvcc
	Package  string `toml:"-"` // nvidia-cuda-nvcc; cuda_nvcc
	Licence  string `toml:"-"` // key of the catalog's licences
	Version  string `toml:"version"`
	Size     int64  `toml:"size"`     // bytes to fetch
	Unpacked int64  `toml:"unpacked"` // bytes on disk
	SHA256   string `toml:"sha256"`
	File     string `toml:"file"`
	Path     string `toml:"-"` // of a redistributable: from the server's root; empty: a wheel
}

func (a Archive) String() string { return a.Package + " " + a.Version }

// Check compares a file with the archive's hash.
func (a Archive) Check(path string) error {
	got, err := cache.Hash(path)
	if err != nil {
		return err
	}
	if got != a.SHA256 {
		return &HashError{File: path, Want: a.SHA256, Got: got}
	}
	return nil
}

const (
	maxEntries = 200_000
	// margin is what a wheel may unpack to beyond its pin: the limit is there to stop a bomb, not to count bytes.
	margin = 1 << 20
)

// limit is how many bytes the archive's entries may have.
func (a Archive) limit() uint64 {
	if a.Path != "" { // the index does not say; nothing useful compresses better than this with xz
		return uint64(a.Size)*100 + 64<<20
	}
	return uint64(a.Unpacked) + margin
}

func (a Archive) tooLarge() string {
	if a.Path != "" {
		return fmt.Sprintf("more than %s, which no honest archive of %s holds", Size(int64(a.limit())), Size(a.Size))
	}
	return fmt.Sprintf("more than %s, the most that it may hold", Size(int64(a.limit())))
}

// Size formats a number of bytes for people.
func Size(n int64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.2f GB", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.0f MB", float64(n)/1e6)
	case n >= 1e3:
		return fmt.Sprintf("%.0f kB", float64(n)/1e3)
	}
	return fmt.Sprintf("%d bytes", n)
}

// HashError says that a file is not the one that was pinned. It is never unpacked.
type HashError struct {
	File, Want, Got string // Got is empty when pip found the difference
}

func (e *HashError) Error() string {
	if e.Got == "" {
		return e.File + ": not the pinned file (sha256 differs from " + e.Want + ")"
	}
	return fmt.Sprintf("%s: sha256 is %s, pinned is %s", e.File, e.Got, e.Want)
}

func (e *HashError) Hint() string {
	return "the file was damaged on its way or replaced by a mirror: run the same command again, " +
		"then try another index (PIP_INDEX_URL, GPUBUILD_REDIST)"
}

// archiveError says that an archive, or one entry of it, may not or cannot be unpacked.
func archiveError(archive, entry, why string, err error) error {
	if entry != "" {
		archive += fmt.Sprintf(": entry %.200q", entry)
	}
	const fix = "nothing was installed; remove the file and run the same command again"
	if err != nil {
		return exit.Errorf(0, fix, "%s: %s: %w", archive, why, err)
	}
	return exit.Errorf(0, fix, "%s: %s", archive, why)
}
