package fatbin

import (
	"bytes"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/hosttest/need"
)

// big makes a file of about 1 GB from the program that GPUBUILD_TEST=binary=FILE names: with its own device code over and over, or once and with other
// code around it.
func big(t testing.TB, deviceCode bool) string {
	from := need.Value(t, "binary")
	f := hosttest.Must(elf.Open(from))(t)
	defer f.Close()
	name := map[bool]string{true: ".nv_fatbin", false: ".text"}[deviceCode]
	section := f.Section(name)
	if section == nil {
		t.Fatalf("%s has no section %s", from, name)
	}
	data := hosttest.Must(section.Data())(t)
	dir := t.TempDir()
	more, to := filepath.Join(dir, "more"), filepath.Join(dir, "big")
	hosttest.OK(t, os.WriteFile(more, bytes.Repeat(data, (1<<30)/len(data)), 0o600))
	words := []string{"--strip-debug", "--update-section", ".nv_fatbin=" + more, from, to}
	if !deviceCode {
		words = []string{"--strip-debug", "--add-section", ".more=" + more, from, to}
	}
	if out, err := exec.Command("objcopy", words...).CombinedOutput(); err != nil {
		need.Missing(t, "binutils", "objcopy: %v: %s", err, out)
	}
	hosttest.OK(t, os.Remove(more))
	return to
}

// BenchmarkAgainstCuobjdump scans 1 GB and lets cuobjdump list it, in turn:
// GPUBUILD_TEST=cuobjdump,binary=target/debug/candle-matmul go test -bench AgainstCuobjdump -benchtime 10x ./gpu/fatbin
func BenchmarkAgainstCuobjdump(b *testing.B) {
	cuobjdump := need.Tool(b, "cuobjdump")
	for _, bb := range []struct {
		name string
		code bool
	}{{"device code", true}, {"other code", false}} {
		b.Run(bb.name, func(b *testing.B) {
			f := hosttest.Must(os.Open(big(b, bb.code)))(b)
			defer f.Close()
			fi := hosttest.Must(f.Stat())(b)
			b.SetBytes(fi.Size())
			var ours, theirs []float64
			for i := range b.N + 1 {
				b.StartTimer()
				began := time.Now()
				hosttest.Must(Scan(f, fi.Size()))(b)
				mine := time.Since(began)
				b.StopTimer()
				began = time.Now()
				_ = exec.Command(cuobjdump, "--list-elf", "--list-ptx", f.Name()).Run() // it fails where one of the two kinds is not there
				if i > 0 {                                                              // the first brings the file into memory
					ours, theirs = append(ours, mine.Seconds()), append(theirs, time.Since(began).Seconds())
				}
			}
			slices.Sort(ours)
			slices.Sort(theirs)
			b.ReportMetric(theirs[len(theirs)/2]*1000, "cuobjdump-ms")
			b.ReportMetric(ours[len(ours)/2]*1000, "scan-ms")
			b.ReportMetric(theirs[len(theirs)/2]/ours[len(ours)/2], "times-faster")
		})
	}
}

// A program of 1 GB has the answers that cuobjdump gives, and takes no memory to speak of.
func TestSameAnswersAsCuobjdump(t *testing.T) {
	cuobjdump, from := need.Tool(t, "cuobjdump"), need.Value(t, "binary")
	for _, path := range []string{from, big(t, true), big(t, false)} {
		f := hosttest.Must(os.Open(path))(t)
		defer f.Close()
		fi := hosttest.Must(f.Stat())(t)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r := hosttest.Must(Scan(f, fi.Size()))(t)
		runtime.ReadMemStats(&after)
		if taken := after.TotalAlloc - before.TotalAlloc; taken > 256<<20 { // candle with optimized kernels: 100 MB; the smaller they are, the more of them fill 1 GB
			t.Errorf("%d bytes were allocated for a file of %d", taken, fi.Size())
		}
		var got []string
		for _, im := range r.Images {
			if im.Where == ".nv_fatbin" { // cuobjdump looks at nothing else
				got = append(got, listing(im))
			}
		}
		want := oracle(t, cuobjdump, path)
		slices.Sort(got)
		if len(want) == 0 || !slices.Equal(got, want) {
			t.Errorf("%s: got %d images, cuobjdump says %d\n%q\n%q", path, len(got), len(want), got, want)
		}
	}
}

// oracle lists what cuobjdump says of a file: kind and architecture, sorted.
func oracle(t *testing.T, cuobjdump, path string) []string {
	t.Helper()
	var out []string
	for _, how := range []string{"--list-elf", "--list-ptx"} {
		list, _ := exec.Command(cuobjdump, how, path).CombinedOutput() // it fails where that kind is not there
		for _, m := range listed.FindAllStringSubmatch(string(list), -1) {
			out = append(out, m[1]+" "+m[2])
		}
	}
	slices.Sort(out)
	return out
}

// BenchmarkBinary scans a file: GPUBUILD_TEST=binary=/x/target/release/candle-matmul go test -bench Binary ./gpu/fatbin
func BenchmarkBinary(b *testing.B) {
	path := need.Value(b, "binary")
	f := hosttest.Must(os.Open(path))(b)
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(fi.Size())
	var r *Report
	for range b.N {
		if r, err = Scan(f, fi.Size()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(r.Images)), "images")
}
