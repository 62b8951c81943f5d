package graph

import (
	"os"
	"testing"
)

func BenchmarkParseGraph(b *testing.B) {
	for i := 0; i < b.N; i++ {
		f, err := os.Open("../testdata/graphs/real_candle-matmul_cudnn.json")
		if err != nil {
			b.Fatal(err)
		}
		if _, err := Parse(f); err != nil {
			b.Fatal(err)
		}
		f.Close()
	}
}
