package verify

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gpubuild/gpu/probe"
)

// overhead runs a program bare and under the probe in turn, and answers the median of what measure makes of each run.
func overhead(b *testing.B, l *lab, program string, args []string, measure func(out string, took time.Duration) float64) (bare, probed float64) {
	b.Helper()
	env := l.host.Env.Set("LD_LIBRARY_PATH", filepath.Join(l.dir, "lib"))
	var each [2][]float64
	for range max(b.N, 5) {
		for way := range each {
			e, dir := env, b.TempDir()
			if way == 1 {
				e = e.Set(probe.InjectionVariable, l.probe.Library).Set(probe.DirVariable, dir).Set(probe.CUPTIVariable, l.cupti)
			}
			c := exec.Command(program, args...)
			c.Env = e.Entries()
			began := time.Now()
			out, err := c.Output()
			if err != nil {
				b.Fatalf("%s: %v: %s", program, err, out)
			}
			each[way] = append(each[way], measure(string(out), time.Since(began)))
			records, err := probe.ReadDir(dir)
			if err != nil {
				b.Fatal(err)
			}
			if recorded := len(records.Processes) == 1 && records.Processes[0].Launches() > 0; recorded != (way == 1) {
				b.Fatalf("recorded: %v, under the probe: %v", recorded, way == 1)
			}
		}
	}
	slices.Sort(each[0])
	slices.Sort(each[1])
	return each[0][len(each[0])/2], each[1][len(each[1])/2]
}

// BenchmarkOverhead says what the probe costs on the stand-in driver, whose CUPTI writes a record of the real one's size for each launch:
// go test -bench Overhead -benchtime 9x ./gpu/verify
func BenchmarkOverhead(b *testing.B) {
	l := newLab(b)
	b.Run("a launch", func(b *testing.B) {
		program := filepath.Join(b.TempDir(), "launches")
		if out, err := exec.Command("gcc", "-O2", filepath.Join("testdata", "launches.c"), "-o", program).CombinedOutput(); err != nil {
			b.Fatalf("%v: %s", err, out)
		}
		bare, probed := overhead(b, l, program, []string{"1000000"}, func(out string, _ time.Duration) float64 {
			ns, err := strconv.ParseFloat(strings.TrimSpace(out), 64)
			if err != nil {
				b.Fatal(err)
			}
			return ns
		})
		b.ReportMetric(bare, "bare-ns/launch")
		b.ReportMetric(probed, "probed-ns/launch")
		b.ReportMetric(probed-bare, "added-ns/launch")
	})
	b.Run("the matmul sample", func(b *testing.B) {
		program := os.Getenv("GPUBUILD_BENCH_MATMUL")
		if program == "" {
			b.Skip("GPUBUILD_BENCH_MATMUL names no program built of testdata/matmul, with cuda and in release")
		}
		bare, probed := overhead(b, l, program, []string{"--device", "cuda", "--sizes", "256,512"}, func(_ string, took time.Duration) float64 { return took.Seconds() * 1000 })
		b.ReportMetric(bare, "bare-ms")
		b.ReportMetric(probed, "probed-ms")
		b.ReportMetric(probed/bare, "times")
	})
}
