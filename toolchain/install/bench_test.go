package install

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest/need"
	"gpubuild/buildenv/local"
	"gpubuild/buildenv/proc"
	"gpubuild/gpu"
)

// line is a network line that all connections of a server share.
type line struct {
	bytesPerSecond float64
	mu             sync.Mutex
	free           time.Time // when the bytes that were sent up to now have left
}

// send waits until n bytes have gone over the line.
func (l *line) send(n int) {
	const buffer = 50 * time.Millisecond // what a router holds, so that a sleep that lasts too long costs nothing
	l.mu.Lock()
	if begin := time.Now().Add(-buffer); l.free.Before(begin) {
		l.free = begin
	}
	l.free = l.free.Add(time.Duration(float64(n) / l.bytesPerSecond * float64(time.Second)))
	until := l.free
	l.mu.Unlock()
	time.Sleep(time.Until(until))
}

type slowConn struct {
	net.Conn
	line *line
}

func (c slowConn) Write(b []byte) (n int, err error) {
	const packet = 16 << 10
	for len(b) > 0 && err == nil {
		k := min(len(b), packet)
		c.line.send(k)
		k, err = c.Conn.Write(b[:k])
		n, b = n+k, b[k:]
	}
	return n, err
}

type slowListener struct {
	net.Listener
	line *line
}

func (l slowListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return slowConn{c, l.line}, err
}

// packageIndex serves the wheels of a folder as a package index does (PEP 503), over a line of so many Mbit/s; 0: as fast as it goes.
// The files bear the headers of pypi.org's, so that pip's own cache does with them what it does there.
func packageIndex(b *testing.B, folder string, items []Item, mbit float64) string {
	b.Helper()
	mux := http.NewServeMux()
	for _, it := range items {
		mux.HandleFunc("/simple/"+it.Package+"/", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprintf(w, "<!DOCTYPE html><html><body><a href=\"/files/%s#sha256=%s\">%s</a></body></html>", it.File, it.SHA256, it.File)
		})
	}
	files := http.StripPrefix("/files/", http.FileServer(http.Dir(folder)))
	mux.HandleFunc("/files/", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=365000000, immutable, public")
		w.Header().Set("Content-Type", "application/octet-stream")
		files.ServeHTTP(w, r)
	})
	s := httptest.NewUnstartedServer(mux)
	if mbit > 0 {
		s.Listener = slowListener{s.Listener, &line{bytesPerSecond: mbit * 1e6 / 8}}
	}
	s.Start()
	b.Cleanup(s.Close)
	return s.URL + "/simple/"
}

// wheelFolder is where the plan's wheels are, after a download if the user allows one.
func wheelFolder(b *testing.B, h buildenv.Host, p Plan) string {
	b.Helper()
	if folder := need.Given("wheels"); folder != "" { // other files in it do no harm
		for _, it := range p.Items {
			if err := it.Check(filepath.Join(folder, it.File)); err != nil {
				b.Fatalf("%s: %v", folder, err)
			}
		}
		return folder
	}
	need.Asked(b, "network")
	folder := b.TempDir()
	pipDownload(b, h, p, folder)
	return folder
}

// pipDownload is what a user types who wants those very wheels.
func pipDownload(b *testing.B, h buildenv.Host, p Plan, to string) {
	b.Helper()
	python := need.Tool(b, "python")
	args := []string{"-m", "pip", "download", "--quiet", "--progress-bar", "off", "--no-deps", "--only-binary=:all:", "--dest", to}
	for _, it := range p.Items {
		args = append(args, it.Package+"=="+it.Version)
	}
	if r, err := (proc.Runner{}).Run(context.Background(), buildenv.Cmd{Path: python, Args: args, Dir: to, Env: h.Env.Entries()}); err != nil {
		b.Fatalf("%v: %s", err, r.Stderr)
	}
}

// BenchmarkInstall compares the installation of CUDA 13.4 with `pip download` of the same wheels, from the same index and with nothing
// cached, in turn. install/pip is the median over the rounds: say -benchtime 5x.
func BenchmarkInstall(b *testing.B) {
	h, err := local.Host()
	if err != nil {
		b.Fatal(err)
	}
	c, err := DefaultCatalog()
	if err != nil {
		b.Fatal(err)
	}
	want := Want{Exact: gpu.Version{Major: 13, Minor: 4}}
	p, err := MakePlan(c, h, b.TempDir(), want)
	if err != nil {
		b.Fatal(err)
	}
	folder := wheelFolder(b, h, p)
	var own []string // the user's own index would answer first
	for _, e := range h.Env.Entries() {
		if name, _, _ := strings.Cut(e, "="); !strings.HasPrefix(strings.ToUpper(name), "PIP_") && !strings.HasSuffix(strings.ToUpper(name), "_PROXY") {
			own = append(own, e)
		}
	}
	for _, speed := range []struct {
		name string
		mbit float64
	}{{"100Mbit", 100}, {"1Gbit", 1000}, {"local", 0}} {
		b.Run(speed.name, func(b *testing.B) {
			index := packageIndex(b, folder, p.Items, speed.mbit)
			var ratios, installs, pips []float64
			for range b.N {
				dir := b.TempDir()
				alone := func(name string) buildenv.Host {
					h := h
					h.Env = buildenv.NewEnv(h.OS, append(append([]string{}, own...), "PIP_INDEX_URL="+index, "PIP_CONFIG_FILE="+os.DevNull, "PIP_CACHE_DIR="+filepath.Join(dir, name)))
					return h
				}
				began := time.Now()
				pipDownload(b, alone("pip-cache-1"), p, b.TempDir())
				pip := time.Since(began).Seconds()

				began = time.Now()
				h := alone("pip-cache-2")
				p, err := MakePlan(c, h, filepath.Join(dir, "cache"), want)
				if err == nil {
					err = p.FindPip(context.Background(), proc.Runner{})
				}
				if err == nil {
					_, err = p.Run(context.Background(), proc.Runner{}, nil)
				}
				if err != nil {
					b.Fatal(err)
				}
				took := time.Since(began).Seconds()
				ratios, installs, pips = append(ratios, took/pip), append(installs, took), append(pips, pip)
				if err := os.RemoveAll(dir); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(median(ratios), "install/pip")
			b.ReportMetric(median(installs), "install-s")
			b.ReportMetric(median(pips), "pip-s")
		})
	}
}

func median(all []float64) float64 {
	sort.Float64s(all)
	return all[len(all)/2]
}
