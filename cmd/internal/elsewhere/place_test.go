package elsewhere

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kballard/go-shellquote"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/hosttest/need"
	"gpubuild/buildenv/local"
	"gpubuild/cmd/internal/config"
	"gpubuild/cmd/internal/proof"
	"gpubuild/cmd/internal/session"
	"gpubuild/features/manifest"
	"gpubuild/gpu/probe"
)

func TestParse(t *testing.T) {
	t.Parallel()
	if words, err := shellquote.Split(buildenv.PosixWords("sh", "-c", bootstrap)); err != nil || len(words) != 3 || strings.Contains(bootstrap, "\n") {
		t.Errorf("csh does not read the words that start the other side: %q, %v", words, err)
	}
	tables := map[string]config.On{
		"pod":   {Command: "kubectl exec -i 'job/g' --"},
		"a100":  {Place: "slurm", Args: []string{"--partition=a100"}},
		"box":   {Place: "ssh:me@box:2222", Args: []string{"-J", "gate"}, Cache: "/scratch", Limit: "5G", ConnectTimeout: "10m"},
		"empty": {},
	}
	const ssh = "ssh -T -oServerAliveInterval=15 -oServerAliveCountMax=4 "
	for _, tt := range []struct{ word, env, want string }{
		{"ssh:box", "", ssh + "-- box"},
		{"ssh:me@box:22", "", ssh + "-p 22 -l me -- box"},
		{"ssh:[fe80::1]:22", "", ssh + "-p 22 -- fe80::1"},
		{"ssh:fe80::1", "", ssh + "-- fe80::1"},
		{"slurm", "", "srun --nodes=1 --ntasks=1 --unbuffered --quit-on-interrupt --gres=gpu:1"},
		{"slurm", "SLURM_JOB_ID=1", "srun --nodes=1 --ntasks=1 --unbuffered --quit-on-interrupt --overlap"},
		{"mine", "", "srun --nodes=1 --ntasks=1 --unbuffered --quit-on-interrupt --gres=gpu:1"},
		{"pod", "", "kubectl exec -i job/g --"},
		{"a100", "", "srun --nodes=1 --ntasks=1 --unbuffered --quit-on-interrupt --gres=gpu:1 --partition=a100"},
		{"box", "", "ssh -J gate -T -oServerAliveInterval=15 -oServerAliveCountMax=4 -p 2222 -l me -- box"},
		{"ssh:-oProxyCommand=id", "", ""}, {"ssh:-l@box", "", ""}, {"ssh:me@-box", "", ""}, {"ssh:", "", ""}, {"ssh:@box", "", ""},
		{"ssh:box:x", "", ""}, {"ssh:box:99999", "", ""}, {"ssh:box:0", "", ""}, {"ssh:box;id x", "", ""}, {"empty", "", ""}, {"none", "", ""},
	} {
		h := buildenv.Host{OS: buildenv.Linux, Env: buildenv.NewEnv(buildenv.Linux, []string{tt.env})}
		p, err := Parse(h, tt.word, tables, map[string]config.On{"mine": {Place: "slurm"}})
		got := strings.Join(p.Command, " ")
		if err != nil {
			got = ""
			if exit.Of(err) != exit.Usage || exit.Hint(err) == "" {
				t.Errorf("%s: %v", tt.word, err)
			}
		}
		hosttest.Equal(t, got, tt.want, tt.word)
		hosttest.Equal(t, p.Connect, map[string]time.Duration{"box": 10 * time.Minute}[tt.word], tt.word, "may take")
	}
}

// TestStoreTakesOnlyWhatFits: a file that is damaged on the way or where it is kept does not count.
func TestStoreTakesOnlyWhatFits(t *testing.T) {
	t.Parallel()
	s := store{t.TempDir()}
	const sum = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" // abc
	put := func(text string) error { return s.receive(strings.NewReader(text), sum, 3) }
	if err := put("abd"); err == nil || s.has(sum) {
		t.Error("a damaged file is kept")
	}
	if err := put("abc"); err != nil || !s.has(sum) || !s.has(sum) {
		t.Errorf("a whole file is not kept: %v", err)
	}
	hosttest.OK(t, os.WriteFile(s.path(sum), []byte("xyz0"), 0o600))
	if s.has(sum) {
		t.Error("a file that was changed still counts")
	}
	hosttest.OK(t, put("abc"))
	dir := t.TempDir()
	hosttest.OK(t, s.place(file{Name: "work/data", SHA256: sum}, dir))
	if err := os.WriteFile(filepath.Join(dir, "work", "data"), []byte("changed"), 0o600); err != nil || !s.has(sum) {
		t.Errorf("a program's change of its data changes what is kept: %v", err)
	}
	if err := s.prune(1, "here", time.Now()); err != nil || !s.has(sum) {
		t.Errorf("what was just used is removed: %v", err)
	}
	if err := s.prune(1, "here", time.Now().Add(2*time.Hour)); err != nil || s.has(sum) {
		t.Errorf("more than the limit is kept: %v", err)
	}
	later, used := []string{strings.Repeat("b", 1000), strings.Repeat("a", 1000)}, sumOf("gpubuild")
	for i, text := range later { // by their sums the second is before the first
		if err := s.receive(strings.NewReader(text), sumOf(text), 1000); err != nil || !s.has(sumOf(text)) {
			t.Fatal(err)
		}
		hosttest.OK(t, os.Chtimes(s.path(sumOf(text))+".seen", time.Time{}, time.Now().Add(time.Duration(i-5)*time.Hour)))
	}
	program := filepath.Join(s.dir, used, "gpubuild") // of an earlier version
	hosttest.OK(t, errors.Join(os.Mkdir(filepath.Dir(program), 0o700), os.WriteFile(program, make([]byte, 1000), 0o700),
		os.Chtimes(program, time.Time{}, time.Now().Add(-9*time.Hour))))
	users := []string{filepath.Join(s.dir, "files", "data.bin"), filepath.Join(s.dir, "project", "gpubuild"), filepath.Join(s.dir, used, "notes"),
		filepath.Join(s.dir, "project", used), filepath.Join(s.dir, "files", "abcd"), filepath.Join(s.dir, used, "receiving-1"), filepath.Join(s.dir, "files", used, "x")}
	torn := filepath.Join(s.dir, "files", "receiving-1")
	if err := errors.Join(os.WriteFile(torn, make([]byte, 1000), 0o600), os.Chtimes(torn, time.Time{}, time.Now().Add(-9*time.Hour))); err != nil {
		t.Fatal(err)
	}
	for _, name := range users { // `cache` may name a directory that has other things in it
		hosttest.OK(t, errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, make([]byte, 1000), 0o600),
			os.Chtimes(name, time.Time{}, time.Now().Add(-99*time.Hour))))
	}
	if err := s.prune(1500, "here", time.Now()); err != nil || s.has(sumOf(later[0])) || !s.has(sumOf(later[1])) {
		t.Errorf("what was not used for longest goes, and no more than that: %v", err)
	}
	for _, name := range []string{program, torn} {
		if _, err := os.Stat(name); err == nil {
			t.Errorf("%s of long ago is kept beyond the limit", filepath.Base(name))
		}
	}
	for _, name := range users {
		if _, err := os.Stat(name); err != nil {
			t.Errorf("a file of the user is gone: %v", err)
		}
	}
}

// TestKilledRunsLeaveNothing: a later run of the same host removes what a killed one left, and nothing of one that is alive or another host's.
func TestKilledRunsLeaveNothing(t *testing.T) {
	t.Parallel()
	s := store{t.TempDir()}
	for _, name := range []string{"files", "runs/run-here-killed/bin", "runs/run-here-alive", "runs/run-there-1", "runs/run-here-no-locks"} {
		hosttest.OK(t, os.MkdirAll(filepath.Join(s.dir, name), 0o700))
	}
	lock := func(run string) string { return filepath.Join(s.dir, "runs", run, lockName) }
	free := hosttest.Must(cache.Lock(t.Context(), lock("run-here-alive"), nil))(t)
	for _, run := range []string{"run-here-killed", "run-there-1"} {
		hosttest.OK(t, os.WriteFile(lock(run), nil, 0o600))
	}
	left := func(later time.Duration) (names []string) {
		hosttest.OK(t, s.prune(0, "here", time.Now().Add(later)))
		entries := hosttest.Must(os.ReadDir(filepath.Join(s.dir, "runs")))(t)
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	if got := left(0); len(got) != 4 {
		t.Errorf("of the last hour only %q are left", got)
	}
	hosttest.Equal(t, strings.Join(left(2*time.Hour), " "), "run-here-alive run-here-no-locks run-there-1", "left")
	hosttest.OK(t, free())
	hosttest.Equal(t, strings.Join(left(2*time.Hour), " "), "run-here-no-locks run-there-1", "left")
}

// TestSent: of a directory every file is sent, and a link to one of them as that file; nothing from outside, and no FIFO, which would be waited for.
func TestSent(t *testing.T) {
	t.Parallel()
	h := hosttest.Must(local.Host())(t)
	root := h.Real(t.TempDir())
	for _, name := range []string{"data/blobs/1", "outside"} {
		if err := errors.Join(os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o700), os.WriteFile(filepath.Join(root, name), []byte(name), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"model": "blobs/1", "away": "../outside", "gone": "none", "all": "blobs"} {
		if err := os.Symlink(to, filepath.Join(root, "data", link)); err != nil {
			need.Missing(t, "links", "%v", err)
		}
	}
	m := &session.Machine{Host: h, CacheDir: t.TempDir()}
	files, err := sent(m, root, filepath.Join(root, "data"), nil)
	if err != nil || len(files) != 2 || files[0].Name != "work/data/blobs/1" || files[1].Name != "work/data/model" || files[1].SHA256 != sumOf("data/blobs/1") ||
		files[1].From == files[0].From {
		t.Errorf("%+v, %v", files, err)
	}
	for _, name := range []string{root, filepath.Dir(root), filepath.Join(root, "data", "away"), filepath.Join(root, "data", "none")} {
		if files, err := sent(m, filepath.Join(root, "data"), name, nil); exit.Of(err) != exit.Usage {
			t.Errorf("%s: %+v, %v", name, files, err)
		}
	}
	if files, err := sent(m, root, filepath.Join(root, "outside"), files); err != nil || len(files) != 3 {
		t.Errorf("a file, behind others: %+v, %v", files, err)
	}
}

// TestResolveConsent: a repository's place needs consent, unless the user's own configuration defines one of that name, which then counts.
func TestResolveConsent(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		story, user string
		trusted     bool
		command     string // empty: refused
	}{
		{"nobody agreed", "", false, ""},
		{"by the flag", "", true, "theirs"},
		{"the directory is trusted", "trust = ['/r']\n", false, "theirs"},
		{"another directory is trusted", "trust = ['/other']\n", false, ""},
		{"the user's own of that name", "[on.lab]\ncommand = 'mine'\n", false, "mine"},
	} {
		h, err := hosttest.Parse([]byte("os: linux\nhome: /home/u\ncwd: /r\n-- @env --\nGPUBUILD_CONFIG=/home/u/c.toml\n-- /home/u/c.toml --\n" + tt.user))
		if err != nil {
			t.Fatal(err)
		}
		s := &session.Session{Machine: &session.Machine{Host: h}}
		s.Config.On.Value = map[string]config.On{"lab": {Command: "theirs"}}
		p, err := Resolve(s, proof.Options{On: proof.On{Name: "lab"}}, tt.trusted, "--")
		if tt.command == "" && exit.Of(err) != exit.Config || tt.command != "" && (err != nil || p.Command[0] != tt.command) {
			t.Errorf("%s: %v, %v", tt.story, p, err)
		}
	}
	for _, tt := range []struct {
		story, os, refused string // why it is refused; empty: it is found
		o                  proof.Options
	}{
		{"here", buildenv.Windows, "", proof.Options{}},
		{"files, and nowhere to send them to", buildenv.Linux, "runs on another machine", proof.Options{On: proof.On{Send: []string{"x"}}}},
		{"variables", buildenv.Linux, "runs on another machine", proof.Options{On: proof.On{SendEnv: []string{"X"}}}},
		{"a queue", buildenv.Linux, "runs on another machine", proof.Options{On: proof.On{Queue: 1}}},
		{"a time to answer", buildenv.Linux, "runs on another machine", proof.Options{On: proof.On{Connect: 1}}},
		{"another try", buildenv.Linux, "runs on another machine", proof.Options{On: proof.On{Retry: 1}}},
		{"Vulkan", buildenv.Linux, "only CUDA is recorded", proof.Options{On: proof.On{Name: "slurm"}, Backend: probe.Vulkan}},
		{"from Windows", buildenv.Windows, "from Linux only", proof.Options{On: proof.On{Name: "slurm"}}},
		{"a host that no repository defines", buildenv.Linux, "", proof.Options{On: proof.On{Name: "ssh:box", Send: []string{"x"}}}},
		{"a place that is neither", buildenv.Linux, "[on.odd] place = \"moon\" is neither slurm", proof.Options{On: proof.On{Name: "odd"}}},
		{"a command without an end", buildenv.Linux, "quot", proof.Options{On: proof.On{Name: "open"}}},
		{"nobody's", buildenv.Linux, "no place is called", proof.Options{On: proof.On{Name: "lab2"}}},
	} {
		h, err := hosttest.Parse([]byte("os: linux\nhome: /home/u\ncwd: /r/sub\n-- @env --\nGPUBUILD_CONFIG=/home/u/c.toml\n-- /home/u/c.toml --\n"))
		if err != nil {
			t.Fatal(err)
		}
		h.OS = tt.os
		s := &session.Session{Machine: &session.Machine{Host: h}, Project: &manifest.Project{Root: "/r"}}
		s.Config.On.Value = map[string]config.On{"odd": {Place: "moon"}, "open": {Command: "sh -c 'x"}}
		p, err := Resolve(s, tt.o, tt.o.On.Name == "open", "--gpu-")
		if (err == nil) != (tt.refused == "") || err != nil && !strings.Contains(err.Error(), tt.refused) {
			t.Errorf("%s: %v", tt.story, err)
		}
		if err == nil && p != nil && (p.Root != "/r" || p.Send[0] != "/r/sub/x") {
			t.Errorf("%s: %+v", tt.story, p)
		}
	}
}
