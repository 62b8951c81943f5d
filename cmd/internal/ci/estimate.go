package ci

// Estimate is what a row costs on a runner with an empty cache: rough, to tell seconds from an hour.
type Estimate struct {
	Fetch   int64 `json:"fetch_bytes"`   // of the toolkit; crates are not counted
	Disk    int64 `json:"disk_bytes"`    // toolkit and target directory
	Seconds int   `json:"seconds"`       // fetch, unpack and build
	Kernels bool  `json:"kernels_known"` // false: the crates' own kernels take a time that is not known
}

// Load is what a build is made of, as far as it is known.
type Load struct {
	Fetch, Disk   int64 // of the toolkit
	Units         int   // what cargo compiles
	KernelSeconds int   // one core's work on kernels of known crates
	KernelsKnown  bool
	CPUs          int // of the runner; 0: not known
	Release       bool
}

// Figures behind the estimate, measured on two shared cores: nine wheels of 1.2 GB took 36 s to fetch and 12 s to unpack into 2 GB;
// entrenar's 401 units took 228 s at -j1; candle's debug build without its kernels 61 s and its release build 106 s; its target directory
// came to 1.2–1.8 GB for some 250 units. A user's network and runner differ by a factor of two and more.
const (
	fetchRate    = 33e6  // bytes a second
	unpackRate   = 170e6 // bytes a second
	unitSeconds  = 0.57  // of one core
	releaseRatio = 1.7
	unitBytes    = 6e6
	// defaultCPUs are those of GitHub's standard Linux and Windows runners of
	// public repositories (docs.github.com, "GitHub-hosted runners reference").
	defaultCPUs = 4
)

// KernelWork are the crates whose kernels have been timed: seconds of one core in a debug build, which nvcc's work does not depend on.
func KernelWork() map[string]int { return map[string]int{"candle-kernels": 419} }

// Rate makes an estimate of a load.
func (l Load) Rate() Estimate {
	cpus := float64(l.CPUs)
	if l.CPUs == 0 {
		cpus = defaultCPUs
	}
	units := float64(l.Units) * unitSeconds / cpus
	if l.Release {
		units *= releaseRatio
	}
	seconds := float64(l.Fetch)/fetchRate + float64(l.Disk)/unpackRate + units + float64(l.KernelSeconds)/cpus
	return Estimate{Fetch: l.Fetch, Disk: l.Disk + int64(l.Units)*unitBytes, Seconds: int(seconds + 1), Kernels: l.KernelsKnown}
}
