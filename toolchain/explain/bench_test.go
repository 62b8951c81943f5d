package explain

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"gpubuild/buildenv/hosttest/need"
)

// bigLog is a log of the size that is measured, made of the good logs, with failures near its end.
func bigLog(b *testing.B, size int) []byte {
	b.Helper()
	var all []byte
	files, err := filepath.Glob(filepath.Join("..", "..", "testdata", "logs", "good", "*.log"))
	if err != nil || len(files) == 0 {
		b.Fatal(len(files), err)
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			b.Fatal(err)
		}
		all = append(all, data...)
	}
	out := make([]byte, 0, size+len(all))
	for n := 0; len(out) < size; n++ {
		out = fmt.Appendf(out, "round %d\n", n)
		out = append(out, all...)
	}
	return append(out, "nvcc fatal   : Unsupported gpu architecture 'compute_120'\n"...)
}

func BenchmarkExplain100MB(b *testing.B) {
	rs := table(b)
	log := bigLog(b, 100<<20)
	b.SetBytes(int64(len(log)))
	b.ResetTimer()
	for range b.N {
		a, err := Read(rs, onlyReader{bytes.NewReader(log)})
		if err != nil || len(a.Found) != 1 {
			b.Fatal(err, ids(a))
		}
	}
}

type onlyReader struct{ io.Reader }

// BenchmarkGrep100MB is what explain is measured against: the same log, the same literal texts, read from a file.
func BenchmarkGrep100MB(b *testing.B) {
	grep := need.Program(b, "sh", "grep")
	rs := table(b)
	dir := b.TempDir()
	log, words := filepath.Join(dir, "log"), filepath.Join(dir, "words")
	data := bigLog(b, 100<<20)
	if err := os.WriteFile(log, data, 0o600); err != nil {
		b.Fatal(err)
	}
	var list []byte
	for _, r := range rs.All {
		for _, l := range r.On {
			list = append(append(list, l...), '\n')
		}
	}
	if err := os.WriteFile(words, list, 0o600); err != nil {
		b.Fatal(err)
	}
	for _, locale := range []string{"C", "C.UTF-8"} {
		b.Run(locale, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			for range b.N {
				c := exec.Command(grep, "-c", "-F", "-f", words, log)
				c.Env = append(os.Environ(), "LC_ALL="+locale)
				if out, err := c.CombinedOutput(); err != nil {
					b.Fatal(err, string(out))
				}
			}
		})
	}
}

// BenchmarkExplainFile is the same from a file, as `gpubuild explain FILE` reads it, with the rules' making.
func BenchmarkExplainFile100MB(b *testing.B) {
	log := filepath.Join(b.TempDir(), "log")
	if err := os.WriteFile(log, bigLog(b, 100<<20), 0o600); err != nil {
		b.Fatal(err)
	}
	for range b.N {
		start := time.Now()
		rs := table(b)
		b.ReportMetric(float64(time.Since(start).Microseconds()), "µs-rules")
		f, err := os.Open(log)
		if err != nil {
			b.Fatal(err)
		}
		_, err = Read(rs, f)
		if err := f.Close(); err != nil {
			b.Fatal(err)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}
