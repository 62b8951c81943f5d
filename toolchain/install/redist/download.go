package redist

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"gpubuild/toolchain/install/tree"
)

// attempts is how often one file is requested without a byte of progress.
const attempts = 4

// Download fetches an archive into a directory, under its own name, and checks its size and hash. What was fetched stays there when it
// ends early, and the next Download requests only the rest. If the rest belongs to another file, the hash shows it.
func (s *Source) Download(ctx context.Context, a tree.Archive, dir string, progress tree.Progress) error {
	if s.dir != "" {
		err := errors.New("the index names it, but no file of that name and size is there")
		return &FetchError{Address: s.Show(a.Path), Err: err}
	}
	progress(tree.Event{Text: a.String(), Total: a.Size})
	part := filepath.Join(dir, "partial-"+a.SHA256[:16])
	d := download{source: s, archive: a, progress: progress}
	if err := s.retry(ctx, a.Path, func() (bool, error) { return d.try(ctx, part) }); err != nil {
		return err
	}
	return os.Rename(part, filepath.Join(dir, a.File))
}

// download is one file that is being fetched, over several attempts.
type download struct {
	source   *Source
	archive  tree.Archive
	furthest int64 // the most bytes so far: a server that ignores ranges and always breaks off makes no progress
	progress tree.Progress
}

// try continues the file until it is complete or the connection breaks. It says whether it got further than before.
func (d *download) try(ctx context.Context, part string) (progress bool, err error) {
	f, err := os.OpenFile(part, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	sum := sha256.New()
	received, err := io.Copy(sum, f)
	if err != nil {
		return false, err
	}
	d.furthest = max(d.furthest, received)
	resumed := received > 0
	if received > d.archive.Size {
		err = restart(f, sum)
		received = 0
	}
	if err == nil && received < d.archive.Size {
		received, err = d.receive(ctx, f, sum, received)
	}
	progress = received > d.furthest
	d.furthest = max(d.furthest, received)
	if err != nil {
		return progress, err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != d.archive.SHA256 {
		if err := restart(f, sum); err != nil {
			return false, err
		}
		if resumed {
			return false, fmt.Errorf("%s: sha256 is %s after a continued download", d.archive.File, got)
		}
		return false, &tree.HashError{File: d.source.Show(d.archive.Path), Want: d.archive.SHA256, Got: got}
	}
	return true, nil
}

func restart(f *os.File, sum hash.Hash) error {
	sum.Reset()
	_, err := f.Seek(0, io.SeekStart)
	return errors.Join(err, f.Truncate(0))
}

// receive writes what is missing of the file, of which some bytes are there; it returns how many are there then.
func (d *download) receive(ctx context.Context, f *os.File, sum hash.Hash, received int64) (int64, error) {
	size := d.archive.Size
	resp, done, err := d.source.get(ctx, d.archive.Path, received)
	if err != nil {
		return received, err
	}
	defer done()
	switch {
	case resp.StatusCode == http.StatusPartialContent && received > 0:
		var from, to, total int64
		n, _ := fmt.Sscanf(resp.Header.Get("Content-Range"), "bytes %d-%d/%d", &from, &to, &total)
		if n != 3 || from != received || total != size {
			err := fmt.Errorf("%s: the server sends %.200q of %d bytes", d.archive.File, resp.Header.Get("Content-Range"), size)
			return 0, errors.Join(err, restart(f, sum))
		}
	case resp.StatusCode == http.StatusOK:
		received = 0
		if err := restart(f, sum); err != nil {
			return 0, err
		}
		if resp.ContentLength >= 0 && resp.ContentLength != size {
			return 0, &statusError{0, fmt.Sprintf("%d bytes, the index says %d", resp.ContentLength, size)}
		}
	case resp.StatusCode == http.StatusRequestedRangeNotSatisfiable:
		return 0, errors.Join(errors.New(resp.Status), restart(f, sum))
	default:
		return received, &statusError{resp.StatusCode, resp.Status}
	}
	buffer := make([]byte, 256<<10)
	for received < size {
		n, err := resp.Body.Read(buffer)
		if received+int64(n) > size {
			return received, &statusError{0, fmt.Sprintf("more than the %d bytes that the index says", size)}
		}
		if _, err := f.Write(buffer[:n]); err != nil {
			return received, err
		}
		sum.Write(buffer[:n])
		received += int64(n)
		d.progress(tree.Event{Text: d.archive.String(), Done: received, Total: size})
		if err == io.EOF && received < size {
			err = fmt.Errorf("%w after %d of %d bytes", io.ErrUnexpectedEOF, received, size)
		}
		if err != nil && err != io.EOF {
			return received, err
		}
	}
	if n, _ := resp.Body.Read(buffer[:1]); n > 0 {
		return received, &statusError{0, fmt.Sprintf("more than the %d bytes that the index says", size)}
	}
	return received, nil
}

// retry repeats what fails for a reason that may pass. do says whether it made progress, and then the count starts again.
func (s *Source) retry(ctx context.Context, rel string, do func() (bool, error)) error {
	for tries, wait := 1, s.pause; ; tries++ {
		progress, err := do()
		_, disk := errors.AsType[*fs.PathError](err)
		_, wrong := errors.AsType[*tree.HashError](err)
		switch {
		case err == nil || disk || wrong: // another request does not help
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		}
		if progress {
			tries, wait = 0, s.pause
		}
		if tries >= attempts || lasting(err) {
			return &FetchError{Address: s.Show(rel), Offline: offline(err), Err: err}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
		wait *= 2
	}
}

// statusError is a server's answer that is no file, or not the one that the index names.
type statusError struct {
	code int
	text string
}

func (e *statusError) Error() string { return e.text }

// lasting reports whether a second attempt within seconds would fail, too.
func lasting(err error) bool {
	if status, ok := errors.AsType[*statusError](err); ok {
		return status.code < 500 && status.code != http.StatusRequestTimeout && status.code != http.StatusTooManyRequests
	}
	dns, unknown := errors.AsType[*net.DNSError](err)
	return unknown && dns.IsNotFound || errors.Is(err, syscall.ECONNREFUSED)
}

// offline reports whether no answer came, or not all of one.
func offline(err error) bool {
	if _, answered := errors.AsType[*statusError](err); answered {
		return false
	}
	_, failed := errors.AsType[*url.Error](err)
	return failed || errors.Is(err, io.ErrUnexpectedEOF)
}
