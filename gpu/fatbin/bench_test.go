package fatbin

import (
	"bytes"
	"math/rand/v2"
	"os"
	"testing"
)

// BenchmarkScan goes over bytes that hold next to nothing: those of this test program, over and over, or evenly mixed ones.
func BenchmarkScan(b *testing.B) {
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	code, err := os.ReadFile(self)
	if err != nil {
		b.Fatal(err)
	}
	code = bytes.Repeat(code, max(1, 64<<20/len(code)))
	mixed := make([]byte, 64<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(mixed)
	for _, bb := range []struct {
		name    string
		data    []byte
		options []Option
	}{{"code", code, nil}, {"code+sha256", code, []Option{WithHash()}}, {"mixed", mixed, nil}} {
		b.Run(bb.name, func(b *testing.B) {
			b.SetBytes(int64(len(bb.data)))
			for range b.N {
				scan(b, bb.data, bb.options...)
			}
		})
	}
}

// BenchmarkBinary scans the file that BINARY names: BINARY=/x/target/release/candle-matmul go test -bench Binary ./gpu/fatbin
func BenchmarkBinary(b *testing.B) {
	path := os.Getenv("BINARY")
	if path == "" {
		b.Skip("BINARY names no file")
	}
	f, err := os.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		b.Fatal(err)
	}
	for _, bb := range []struct {
		name    string
		options []Option
	}{{"plain", nil}, {"sha256", []Option{WithHash()}}} {
		b.Run(bb.name, func(b *testing.B) {
			b.SetBytes(fi.Size())
			var r *Report
			for range b.N {
				if r, err = Scan(f, fi.Size(), bb.options...); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(r.Images)), "images")
		})
	}
}
