package install

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/net/http/httpproxy"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
)

const (
	maxIndex = 32 << 20
	// attempts is how often one file is asked for without a byte of progress.
	attempts = 4
)

// source is where the redistributables' index and archives come from: a server, or a directory with the same layout.
type source struct {
	dir    string   // not empty: a directory
	base   *url.URL // ends in a slash
	client *http.Client
	pause  time.Duration // before the first new attempt
	stall  time.Duration // how long a server may send nothing before the connection counts as dead
}

// SourceError says that the place which a user named is none that can be read from.
type SourceError struct{ Base, Problem string }

func (e *SourceError) Error() string { return fmt.Sprintf("%q: %s", e.Base, e.Problem) }

// ExitCode is exit.Usage.
func (e *SourceError) ExitCode() int { return exit.Usage }

// Hint says what a place looks like.
func (e *SourceError) Hint() string {
	return "name a URL or a directory that holds cuda/redist/redistrib_*.json, such as " + RedistHome
}

// newSource takes the proxy variables from the host's environment, in the forms that curl and pip know.
func newSource(h buildenv.Host, base string) (*source, error) {
	if !strings.Contains(base, "://") {
		dir := h.Abs(base)
		if !h.IsDir(h.Join(dir, "cuda", "redist")) {
			return nil, &SourceError{base, "no directory cuda/redist is there"}
		}
		return &source{dir: dir}, nil
	}
	u, err := url.Parse(strings.TrimSuffix(base, "/") + "/")
	switch {
	case err != nil:
		return nil, &SourceError{base, err.Error()}
	case u.Scheme == "file":
		return newSource(h, filepath.FromSlash(strings.TrimSuffix(u.Path, "/")))
	case u.Scheme != "https" && u.Scheme != "http" || u.Host == "":
		return nil, &SourceError{base, "not an address of https or http"}
	}
	proxy := (&httpproxy.Config{HTTPProxy: either(h.Env, "http_proxy", "HTTP_PROXY"), HTTPSProxy: either(h.Env, "https_proxy", "HTTPS_PROXY"),
		NoProxy: either(h.Env, "no_proxy", "NO_PROXY")}).ProxyFunc()
	client := &http.Client{
		Transport: &http.Transport{
			Proxy:                 func(r *http.Request) (*url.URL, error) { return proxy(r.URL) },
			DialContext:           (&net.Dialer{Timeout: 20 * time.Second}).DialContext,
			TLSHandshakeTimeout:   20 * time.Second,
			ResponseHeaderTimeout: time.Minute,
			ForceAttemptHTTP2:     true,
			DisableCompression:    true, // ranges count bytes of the file
		},
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			switch {
			case len(via) >= 5:
				return errors.New("more than 5 redirections")
			case via[0].URL.Scheme == "https" && r.URL.Scheme != "https":
				return fmt.Errorf("redirected to %s, which is not encrypted", r.URL.Redacted())
			}
			return nil
		},
	}
	return &source{base: u, client: client, pause: time.Second, stall: time.Minute}, nil
}

func either(env buildenv.Env, names ...string) string {
	for _, n := range names {
		if v := env.Get(n); v != "" {
			return v
		}
	}
	return ""
}

// file is where a path of the layout lies in a directory.
func (s *source) file(rel string) string { return filepath.Join(s.dir, filepath.FromSlash(rel)) }

// show names a path for people, without a password that the address may hold.
func (s *source) show(rel string) string {
	if s.dir != "" {
		return s.file(rel)
	}
	return s.base.JoinPath(rel).Redacted()
}

// list answers a directory's listing: names in a text, in whatever form the server writes it.
func (s *source) list(ctx context.Context, dir string) (string, error) {
	if s.dir == "" {
		data, err := s.small(ctx, dir)
		return string(data), err
	}
	entries, err := os.ReadDir(s.file(dir))
	if err != nil {
		return "", &FetchError{Wheels: []string{s.show(dir)}, Kind: FetchAbsent, Err: err}
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, "\n"), nil
}

func (s *source) index(ctx context.Context, dir string, r release) (map[string]indexEntry, error) {
	rel := dir + indexFile(r)
	var data []byte
	var err error
	if s.dir != "" {
		data, err = os.ReadFile(s.file(rel))
		if err != nil {
			err = &FetchError{Wheels: []string{s.show(rel)}, Kind: FetchAbsent, Err: err}
		}
	} else {
		data, err = s.small(ctx, rel)
	}
	if err != nil {
		return nil, err
	}
	index, err := parseIndex(data)
	if err != nil {
		return nil, &IndexError{s.show(rel), err.Error()}
	}
	return index, nil
}

// small fetches a file that is read whole.
func (s *source) small(ctx context.Context, rel string) ([]byte, error) {
	var data []byte
	err := s.again(ctx, rel, func() (bool, error) {
		resp, done, err := s.get(ctx, rel, nil)
		if err != nil {
			return false, err
		}
		defer done()
		if resp.StatusCode != http.StatusOK {
			return false, &statusError{resp.StatusCode, resp.Status}
		}
		data, err = io.ReadAll(io.LimitReader(resp.Body, maxIndex+1))
		if err == nil && len(data) > maxIndex {
			return false, &statusError{0, "larger than an index is"}
		}
		return false, err
	})
	return data, err
}

// get starts a request whose body dies when nothing comes for a while; done ends it.
func (s *source) get(ctx context.Context, rel string, header map[string]string) (*http.Response, func(), error) {
	ctx, cancel := context.WithCancelCause(ctx)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.base.JoinPath(rel).String(), nil)
	if err != nil {
		cancel(nil)
		return nil, nil, err
	}
	req.Header.Set("User-Agent", "gpubuild")
	for k, v := range header {
		req.Header.Set(k, v)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		cancel(nil)
		return nil, nil, err
	}
	watchdog := time.AfterFunc(s.stall, func() { cancel(fmt.Errorf("nothing came for %s", s.stall)) })
	resp.Body = &watched{resp.Body, watchdog, s.stall, ctx}
	return resp, func() { watchdog.Stop(); _ = resp.Body.Close(); cancel(nil) }, nil
}

type watched struct {
	io.ReadCloser
	watchdog *time.Timer
	stall    time.Duration
	ctx      context.Context
}

func (w *watched) Read(b []byte) (int, error) {
	n, err := w.ReadCloser.Read(b)
	if n > 0 {
		w.watchdog.Reset(w.stall)
	}
	if cause := context.Cause(w.ctx); err != nil && err != io.EOF && cause != nil {
		err = cause
	}
	return n, err
}

type statusError struct {
	code int
	text string
}

func (e *statusError) Error() string { return e.text }

// lasting says whether asking again is in vain.
func (e *statusError) lasting() bool {
	return e.code < 500 && e.code != http.StatusRequestTimeout && e.code != http.StatusTooManyRequests
}

// localError is one of our own disk's: asking the server again does not mend it.
type localError struct{ error }

func (e localError) Unwrap() error { return e.error }

// again repeats what fails for a reason that may pass. do says whether it made progress, and then the count begins anew.
func (s *source) again(ctx context.Context, rel string, do func() (bool, error)) error {
	for tries, wait := 1, s.pause; ; tries++ {
		progress, err := do()
		var status *statusError
		var local localError
		var wrong *HashError
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &local):
			return local.error
		case errors.As(err, &wrong):
			return err
		}
		if progress {
			tries, wait = 0, s.pause
		}
		if errors.As(err, &status) && status.lasting() || tries >= attempts || permanent(err) {
			return &FetchError{Wheels: []string{s.show(rel)}, Kind: kindOf(err), Err: err}
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
		wait *= 2
	}
}

// permanent are failures that a second attempt within seconds meets again.
func permanent(err error) bool {
	var dns *net.DNSError
	return errors.As(err, &dns) && dns.IsNotFound || errors.Is(err, syscall.ECONNREFUSED)
}

func kindOf(err error) FetchKind {
	var status *statusError
	var u *url.Error
	switch {
	case errors.As(err, &status) && (status.code == http.StatusNotFound || status.code == http.StatusGone):
		return FetchAbsent
	case errors.As(err, &status):
		return FetchOther
	case errors.As(err, &u), errors.Is(err, io.ErrUnexpectedEOF):
		return FetchNetwork
	}
	return FetchOther
}

// download fetches one archive into part, going on where an earlier run ended, and answers once its size and hash are the index's. The hash
// is taken while the bytes are written. What was fetched stays in part when it ends early.
func (s *source) download(ctx context.Context, w Wheel, part string, report func(int64)) error {
	tag := part + ".tag" // the server's word for that very file, so that two versions of it are never mixed
	resumed, whole := false, false
	var furthest int64 // of a server that knows no ranges and always breaks off, the same bytes come every time: that is no progress
	return s.again(ctx, w.Path, func() (progress bool, err error) {
		f, err := os.OpenFile(part, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return false, localError{err}
		}
		defer func() {
			if e := f.Close(); err == nil && e != nil {
				err = localError{e}
			}
		}()
		sum := sha256.New()
		had, err := io.Copy(sum, f)
		furthest = max(furthest, had)
		if err != nil {
			return false, localError{err}
		}
		validator, _ := os.ReadFile(tag)
		if had > w.Size || had > 0 && len(validator) == 0 {
			if had, err = restart(f, sum); err != nil {
				return false, err
			}
		}
		if had < w.Size {
			resumed = resumed || had > 0
			had, err = s.receive(ctx, w, f, sum, had, string(validator), tag, report)
			if progress = had > furthest; progress {
				furthest = had
			}
			if err != nil {
				return progress, err
			}
		}
		if got := hex.EncodeToString(sum.Sum(nil)); got != w.SHA256 {
			if _, err := restart(f, sum); err != nil {
				return false, err
			}
			if resumed && !whole { // one of the two halves was damaged: once more from the start
				whole, furthest = true, 0
				return true, fmt.Errorf("%s: sha256 is %s after going on with an earlier download", w.File, got)
			}
			return false, &HashError{File: s.show(w.Path), Want: w.SHA256, Got: got}
		}
		_ = os.Remove(tag) // only space
		return true, nil
	})
}

func restart(f *os.File, sum hash.Hash) (int64, error) {
	sum.Reset()
	if err := f.Truncate(0); err != nil {
		return 0, localError{err}
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return 0, localError{err}
	}
	return 0, nil
}

// receive writes what is missing of a file; it answers how much is there then.
func (s *source) receive(ctx context.Context, w Wheel, f *os.File, sum hash.Hash, had int64, validator, tag string, report func(int64)) (int64, error) {
	header := map[string]string{}
	if had > 0 {
		// RFC 9110, 13.1.5 and 14.2: the rest if the file is still the same one, else all of it with 200.
		header["Range"], header["If-Range"] = fmt.Sprintf("bytes=%d-", had), validator
	}
	resp, done, err := s.get(ctx, w.Path, header)
	if err != nil {
		return had, err
	}
	defer done()
	switch {
	case resp.StatusCode == http.StatusPartialContent && had > 0:
		var from, to, total int64
		if n, _ := fmt.Sscanf(resp.Header.Get("Content-Range"), "bytes %d-%d/%d", &from, &to, &total); n != 3 || from != had || total != w.Size {
			_, err := restart(f, sum)
			return 0, errors.Join(fmt.Errorf("%s: the server sends %q of %d bytes", w.File, resp.Header.Get("Content-Range"), w.Size), err)
		}
	case resp.StatusCode == http.StatusOK:
		if had, err = restart(f, sum); err != nil {
			return 0, err
		}
		if resp.ContentLength >= 0 && resp.ContentLength != w.Size {
			return 0, &statusError{0, fmt.Sprintf("%d bytes, the index says %d", resp.ContentLength, w.Size)}
		}
		if err := os.WriteFile(tag, []byte(fileTag(resp.Header)), 0o600); err != nil {
			return 0, localError{err}
		}
	case resp.StatusCode == http.StatusRequestedRangeNotSatisfiable:
		_, err := restart(f, sum)
		return 0, errors.Join(errors.New(resp.Status), err)
	default:
		return had, &statusError{resp.StatusCode, resp.Status}
	}
	buffer := make([]byte, bufferSize)
	for {
		n, err := resp.Body.Read(buffer)
		if had+int64(n) > w.Size {
			return had, &statusError{0, fmt.Sprintf("more than the %d bytes that the index says", w.Size)}
		}
		if n > 0 {
			if _, e := f.Write(buffer[:n]); e != nil {
				return had, localError{e}
			}
			sum.Write(buffer[:n])
			had += int64(n)
			report(had)
		}
		switch {
		case err == io.EOF && had < w.Size:
			return had, fmt.Errorf("%w after %d of %d bytes", io.ErrUnexpectedEOF, had, w.Size)
		case err == io.EOF:
			return had, nil
		case err != nil:
			return had, err
		}
	}
}

// fileTag is what If-Range takes: a strong ETag, else the time of the last change. Empty: going on is not possible.
func fileTag(h http.Header) string {
	if tag := h.Get("ETag"); tag != "" && !strings.HasPrefix(tag, "W/") {
		return tag
	}
	return h.Get("Last-Modified")
}

const partialPrefix = "partial-"

// getArchives hands over every archive that is not here yet, one after another: one connection fills most lines, and what is complete is kept.
func (p Plan) getArchives(ctx context.Context, say func(string), missing []Item, deliver func(string, Wheel)) error {
	for _, it := range missing {
		if p.source.dir != "" {
			return &FetchError{Wheels: []string{p.source.show(it.Path)}, Kind: FetchAbsent, Err: errors.New("the index names it, but no file of that name and size is there")}
		}
		part := filepath.Join(p.cacheDir, wheelsDir, partialPrefix+it.SHA256[:16])
		what := it.Wheel.String()
		say(fmt.Sprintf("fetching %s (%s)", what, size(it.Size)))
		last := time.Now()
		err := p.source.download(ctx, it.Wheel, part, func(n int64) {
			if now := time.Now(); now.Sub(last) > 3*time.Second {
				last = now
				say(fmt.Sprintf("fetching %s: %s of %s", what, size(n), size(it.Size)))
			}
		})
		var failed *FetchError
		if errors.As(err, &failed) {
			return &RedistError{Err: err}
		}
		if err != nil {
			return err
		}
		if err := os.Rename(part, p.kept(it.Wheel)); err != nil {
			return err
		}
		deliver(p.kept(it.Wheel), it.Wheel)
	}
	return nil
}
