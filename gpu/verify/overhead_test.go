package verify

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gpubuild/buildenv/hosttest/need"
	"gpubuild/gpu/probe"
)

// ran is one run of a program.
type ran struct {
	out       string
	wall, cpu time.Duration // cpu: of all its threads, the probe's too
}

// overhead runs a program bare and under the probe in turn, and answers the medians of what each measure makes of the runs.
func overhead(b *testing.B, l *lab, program string, args []string, measures ...func(ran) float64) (bare, probed []float64) {
	b.Helper()
	env := l.host.Env.Set("LD_LIBRARY_PATH", filepath.Join(l.dir, "lib"))
	each := [2][][]float64{make([][]float64, len(measures)), make([][]float64, len(measures))}
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
			r := ran{string(out), time.Since(began), c.ProcessState.UserTime() + c.ProcessState.SystemTime()}
			for i, m := range measures {
				each[way][i] = append(each[way][i], m(r))
			}
			records, err := probe.ReadDir(dir)
			if err != nil {
				b.Fatal(err)
			}
			if recorded := len(records.Processes) == 1 && records.Processes[0].Launches() > 0; recorded != (way == 1) {
				b.Fatalf("recorded: %v, under the probe: %v", recorded, way == 1)
			}
		}
	}
	medians := func(all [][]float64) (out []float64) {
		for _, one := range all {
			slices.Sort(one)
			out = append(out, one[len(one)/2])
		}
		return out
	}
	return medians(each[0]), medians(each[1])
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
		bare, probed := overhead(b, l, program, []string{"1000000"}, func(r ran) float64 {
			ns, err := strconv.ParseFloat(strings.TrimSpace(r.out), 64)
			if err != nil {
				b.Fatal(err)
			}
			return ns
		})
		b.ReportMetric(bare[0], "bare-ns/launch")
		b.ReportMetric(probed[0], "probed-ns/launch")
		b.ReportMetric(probed[0]-bare[0], "added-ns/launch")
	})
	b.Run("the matmul sample", func(b *testing.B) {
		program := need.Given("matmul")
		if program == "" {
			need.Value(b, "matmul")
		}
		bare, probed := overhead(b, l, program, []string{"--device", "cuda", "--sizes", "256,512"},
			func(r ran) float64 { return r.wall.Seconds() * 1000 }, func(r ran) float64 { return r.cpu.Seconds() * 1000 })
		b.ReportMetric(bare[0], "bare-ms")
		b.ReportMetric(probed[0], "probed-ms")
		b.ReportMetric(probed[0]/bare[0], "times")
		b.ReportMetric(bare[1], "bare-cpu-ms")
		b.ReportMetric(probed[1], "probed-cpu-ms")
		b.ReportMetric(probed[1]/bare[1], "cpu-times")
	})
}
