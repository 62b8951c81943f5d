package install

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A server that misbehaves in the archive of one component: it is asked again where that helps, and else the words say what was wrong.
func TestRedistServersThatMisbehave(t *testing.T) {
	linuxOnly(t)
	type answer func(n int, w http.ResponseWriter, r *http.Request, data []byte) bool // to the n-th request for it
	status := func(code, times int) answer {
		return func(n int, w http.ResponseWriter, _ *http.Request, _ []byte) bool {
			if n <= times {
				w.WriteHeader(code)
			}
			return n <= times
		}
	}
	part := func(w http.ResponseWriter, length int, data []byte) {
		if length > 0 {
			w.Header().Set("Content-Length", fmt.Sprint(length))
		}
		_, _ = w.Write(data)
		_ = http.NewResponseController(w).Flush()
	}
	tests := map[string]struct {
		answer answer
		says   string // "": it is installed
		kind   FetchKind
		asked  int
	}{
		"busy":              {status(503, 3), "", "", 4},
		"too many requests": {status(429, 1), "", "", 2},
		"always broken":     {status(500, 99), "500 Internal Server Error", FetchOther, attempts},
		"not there":         {status(404, 99), "404 Not Found", FetchAbsent, 1},
		"not for you":       {status(403, 99), "403 Forbidden", FetchOther, 1},
		"elsewhere": {func(n int, w http.ResponseWriter, r *http.Request, _ []byte) bool {
			w.Header().Set("Location", "?again")
			return status(302, 1)(n, w, r, nil)
		}, "", "", 2},
		"in circles": {func(n int, w http.ResponseWriter, r *http.Request, _ []byte) bool {
			w.Header().Set("Location", "?again")
			return status(302, 99)(n, w, r, nil)
		}, "more than 5 redirections", FetchNetwork, 5 * attempts},
		"says that it is longer": {func(_ int, w http.ResponseWriter, r *http.Request, d []byte) bool {
			part(w, len(d)+7, append(d, "padding"...))
			return true
		}, "bytes, the index says", FetchOther, 1},
		"says that it is shorter": {func(_ int, w http.ResponseWriter, r *http.Request, d []byte) bool {
			part(w, len(d)-7, d[:len(d)-7])
			return true
		}, "bytes, the index says", FetchOther, 1},
		"says nothing, is longer": {func(_ int, w http.ResponseWriter, r *http.Request, d []byte) bool {
			part(w, 0, append(d, "padding"...))
			return true
		}, "more than the", FetchOther, 1},
		"says nothing, is shorter": {func(n int, w http.ResponseWriter, _ *http.Request, d []byte) bool {
			part(w, 0, d[:len(d)/2])
			return n < 99
		}, "unexpected EOF after", FetchNetwork, 1 + attempts},
		"falls silent": {func(_ int, w http.ResponseWriter, r *http.Request, d []byte) bool {
			part(w, len(d), nil)
			<-r.Context().Done()
			return true
		}, "nothing came for", FetchOther, attempts},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := newShop(t)
			s.release("12.4.1")
			var asked atomic.Int32
			server := s.serve(func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.Contains(r.URL.Path, "cuda_cudart-linux") {
					return false
				}
				data, err := os.ReadFile(filepath.Join(s.dir, filepath.FromSlash(r.URL.Path)))
				if err != nil {
					t.Error(err)
				}
				return tt.answer(int(asked.Add(1)), w, r, data)
			})
			home, h := t.TempDir(), testHost(t)
			p, err := redistPlanFor(t, h, home, Want{}, server.URL)
			if err != nil {
				t.Fatal(err)
			}
			p.source.stall = 100 * time.Millisecond
			_, err = p.Run(context.Background(), &fakeWorld{}, nil)
			var failed *FetchError
			var hint interface{ Hint() string }
			switch {
			case tt.says == "":
				if err != nil || len(Installed(h, home)) != 1 {
					t.Error(err)
				}
			case !errors.As(err, &failed) || failed.Kind != tt.kind || !strings.Contains(err.Error(), tt.says) || !errors.As(err, &hint) || !strings.Contains(hint.Hint(), "GPUBUILD_REDIST"):
				t.Errorf("got %v (%+v), want %q", err, failed, tt.says)
			case len(Installed(h, home)) > 0 || len(leftovers(t, home)) > 0:
				t.Errorf("installed %v, left %v", Installed(h, home), leftovers(t, home))
			}
			if int(asked.Load()) != tt.asked {
				t.Errorf("asked %d times, want %d", asked.Load(), tt.asked)
			}
		})
	}
}
