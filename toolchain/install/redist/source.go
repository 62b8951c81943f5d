// Package redist takes archives from NVIDIA's redistributables, or from a mirror with the same layout: it reads the index of a release
// and fetches archives with resume, retries and a hash check. It never picks a version and never unpacks.
package redist

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/net/http/httpproxy"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
)

// Home is where NVIDIA keeps its redistributables: <home>/cuda/redist/redistrib_<release>.json names the archives of a release by paths
// from its own directory, <home>/cudnn/redist/ likewise. A mirror, or a directory without network, has the same layout.
const Home = "https://developer.download.nvidia.com/compute"

// maxIndex is more than any index or listing has.
const maxIndex = 32 << 20

// Source is where the index and the archives come from: a server, or a directory with the same layout.
type Source struct {
	dir    string   // not empty: a directory
	base   *url.URL // ends in a slash
	client *http.Client
	pause  time.Duration // before the first retry
	stall  time.Duration // how long a server may send nothing before the connection counts as dead
}

// Open takes a URL or a directory, and the proxy variables from the host's environment in the forms that curl and pip know.
func Open(h buildenv.Host, base string) (*Source, error) {
	if !strings.Contains(base, "://") {
		dir := h.Abs(base)
		if !h.IsDir(h.Join(dir, "cuda", "redist")) {
			return nil, badPlace(base, "no directory cuda/redist is there")
		}
		return &Source{dir: dir}, nil
	}
	u, err := url.Parse(strings.TrimSuffix(base, "/") + "/")
	switch {
	case err != nil:
		return nil, badPlace(base, err.Error())
	case u.Scheme == "file":
		return Open(h, filepath.FromSlash(strings.TrimSuffix(u.Path, "/")))
	case u.Scheme != "https" && u.Scheme != "http" || u.Host == "":
		return nil, badPlace(base, "not an address of https or http")
	}
	return &Source{base: u, client: newClient(h.Env), pause: time.Second, stall: time.Minute}, nil
}

// badPlace says that the place which a user named is not one to read from.
func badPlace(base, problem string) error {
	return exit.Errorf(exit.Usage, "name a URL or a directory that holds cuda/redist/redistrib_*.json, such as "+Home,
		"%.200q: %s", base, problem)
}

func newClient(env buildenv.Env) *http.Client {
	either := func(a, b string) string { return cmp.Or(env.Get(a), env.Get(b)) }
	proxy := (&httpproxy.Config{HTTPProxy: either("http_proxy", "HTTP_PROXY"), HTTPSProxy: either("https_proxy", "HTTPS_PROXY"),
		NoProxy: either("no_proxy", "NO_PROXY")}).ProxyFunc()
	return &http.Client{
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
}

// File is where a path of the layout is in a directory; empty: the source is a server.
func (s *Source) File(rel string) string {
	if s.dir == "" {
		return ""
	}
	return filepath.Join(s.dir, filepath.FromSlash(rel))
}

// Show names a path for people, without a password that the address may contain.
func (s *Source) Show(rel string) string {
	if s.dir != "" {
		return s.File(rel)
	}
	return s.base.JoinPath(rel).Redacted()
}

// list returns a directory's listing: a text with the names in it, in whatever form the server writes it.
func (s *Source) list(ctx context.Context, dir string) (string, error) {
	if s.dir == "" {
		data, err := s.Read(ctx, dir)
		return string(data), err
	}
	entries, err := os.ReadDir(s.File(dir))
	if err != nil {
		return "", &FetchError{Address: s.Show(dir), Err: err}
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, "\n"), nil
}

// Read returns a small file.
func (s *Source) Read(ctx context.Context, rel string) (data []byte, err error) {
	if s.dir != "" {
		if data, err = os.ReadFile(s.File(rel)); err != nil {
			err = &FetchError{Address: s.Show(rel), Err: err}
		}
		return data, err
	}
	err = s.retry(ctx, rel, func() (bool, error) {
		resp, done, err := s.get(ctx, rel, 0)
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

// get starts a request for a file from a byte on. The body fails if nothing comes for a while; done ends the request.
func (s *Source) get(ctx context.Context, rel string, from int64) (*http.Response, func(), error) {
	ctx, cancel := context.WithCancelCause(ctx)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.base.JoinPath(rel).String(), nil)
	if err != nil {
		cancel(nil)
		return nil, nil, err
	}
	req.Header.Set("User-Agent", "gpubuild")
	if from > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", from))
	}
	resp, err := s.client.Do(req)
	if err != nil {
		cancel(nil)
		return nil, nil, err
	}
	watchdog := time.AfterFunc(s.stall, func() { cancel(fmt.Errorf("nothing came for %s", s.stall)) })
	resp.Body = &watchedBody{resp.Body, watchdog, s.stall, func() error { return context.Cause(ctx) }}
	return resp, func() { watchdog.Stop(); _ = resp.Body.Close(); cancel(nil) }, nil
}

// watchedBody restarts the watchdog whenever bytes come, and reports why the request was cancelled.
type watchedBody struct {
	io.ReadCloser
	watchdog *time.Timer
	stall    time.Duration
	cause    func() error
}

func (w *watchedBody) Read(b []byte) (int, error) {
	n, err := w.ReadCloser.Read(b)
	if n > 0 {
		w.watchdog.Reset(w.stall)
	}
	if cause := w.cause(); err != nil && err != io.EOF && cause != nil {
		err = cause
	}
	return n, err
}

// IndexError says that NVIDIA's index, or a mirror's, has something that cannot be used.
type IndexError struct{ Index, Problem string }

func (e *IndexError) Error() string { return e.Index + ": " + e.Problem }

func (e *IndexError) Hint() string {
	return "name another release (gpubuild toolchain install 12.8), or another place with --redist or GPUBUILD_REDIST"
}

// FetchError says that an index or an archive could not be fetched.
type FetchError struct {
	Address string
	Offline bool // it is the network's fault
	Err     error
}

func (e *FetchError) Error() string {
	if e.Offline {
		return fmt.Sprintf("fetch %s: no network: %v", e.Address, e.Err)
	}
	return fmt.Sprintf("fetch %s: %v", e.Address, e.Err)
}

func (e *FetchError) Unwrap() error { return e.Err }

func (e *FetchError) Hint() string {
	if e.Offline {
		return "check the network and HTTPS_PROXY, or name a mirror or a directory with the layout of " + Home +
			" by --redist or GPUBUILD_REDIST; what was fetched is kept"
	}
	return "run the same command again, what was fetched is kept; or name another place by --redist or GPUBUILD_REDIST"
}
