// Package need decides which tests run on this machine. Only tests import it, and it is the only reader of GPUBUILD_TEST.
//
// With nothing set, tests use Go, and cargo and a C compiler where they are found. Everything else must be asked for by name:
//
//	GPUBUILD_TEST=wine,zsh go test ./...      # the tests that need these, too
//	GPUBUILD_TEST=all go test ./...           # all tests that this machine can run
//	GPUBUILD_TEST=toolkit=/opt/a:/opt/b,random=500 go test ./...
//
// A name may have a value: where the thing is, or how often a test repeats. All names are in the list below. A test whose need is not met
// is skipped with a line that begins with "need NAME:", by which .ci/run decides whether the skip is allowed.
package need

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Variable is the only environment variable that configures the tests.
const Variable = "GPUBUILD_TEST"

// thing is what a test may need: programs of which one must be on PATH, and how to get it.
type thing struct {
	programs []string
	how      string
}

// unasked are used wherever they are found. The rest must be asked for.
var unasked = map[string]thing{
	"cargo": {[]string{"cargo"}, "install Rust"},
	"rustc": {[]string{"rustc"}, "install Rust"},
	"cc":    {[]string{"gcc"}, "install gcc"},
	"go":    {[]string{"go"}, "install Go"},
	"sh":    {[]string{"sh"}, "a POSIX shell, which Windows has not"},
	// These are matters of the machine: no tool is started.
	"gpu":      {how: "a machine with a GPU and its driver"},
	"no-gpu":   {how: "a machine without a GPU"},
	"unix":     {how: "a system that is not Windows"},
	"windows":  {how: "Windows"},
	"linux":    {how: "Linux"},
	"amd64":    {how: "an x86-64 processor"},
	"terminal": {how: "/dev/ptmx"},
	"links":    {how: "a file system with symbolic links"},
	"mount":    {how: "root, who may mount file systems"},
	"user":     {how: "a user who is not root"},
	"root":     {how: "root, who may give files to other users"},
}

var asked = map[string]thing{
	"actionlint": {[]string{"actionlint"}, "go install github.com/rhysd/actionlint/cmd/actionlint@v1.7.7"},
	"apt":        {[]string{"apt-get"}, "apt-get update on a Debian or Ubuntu, and 60 MB of its packages"},
	"args":       {how: "arguments of the build that project times"},
	"arm64":      {[]string{"aarch64-linux-gnu-gcc"}, "apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross"},
	"bash":       {[]string{"bash"}, "apt-get install bash"},
	"bench":      {how: "bench=DIR, a directory that keeps builds of minutes"},
	"binary":     {how: "binary=FILE, a program with device code, such as candle-matmul"},
	"binutils":   {[]string{"readelf"}, "apt-get install binutils"},
	"browser":    {[]string{"chromium", "chromium-browser", "google-chrome"}, "apt-get install chromium"},
	"candle":     {how: "candle=GPU:CPU, testdata/candle-matmul and testdata/candle-broken, built with --features cuda"},

	"cmake":       {[]string{"cmake"}, "apt-get install cmake"},
	"crates":      {how: "cargo fetch --locked in the samples of testdata"},
	"cuobjdump":   {[]string{"cuobjdump"}, "pip install nvidia-cuda-cuobjdump"},
	"cyclonedx":   {[]string{"python3"}, "pip install 'cyclonedx-python-lib[json-validation]'"},
	"fish":        {[]string{"fish"}, "apt-get install fish"},
	"flock":       {[]string{"flock"}, "apt-get install util-linux"},
	"git":         {[]string{"git"}, "apt-get install git"},
	"groff":       {[]string{"groff"}, "apt-get install groff"},
	"gxx":         {[]string{"g++-11"}, "apt-get install g++-11 g++-12"},
	"jsonschema":  {[]string{"check-jsonschema"}, "pip install check-jsonschema"},
	"docs":        {how: "compiler versions as those of .ci/run; rewrite docs/commands with -update"},
	"dash":        {[]string{"dash"}, "apt-get install dash"},
	"libcuda":     {how: "libcuda=FILE, the driver of a run on a real GPU"},
	"raw":         {how: "raw=DIR, where a run on a real GPU leaves what the probe wrote"},
	"loader":      {how: "loader=DIR:DIR, directories of programs whose libraries are looked for"},
	"execs":       {how: "execs=N, how often a watched program becomes another"},
	"judged":      {how: "judged=N, how many random pieces of evidence are judged"},
	"builds":      {how: "builds=N, how many builds run at once"},
	"built":       {how: "built=1: tests of cli run gpubuild as it is shipped, not themselves as gpubuild"},
	"kill":        {how: "kill=N, how often programs are killed"},
	"long":        {how: "minutes of cargo and of compilers"},
	"matmul":      {how: "matmul=FILE, testdata/matmul, built with --features cuda --release"},
	"mingw":       {[]string{"x86_64-w64-mingw32-gcc"}, "apt-get install gcc-mingw-w64-x86-64-posix"},
	"mpi":         {[]string{"mpirun"}, "apt-get install openmpi-bin"},
	"network":     {how: "a network, and time to fetch up to 140 MB"},
	"nextest":     {[]string{"cargo-nextest"}, "cargo install cargo-nextest --locked"},
	"nightly":     {how: "rustup toolchain install nightly --profile minimal"},
	"patch":       {[]string{"patch"}, "apt-get install patch"},
	"precommit":   {[]string{"pre-commit"}, "pip install pre-commit"},
	"project":     {how: "project=DIR, a project whose build is timed"},
	"pwsh":        {[]string{"pwsh"}, "install PowerShell"},
	"python":      {[]string{"python3"}, "apt-get install python3"},
	"qemu":        {[]string{"qemu-aarch64-static", "qemu-aarch64"}, "apt-get install qemu-user-static"},
	"random":      {how: "random=N, how many random cases are tried"},
	"sccache":     {[]string{"sccache"}, "apt-get install sccache"},
	"rpm":         {[]string{"rpm2archive"}, "apt-get install rpm"},
	"release":     {how: "release=all, every platform from a cold cache"},
	"screenshots": {how: "screenshots=DIR, where the browser's pictures are kept"},
	"script":      {[]string{"script"}, "apt-get install bsdutils"},
	"seed":        {how: "seed=N, the seed of random cases"},
	"shellcheck":  {[]string{"shellcheck"}, "apt-get install shellcheck"},
	"slurm":       {[]string{"slurmctld"}, "apt-get install slurmctld slurmd slurm-client"},
	"ssh":         {[]string{"sshd"}, "apt-get install openssh-server openssh-client"},
	"ssh-keygen":  {[]string{"ssh-keygen"}, "apt-get install openssh-client"},
	"strace":      {[]string{"strace"}, "apt-get install strace"},
	"sudo":        {[]string{"sudo"}, "apt-get install sudo"},
	"toolkit":     {how: "gpubuild toolchain install, or toolkit=DIR:DIR, CUDA toolkits of different versions"},
	"traces":      {how: "traces=DIR, where a run on a real GPU leaves its evidence"},
	"vulkan":      {how: "apt-get install libvulkan1 libvulkan-dev mesa-vulkan-drivers"},
	"wheels":      {how: "wheels=DIR, the wheels of a CUDA toolkit"},
	"wine":        {[]string{"wine"}, "wine=DIR, which .ci/wine-setup DIR prepares"},
	"xmllint":     {[]string{"xmllint"}, "apt-get install libxml2-utils"},
	"xz":          {[]string{"xz"}, "apt-get install xz-utils"},
	"zig":         {[]string{"zig"}, "pip install ziglang==0.16.0"},
	"zizmor":      {[]string{"zizmor"}, "pip install zizmor"},
	"zsh":         {[]string{"zsh"}, "apt-get install zsh"},
}

// wishes is GPUBUILD_TEST, read once: what was asked for, and the values.
var wishes = sync.OnceValues(func() (map[string]string, error) { return parse(os.Getenv(Variable)) })

func parse(text string) (map[string]string, error) {
	out := map[string]string{}
	for _, word := range strings.Split(text, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(word), "=")
		if name == "" {
			continue
		}
		if _, ok := asked[name]; !ok && name != "all" {
			names := slices.Sorted(maps.Keys(asked))
			return nil, fmt.Errorf("%s: no test needs %q; the names are all, %s", Variable, name, strings.Join(names, ", "))
		}
		out[name] = value
	}
	return out, nil
}

func wish(name string) (value string, wanted bool) {
	all, err := wishes()
	if err != nil {
		panic(err)
	}
	value, wanted = all[name]
	if _, every := all["all"]; every {
		wanted = true
	}
	return value, wanted
}

// Find returns where a thing is: its value, or its program on PATH, or nothing where it needs neither. Where it was not asked for or is
// not here, it answers the reason, as a skipped test gives it.
func Find(name string) (where, reason string) {
	th, free := unasked[name]
	if !free {
		var known bool
		if th, known = asked[name]; !known {
			panic("need: no thing is called " + name)
		}
		value, wanted := wish(name)
		if !wanted {
			return "", Reason(name, "not asked for: "+Variable+"="+name+" go test ./... runs this ("+th.how+")")
		}
		if value != "" {
			return value, ""
		}
	}
	for _, program := range th.programs {
		if path, err := exec.LookPath(program); err == nil {
			return path, ""
		}
	}
	if name == "pwsh" {
		name = "windows" // whose shell it is; elsewhere it is no package
	}
	if len(th.programs) > 0 {
		return "", Reason(name, "no "+th.programs[0]+" on PATH: "+th.how)
	}
	return "", ""
}

// Reason is the text of a skipped test.
func Reason(name, why string) string { return "need " + name + ": " + why }

// Tool is where a program is; without it, or where nobody asked for it, the test is skipped.
func Tool(t testing.TB, name string) string {
	t.Helper()
	where, reason := Find(name)
	if reason != "" {
		t.Skip(reason)
	}
	return where
}

// Asked skips the test unless all these things were asked for and are here.
func Asked(t testing.TB, names ...string) {
	t.Helper()
	for _, name := range names {
		Tool(t, name)
	}
}

// Has says the same of one thing as a value.
func Has(name string) bool {
	_, reason := Find(name)
	return reason == ""
}

// Missing skips the test because of something that only the test could see.
func Missing(t testing.TB, name, why string, args ...any) {
	t.Helper()
	_, free := unasked[name]
	if _, known := asked[name]; !known && !free {
		t.Fatalf("need: no thing is called %s", name)
	}
	t.Skip(Reason(name, fmt.Sprintf(why, args...)))
}

// Patient runs more tests at once than there are processors, unless -parallel says how many: tests that start cargo, compilers and
// programs wait more than they work. They find cargo itself on PATH, not rustup's proxies.
func Patient(m *testing.M) interface{ Run() int } { return patient{m} }

type patient struct{ tests *testing.M }

func (p patient) Run() int {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", strconv.Itoa(4*runtime.GOMAXPROCS(0)))
	}
	cargoItself()
	return p.tests.Run()
}

// cargoItself puts cargo and rustc before rustup's proxies of them, which are half of the time of a short cargo and of rustc -vV. With
// GPUBUILD_TEST=random=N, as in .ci/long, or with toolkits, as in .ci/run, the tests start the proxies, as most users do: some of their
// build scripts set PATH.
func cargoItself() {
	if Given("random") != "" || Given("toolkit") != "" {
		return
	}
	if root, err := exec.Command("rustc", "--print", "sysroot").Output(); err == nil {
		bin := filepath.Join(strings.TrimSpace(string(root)), "bin")
		if err := os.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH")); err != nil {
			panic(err)
		}
	}
}

// Cargo is the cargo on PATH; without one the test is skipped.
func Cargo(t testing.TB) string { t.Helper(); return Tool(t, "cargo") }

// CC is the C compiler on PATH; without one the test is skipped.
func CC(t testing.TB) string { t.Helper(); return Tool(t, "cc") }

// Program is another program of something that was asked for, as cuobjdump of binutils.
func Program(t testing.TB, name, program string) string {
	t.Helper()
	Asked(t, name)
	path, err := exec.LookPath(program)
	if err != nil {
		Missing(t, name, "no %s on PATH", program)
	}
	return path
}

// Value is what was given as NAME=VALUE; without it the test is skipped.
func Value(t testing.TB, name string) string {
	t.Helper()
	value, _ := wish(name)
	if value == "" {
		Missing(t, name, "not given: %s=%s", Variable, asked[name].how)
	}
	return value
}

// Given is the value of a thing that changes how a test runs, and not whether.
func Given(name string) string {
	value, _ := wish(name)
	return value
}

// Count is how often a test repeats something: few, or the N of NAME=N.
func Count(t testing.TB, name string, few int) int {
	t.Helper()
	value, _ := wish(name)
	if value == "" {
		return few
	}
	n, err := strconv.Atoi(value)
	if err != nil {
		t.Fatalf("%s: %s=%s: %v", Variable, name, value, err)
	}
	return n
}

// FindToolkits lists the CUDA toolkits that were asked for: those named, or those of gpubuild's cache, the newest first.
func FindToolkits() (roots []string, reason string) {
	value, reason := Find("toolkit")
	if reason != "" {
		return nil, reason
	}
	if value != "" {
		return filepath.SplitList(value), ""
	}
	cache := os.Getenv("GPUBUILD_CACHE")
	if cache == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return nil, Reason("toolkit", err.Error())
		}
		cache = filepath.Join(user, "gpubuild")
	}
	roots, _ = filepath.Glob(filepath.Join(cache, "toolkits", "cuda-*"))
	sort.Sort(sort.Reverse(sort.StringSlice(roots)))
	if len(roots) == 0 {
		return nil, Reason("toolkit", "none in "+cache+": "+asked["toolkit"].how)
	}
	return roots, ""
}

// Toolkits are at least n CUDA toolkits; without them the test is skipped.
func Toolkits(t testing.TB, n int) []string {
	t.Helper()
	roots, reason := FindToolkits()
	if reason != "" {
		t.Skip(reason)
	}
	if len(roots) < n {
		Missing(t, "toolkit", "%d of them are here, and this takes %d of different versions", len(roots), n)
	}
	return roots
}

// Toolkit is one CUDA toolkit; without one the test is skipped.
func Toolkit(t testing.TB) string { t.Helper(); return Toolkits(t, 1)[0] }

// CompilerWithoutNumber puts a copy of this machine's gcc into a directory and returns that: its name has no version, as on Fedora and in
// conda.
func CompilerWithoutNumber(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"gcc", "g++"} {
		real, err := filepath.EvalSymlinks("/usr/bin/" + name)
		if err != nil {
			Missing(t, "cc", "no gcc in /usr/bin")
		}
		data, err := os.ReadFile(real)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// FirstToolkit is a real toolkit for tests, if one was asked for and is here.
func FirstToolkit() string {
	roots, _ := FindToolkits()
	return strings.Join(roots[:min(len(roots), 1)], "")
}

// Crates skips a test unless a project's crates were asked for and are here.
func Crates(t testing.TB, dir string) {
	t.Helper()
	Asked(t, "cargo", "crates")
	if !HasCrates(dir) {
		Missing(t, "crates", "cargo fetch --locked --manifest-path %s", filepath.Join(dir, "Cargo.toml"))
	}
}

// HasCrates reports whether a project's crates were asked for and are here, so that nothing would be downloaded.
func HasCrates(dir string) bool {
	if !Has("cargo") || !Has("crates") {
		return false
	}
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	return exec.CommandContext(ctx, "cargo", "fetch", "--locked", "--offline", "--manifest-path", filepath.Join(dir, "Cargo.toml")).Run() == nil
}

// Full reports whether many random cases were asked for, as .ci/long does: then the cases are tried, too, that repeat others in another
// way.
func Full(t testing.TB) bool { return Count(t, "random", 0) > 100 }
