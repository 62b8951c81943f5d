//go:build !amd64

package fatbin

func find(data []byte, base int64, hits []hit) []hit { return findByPasses(data, base, hits) }
