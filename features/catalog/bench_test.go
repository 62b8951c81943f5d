package catalog

import (
	"testing"
)

func BenchmarkParseCatalog(b *testing.B) {
	for i := 0; i < b.N; i++ {
		if _, err := parseCatalog(catalogText); err != nil {
			b.Fatal(err)
		}
	}
}
