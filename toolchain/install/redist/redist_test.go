package redist

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest"
	"gpubuild/toolchain/install/tree"
)

// diskFiles are the real files.
type diskFiles struct{}

func (diskFiles) Stat(p string) (fs.FileInfo, error)      { return os.Stat(p) }
func (diskFiles) ReadDir(p string) ([]fs.DirEntry, error) { return os.ReadDir(p) }
func (diskFiles) Open(p string) (fs.File, error)          { return os.Open(p) }
func (diskFiles) EvalSymlinks(p string) (string, error)   { return filepath.EvalSymlinks(p) }

func host(entries ...string) buildenv.Host {
	return buildenv.Host{OS: buildenv.Linux, Arch: "amd64", Files: diskFiles{}, Env: buildenv.NewEnv(buildenv.Linux, entries)}
}

const archivePath = "cuda/redist/cuda_cudart/linux-x86_64/cuda_cudart-linux-x86_64-12.4.19-archive.tar.xz"

// pinned describes bytes as an index does.
func pinned(data []byte) tree.Archive {
	sum := sha256.Sum256(data)
	return tree.Archive{Package: "cuda_cudart", Version: "12.4.19", File: "cudart.tar.xz", Path: archivePath, Size: int64(len(data)), SHA256: hex.EncodeToString(sum[:])}
}

// serve answers requests for the archive and opens the server without patience.
func serve(t testing.TB, handler http.HandlerFunc) *Source {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	s := hosttest.Must(Open(host(), server.URL))(t)
	s.pause, s.stall = time.Millisecond, 500*time.Millisecond
	return s
}

func silent(tree.Event) {}

// noise are bytes of which no two stretches are alike.
func noise(n int) []byte {
	data := make([]byte, n)
	for i, x := 0, uint32(1); i < n; i++ {
		x = x*1664525 + 1013904223
		data[i] = byte(x >> 24)
	}
	return data
}

// A server that misbehaves is asked again where that helps, and otherwise the error says what was wrong.
func TestServersThatMisbehave(t *testing.T) {
	type answer func(n int, w http.ResponseWriter, r *http.Request, data []byte) bool // to the n-th request
	status := func(code, times int) answer {
		return func(n int, w http.ResponseWriter, _ *http.Request, _ []byte) bool {
			if n <= times {
				w.WriteHeader(code)
			}
			return n <= times
		}
	}
	redirect := func(times int) answer {
		return func(n int, w http.ResponseWriter, r *http.Request, _ []byte) bool {
			w.Header().Set("Location", "?again")
			return status(302, times)(n, w, r, nil)
		}
	}
	send := func(w http.ResponseWriter, length int, data []byte) bool {
		if length > 0 {
			w.Header().Set("Content-Length", fmt.Sprint(length))
		}
		_, _ = w.Write(data)
		_ = http.NewResponseController(w).Flush()
		return true
	}
	longer := func(d []byte) []byte { return append(bytes.Clone(d), "padding"...) }
	for name, tt := range map[string]struct {
		answer  answer
		says    string // "": it is fetched
		offline bool
		asked   int
	}{
		"busy":              {status(503, 3), "", false, 4},
		"too many requests": {status(429, 1), "", false, 2},
		"always broken":     {status(500, 99), "500 Internal Server Error", false, attempts},
		"not there":         {status(404, 99), "404 Not Found", false, 1},
		"not for you":       {status(403, 99), "403 Forbidden", false, 1},
		"elsewhere":         {redirect(1), "", false, 2},
		"in circles":        {redirect(99), "more than 5 redirections", true, 5 * attempts},
		"says that it is longer": {func(_ int, w http.ResponseWriter, _ *http.Request, d []byte) bool {
			return send(w, len(d)+7, longer(d))
		}, "bytes, the index says", false, 1},
		"says that it is shorter": {func(_ int, w http.ResponseWriter, _ *http.Request, d []byte) bool {
			return send(w, len(d)-7, d[:len(d)-7])
		}, "bytes, the index says", false, 1},
		"says nothing, is longer": {func(_ int, w http.ResponseWriter, _ *http.Request, d []byte) bool {
			return send(w, 0, longer(d))
		}, "more than the", false, 1},
		"says nothing, is shorter": {func(n int, w http.ResponseWriter, _ *http.Request, d []byte) bool {
			return send(w, 0, d[:len(d)/2])
		}, "unexpected EOF after", true, 1 + attempts},
		"falls silent": {func(_ int, w http.ResponseWriter, r *http.Request, d []byte) bool {
			send(w, len(d), nil)
			<-r.Context().Done()
			return true
		}, "nothing came for", false, attempts},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data := noise(5000)
			var asked atomic.Int32
			s := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if !tt.answer(int(asked.Add(1)), w, r, data) {
					_, _ = w.Write(data)
				}
			})
			dir := t.TempDir()
			err := s.Download(context.Background(), pinned(data), dir, silent)
			var failed *FetchError
			if tt.says == "" {
				if got, e := os.ReadFile(filepath.Join(dir, "cudart.tar.xz")); err != nil || e != nil || !bytes.Equal(got, data) {
					t.Error(err, e)
				}
			} else if !errors.As(err, &failed) || failed.Offline != tt.offline || !strings.Contains(err.Error(), tt.says) || !strings.Contains(failed.Hint(), "GPUBUILD_REDIST") {
				t.Errorf("got %v (%+v), want %q", err, failed, tt.says)
			}
			if int(asked.Load()) != tt.asked {
				t.Errorf("asked %d times, want %d", asked.Load(), tt.asked)
			}
		})
	}
}

// The connection breaks in the middle, and the rest is requested. A file that does not have the hash in the end is not taken.
func TestDownloadContinues(t *testing.T) {
	for name, tt := range map[string]struct {
		cuts     int  // connections that break after 100 kB
		ranges   bool // the server knows them
		damaged  bool // the first piece
		replaced bool // by a file of another size after the first piece
		fails    string
	}{
		"cut three times":            {cuts: 3, ranges: true},
		"the server knows no ranges": {cuts: 1},
		"the first half was damaged": {cuts: 1, ranges: true, damaged: true},
		"replaced meanwhile":         {cuts: 1, ranges: true, replaced: true, fails: "the index says"},
		"it always breaks":           {cuts: 1 << 30, fails: "no network: unexpected EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			whole := noise(450_000)
			var mu sync.Mutex
			var asked []string
			s := serve(t, func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				asked = append(asked, r.Header.Get("Range"))
				if !tt.ranges {
					r.Header.Del("Range")
				}
				if len(asked) > tt.cuts {
					data := whole
					if tt.replaced {
						data = append([]byte("other"), whole...)
					}
					http.ServeContent(w, r, "a.tar.xz", time.Time{}, bytes.NewReader(data))
					return
				}
				from := 0
				if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from); err == nil {
					w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(whole)-1, len(whole)))
				}
				w.Header().Set("Content-Length", fmt.Sprint(len(whole)-from))
				if from > 0 {
					w.WriteHeader(http.StatusPartialContent)
				}
				piece := bytes.Clone(whole[from:min(from+100_000, len(whole))])
				if tt.damaged {
					piece[7] ^= 1
				}
				_, _ = w.Write(piece)
				_ = http.NewResponseController(w).Flush()
				panic(http.ErrAbortHandler)
			})
			dir := t.TempDir()
			err := s.Download(context.Background(), pinned(whole), dir, silent)
			got, e := os.ReadFile(filepath.Join(dir, "cudart.tar.xz"))
			switch {
			case tt.fails != "":
				if err == nil || !strings.Contains(err.Error(), tt.fails) || e == nil {
					t.Errorf("got %v, want %q", err, tt.fails)
				}
			case err != nil || e != nil || !bytes.Equal(got, whole):
				t.Errorf("%v, %v, %d bytes", err, e, len(got))
			case tt.ranges && !tt.damaged && (len(asked) != tt.cuts+1 || asked[1] != "bytes=100000-"):
				t.Errorf("asked for %q", asked)
			}
		})
	}
}

func TestWrongHash(t *testing.T) {
	data := noise(5000)
	a := pinned(data)
	data[100] ^= 1
	dir := t.TempDir()
	s := serve(t, func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write(data) })
	var wrong *tree.HashError
	if err := s.Download(context.Background(), a, dir, silent); !errors.As(err, &wrong) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, a.File)); err == nil {
		t.Error("it was taken")
	}
}

func TestProxy(t *testing.T) {
	var seen atomic.Int32
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host == "mirror.example" {
			seen.Add(1)
		}
		_, _ = w.Write([]byte("redistrib_12.4.1.json redistrib_11.8.0.json redistrib_12.10.0.json redistrib_12.4.1.json"))
	}))
	defer proxy.Close()
	s := hosttest.Must(Open(host("http_proxy="+proxy.URL), "http://mirror.example/"))(t)
	releases, err := s.Releases(context.Background())
	if err != nil || fmt.Sprint(releases) != "[12.10.0 12.4.1]" || seen.Load() != 1 {
		t.Errorf("%v, %v, %d requests", releases, err, seen.Load())
	}
	s = hosttest.Must(Open(host("http_proxy="+proxy.URL, "no_proxy=mirror.example"), "http://mirror.example/"))(t)
	s.pause = time.Millisecond
	if _, err := s.Releases(context.Background()); err == nil || seen.Load() != 1 {
		t.Error("no_proxy was ignored")
	}
}

func TestNoFallBackToPlainHTTP(t *testing.T) {
	secure := httptest.NewTLSServer(http.RedirectHandler("http://plain.example/cuda/redist/", http.StatusFound))
	defer secure.Close()
	s := hosttest.Must(Open(host(), secure.URL))(t)
	s.client.Transport = secure.Client().Transport
	s.pause = time.Millisecond
	if _, err := s.Releases(context.Background()); err == nil || !strings.Contains(err.Error(), "not encrypted") {
		t.Errorf("got %v", err)
	}
	u, _ := url.Parse("https://me:secret@mirror.example/x/")
	if text := (&Source{base: u}).Show("cuda"); strings.Contains(text, "secret") {
		t.Error(text)
	}
}

func FuzzIndex(f *testing.F) {
	f.Add([]byte(`{"release_label":"12.9.1","cuda_nvcc":{"version":"1","linux-x86_64":{"relative_path":"a/b.tar.xz","sha256":"x","size":"1"}}}`))
	f.Add([]byte(`{"cudnn":{"version":"9","linux-x86_64":{"cuda12":{"relative_path":"../x.zip"}}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		components, err := parseIndex(data)
		if err != nil {
			return
		}
		for _, c := range components {
			for _, entry := range c.archives {
				a, err := entry.checked("cuda_nvcc", c.version)
				if err == nil && (!fs.ValidPath(entry.Path) || a.Size <= 0) {
					t.Errorf("%+v from %q", a, entry.Path)
				}
			}
		}
	})
}

// TestLasting: a download is tried again where a second attempt within seconds may succeed, and nowhere else.
func TestLasting(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{&statusError{code: http.StatusNotFound}, true},
		{fmt.Errorf("a: %w", &statusError{code: http.StatusForbidden}), true},
		{&statusError{code: http.StatusRequestTimeout}, false},
		{&statusError{code: http.StatusTooManyRequests}, false},
		{&statusError{code: http.StatusBadGateway}, false},
		{&statusError{code: http.StatusInternalServerError}, false},
		{&net.DNSError{IsNotFound: true}, true},
		{&net.DNSError{IsTimeout: true}, false},
		{syscall.ECONNREFUSED, true},
		{syscall.ECONNRESET, false},
		{errors.New("cut"), false},
	} {
		hosttest.Equal(t, lasting(tt.err), tt.want, tt.err)
	}
}
