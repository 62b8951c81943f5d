//go:build linux

package cli_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpubuild/buildenv/hosttest/need"
)

// slurm starts a real Slurm of one node with one GPU that is none (/dev/null), without munge, and answers what makes srun find it, and a
// function that kills slurmd with all that it has started, and starts it again.
func slurm(t *testing.T) (srun []string, restart func()) {
	t.Helper()
	for _, program := range []string{"slurmctld", "slurmd", "srun", "sinfo"} {
		need.Program(t, "slurm", program)
	}
	if os.Geteuid() != 0 {
		need.Missing(t, "slurm", "slurmd wants to be root")
	}
	dir := t.TempDir()
	host, err := exec.Command("hostname", "-s").Output()
	noError(t, err)
	for _, d := range []string{"state", "spool"} {
		noError(t, os.Mkdir(filepath.Join(dir, d), 0o755))
	}
	// slurm.conf(5) and gres.conf(5) of 22.05. auth/none and cred/none need no munge; they trust everybody on this machine.
	conf := fmt.Sprintf(`ClusterName=test
SlurmctldHost=%[1]s(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
MpiDefault=none
ProctrackType=proctrack/pgid
TaskPlugin=task/none
ReturnToService=2
SlurmctldPort=%[3]d
SlurmdPort=%[4]d
StateSaveLocation=%[2]s/state
SlurmdSpoolDir=%[2]s/spool
SlurmctldPidFile=%[2]s/slurmctld.pid
SlurmdPidFile=%[2]s/slurmd.pid
SlurmctldLogFile=%[2]s/slurmctld.log
SlurmdLogFile=%[2]s/slurmd.log
SchedulerType=sched/builtin
SelectType=select/cons_tres
GresTypes=gpu
NodeName=%[1]s NodeAddr=127.0.0.1 CPUs=1 Gres=gpu:1 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
`, strings.TrimSpace(string(host)), dir, 20000+os.Getpid()%10000, 30000+os.Getpid()%10000)
	writeFiles(t, dir, map[string]string{"slurm.conf": conf, "gres.conf": "Name=gpu File=/dev/null\n"})
	env := "SLURM_CONF=" + filepath.Join(dir, "slurm.conf")
	start := func(daemon string) *exec.Cmd {
		c := exec.Command(daemon, "-D")
		c.Env = append(os.Environ(), env)
		noError(t, c.Start())
		t.Cleanup(func() {
			_ = c.Process.Kill()
			_ = c.Wait()
		})
		return c
	}
	start("slurmctld")
	slurmd := start("slurmd")
	restart = func() {
		_ = slurmd.Process.Kill()
		steps, _ := filepath.Glob("/proc/[0-9]*/environ")
		for _, step := range steps {
			name, _ := os.ReadFile(filepath.Join(filepath.Dir(step), "comm"))
			of, _ := os.ReadFile(step)
			var pid int
			if _, err := fmt.Sscanf(step, "/proc/%d/", &pid); err == nil && string(name) == "slurmstepd\n" && strings.Contains(string(of), env) {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		_ = slurmd.Wait()
		slurmd = start("slurmd")
	}
	for range 100 {
		c := exec.Command("sinfo", "-h", "-o", "%T")
		c.Env = append(os.Environ(), env)
		if out, err := c.Output(); err == nil && strings.TrimSpace(string(out)) == "idle" {
			return []string{env}, restart
		}
		time.Sleep(200 * time.Millisecond)
	}
	log, _ := os.ReadFile(filepath.Join(dir, "slurmctld.log"))
	t.Fatalf("Slurm does not start:\n%s", log)
	return nil, nil
}

// elsewhere is a project with a program that says that it has started and, asked for, never ends; places are [on.NAME] tables of the
// user's own configuration.
func elsewhere(t *testing.T, places string) (dir string, command func(env []string, words ...string) *exec.Cmd) {
	t.Helper()
	need.Tool(t, "cargo")
	if exists("/dev/nvidia0") {
		need.Missing(t, "no-gpu", "there is a GPU here")
	}
	dir = t.TempDir()
	tests := ""
	for i := range 200 {
		tests += fmt.Sprintf("#[test]\nfn small_%03d() { println!(\"small\"); }\n", i)
	}
	writeFiles(t, dir, map[string]string{
		"Cargo.toml": "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[features]\ncuda = []\n",
		"Cargo.lock": "version = 3\n\n[[package]]\nname = \"app\"\nversion = \"0.1.0\"\n",
		"src/main.rs": "fn main() { println!(\"started\"); if cfg!(feature = \"cuda\") && std::env::args().count() > 1 { loop { " +
			"println!(\"waiting\"); std::thread::sleep(std::time::Duration::from_millis(100)) } } }\n",
		"tests/small.rs": tests,
		"mine.toml":      places,
	})
	withProbe(t, filepath.Join(dir, "cache"))
	program := binary(t)
	command = func(env []string, words ...string) *exec.Cmd {
		ctx, cancel := context.WithTimeout(t.Context(), 6*time.Minute) // a place that never answers fails one test, not all
		t.Cleanup(cancel)
		c := exec.CommandContext(ctx, program, words...)
		c.Dir, c.WaitDelay = dir, 10*time.Second
		c.Env = append(slices.Clone(os.Environ()), append(env, "GPUBUILD_CONFIG="+filepath.Join(dir, "mine.toml"), "GPUBUILD_CACHE="+filepath.Join(dir, "cache"))...)
		return c
	}
	succeeds(t, command(nil, "cargo", "build", "--offline", "--features", "cuda"))
	return dir, command
}

// proves runs `prove` at a place and checks its code, what it says, and the finding in its answer.
func proves(t *testing.T, command func([]string, ...string) *exec.Cmd, env []string, place string, says, id string, words ...string) {
	t.Helper()
	c := command(env, append([]string{"prove", "target/debug/app", "--on", place, "--json=answer-" + place + ".json"}, words...)...)
	var errs bytes.Buffer
	c.Stderr = &errs
	err := c.Run()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	answered(t, c.Dir, place, c.ProcessState.ExitCode(), errs.String(), says, id)
}

// answered checks that a run ended with 21, with these words and this finding.
func answered(t *testing.T, dir, place string, code int, text, says, id string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "answer-"+place+".json"))
	if code != 21 || !strings.Contains(text, says) || err != nil || !strings.Contains(string(data), `"id": "`+id+`"`) {
		t.Errorf("%s ended with %d, want 21, %q and %s; %.600s %v\n%s", place, code, says, id, data, err, text)
	}
}

// onceStarted starts a command, calls strike (or interrupts it) when its program has said that it runs, and answers how the command ended.
func onceStarted(t *testing.T, c *exec.Cmd, strike func()) (int, string) {
	t.Helper()
	out, err := c.StdoutPipe()
	noError(t, err)
	var errs strings.Builder
	c.Stderr = &errs
	noError(t, c.Start())
	lines := bufio.NewScanner(out)
	struck := false
	for lines.Scan() {
		if strings.Contains(lines.Text(), "started") && !struck {
			struck = true
			if strike == nil {
				_ = c.Process.Signal(syscall.SIGINT)
			} else {
				strike()
			}
		}
	}
	_ = c.Wait()
	if !struck {
		t.Errorf("the program did not start:\n%s", errs.String())
	}
	return c.ProcessState.ExitCode(), errs.String()
}

// sshd starts a real server on a port of its own and answers its process and the words that reach it.
func sshd(t *testing.T) (server *os.Process, words string) {
	t.Helper()
	path := need.Tool(t, "ssh")
	for _, program := range []string{"ssh", "ssh-keygen"} {
		need.Program(t, "ssh", program)
	}
	dir := t.TempDir()
	for _, key := range []string{"host", "user"} {
		if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f",
			filepath.Join(dir, key)).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	noError(t, err)
	port := listener.Addr().(*net.TCPAddr).Port
	listener.Close()
	me, err := user.Current()
	noError(t, err)
	for name, text := range map[string]string{
		"sshd_config": fmt.Sprintf("Port %d\nListenAddress 127.0.0.1\nHostKey %[2]s/host\nAuthorizedKeysFile %[2]s/user.pub\nPidFile "+
			"none\nStrictModes no\nUsePAM no\n"+
			"PermitRootLogin yes\nPasswordAuthentication no\n", port, dir),
		"ssh_config": fmt.Sprintf("Host gpu\n HostName 127.0.0.1\n Port %d\n User %s\n IdentityFile %s/user\n StrictHostKeyChecking no\n"+
			" UserKnownHostsFile %[3]s/known\n LogLevel ERROR\n", port, me.Username, dir),
	} {
		noError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	_ = os.MkdirAll("/run/sshd", 0o755) // sshd's own; where it cannot be made, sshd says so
	c := exec.Command(path, "-D", "-e", "-f", filepath.Join(dir, "sshd_config"))
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	said, err := c.StderrPipe()
	noError(t, err)
	noError(t, c.Start())
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	lines := bufio.NewScanner(said)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "Server listening") {
			go func() {
				for lines.Scan() { // it may write on
				}
			}()
			return c.Process, "ssh -F " + filepath.Join(dir, "ssh_config") + " gpu"
		}
	}
	t.Fatal("sshd does not start")
	return nil, ""
}

// TestProveThroughSlurm: a proof in a real srun, and what is none: a job that never starts, one that is cancelled.
func TestProveThroughSlurm(t *testing.T) {
	env, _ := slurm(t)
	dir, command := elsewhere(t, "[on.greedy]\nplace = \"slurm\"\nargs = [\"--gres=gpu:7\"]\n[on.named]\nplace = \"slurm\"\nargs = [\"--job-name=named\"]\n")
	proves(t, command, env, "slurm", "there is no CUDA driver here", "proof.no-device")
	proves(t, command, env, "slurm", ", Slurm job ", "proof.no-device")
	proves(t, command, env, "greedy", "started nothing", "elsewhere.refused")
	code, text := onceStarted(t, command(env, "prove", "target/debug/app", "--on", "named", "--json=answer-named.json", "--", "wait"), func() {
		proves(t, command, env, "slurm", "did not start the program within 1s", "elsewhere.queue", "--queue-timeout", "1s")
		cancel := exec.Command("scancel", "--name=named", "--signal=KILL")
		cancel.Env = append(os.Environ(), env...)
		if out, err := cancel.CombinedOutput(); err != nil {
			t.Errorf("scancel: %v: %s", err, out)
		}
	})
	answered(t, dir, "named", code, text, "Not proven: target/debug/app: ", "elsewhere.incomplete")
	for _, limit := range []string{"1ms", "5ms", "10ms", "20ms", "40ms", "1ms", "80ms", "1ms", "1ms"} { // whenever srun is given up, its job is
		c := command(env, "prove", "target/debug/app", "--on", "slurm", "--queue-timeout", limit, "--", "wait")
		if out, err := c.CombinedOutput(); err == nil {
			t.Errorf("--queue-timeout %s: it ended well\n%s", limit, out)
		}
	}
	jobs := exec.Command("sh", "-c", "until [ -z \"$(squeue -h)\" ]; do [ $((n=n+1)) -lt 300 ] || { squeue; exit 1; }; sleep 0.2; done")
	jobs.Env = append(os.Environ(), env...)
	if out, err := jobs.CombinedOutput(); err != nil {
		t.Errorf("jobs are left:\n%s", out)
	}
}

// TestSlurmIsLost: of what ran when slurmd was killed no result comes, and --retry-lost runs it again when slurmd is back; the lost job is
// given up, else it would hold the GPU.
func TestSlurmIsLost(t *testing.T) {
	env, restart := slurm(t)
	_, command := elsewhere(t, "")
	words := []string{"prove", "target/debug/app", "--on", "slurm", "--timeout", "3s", "--json=answer-slurm.json"}
	code, text := onceStarted(t, command(env, append(words, "--retry-lost", "2", "--", "wait")...), restart)
	if code != 21 || !strings.Contains(text, " for 1m0s; once more (--retry-lost)") || !strings.Contains(text, "on: ") || strings.Contains(text, "elsewhere.") {
		t.Errorf("it ended with %d\n%s", code, text)
	}
	proves(t, command, env, "slurm", ", Slurm job ", "proof.no-device")
}

// TestManyProgramsThroughSlurm: nextest starts each test as a program of its own; every one has its result, in any order of their ends.
func TestManyProgramsThroughSlurm(t *testing.T) {
	need.Tool(t, "nextest")
	env, _ := slurm(t)
	dir, command := elsewhere(t, "")
	c := command(env, "nextest", "run", "--offline", "--features", "cuda", "--no-fail-fast", "--test", "small", "--test-threads", "8", "--gpu-on", "slurm",
		"--gpu-receipt", "receipt.json", "--gpu-require-proof", "small_00")
	out, err := c.CombinedOutput()
	if c.ProcessState.ExitCode() != 21 {
		t.Fatalf("%v\n%s", err, out)
	}
	type one struct {
		Test   string
		Result struct {
			Result struct{ Programs []struct{ Name, Test string } }
		}
	}
	var got struct {
		one
		More []one
	}
	data, err := os.ReadFile(filepath.Join(dir, "receipt.json"))
	names := map[string]int{} // of the tests, in the receipts and in the result
	if json.Unmarshal(data, &got) == nil {
		for _, r := range append(got.More, got.one) {
			names[r.Test]++
		}
		for _, p := range got.Result.Result.Programs {
			names[p.Name+" "+p.Test]++
		}
	}
	if said, err := command(nil, "report", "receipt.json").CombinedOutput(); err != nil || !strings.Contains(string(said), ": small small_00") {
		t.Errorf("report: %v\n%s", err, said)
	}
	if err != nil || len(got.More) != 9 || names["small_003"] != 1 || names["small small_003"] != 1 || len(names) != 20 || !strings.Contains(string(out), "10 passed") {
		t.Errorf("%d receipts, of %v, %v\n%s", 1+len(got.More), names, err, out)
	}
}

// TestProveThroughSSH: a proof through a real ssh needs nothing on the other side; a connection that is lost proves nothing and leaves nothing.
func TestProveThroughSSH(t *testing.T) {
	server, words := sshd(t)
	dir, command := elsewhere(t, fmt.Sprintf("[on.box]\ncommand = %q\n[on.lost]\ncommand = %[1]q\n[on.shut]\ncommand = %q\n[on.key]\ncommand = %q\n", words,
		"ssh -o BatchMode=yes -p 1 127.0.0.1", strings.Replace(words, "ssh", "ssh -o PubkeyAuthentication=no", 1)))
	store := filepath.Join(t.TempDir(), "there")
	env := []string{"SECRET=of this side"}
	mine, err := os.ReadFile(filepath.Join(dir, "mine.toml"))
	noError(t, err)
	mine = bytes.ReplaceAll(mine, []byte("\n[on"), fmt.Appendf(nil, "\ncache = %q\n[on", store))
	noError(t, os.WriteFile(filepath.Join(dir, "mine.toml"), mine, 0o644))
	proves(t, command, env, "box", "there is no CUDA driver here", "proof.no-device")
	proves(t, command, env, "shut", "cannot be reached", "elsewhere.unreachable")
	proves(t, command, env, "key", "started nothing", "elsewhere.refused")
	long := filepath.Join(t.TempDir(), strings.Repeat("a", 100)) // a socket's path would be too long
	noError(t, os.Mkdir(long, 0o700))
	proves(t, command, append(env, "TMPDIR="+long), "box", "there is no CUDA driver here", "proof.no-device")
	c := command(env, "prove", "target/debug/app", "--on", "box", "--", "\xff")
	if out, _ := c.CombinedOutput(); c.ProcessState.ExitCode() != 2 || strings.Contains(string(out), "Starting") {
		t.Errorf("an argument that is not UTF-8: %d\n%s", c.ProcessState.ExitCode(), out)
	}
	code, text := onceStarted(t, command(env, "prove", "target/debug/app", "--on", "lost", "--json=answer-lost.json", "--", "wait"), func() {
		children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", server.Pid))
		if err != nil {
			t.Error(err)
		}
		for _, pid := range strings.Fields(string(children)) { // the processes of the connection
			var n int
			if _, err := fmt.Sscan(pid, &n); err == nil {
				_ = syscall.Kill(n, syscall.SIGKILL)
			}
		}
	})
	answered(t, dir, "lost", code, text, "ended before the result came", "elsewhere.incomplete")
	interrupted, _ := onceStarted(t, command(env, "prove", "target/debug/app", "--on", "box", "--", "wait"), nil)
	if interrupted != 130 {
		t.Errorf("interrupted, it ended with %d", interrupted)
	}
	for range 100 { // the other side ends by itself when its connection is gone
		left, err := os.ReadDir(filepath.Join(store, "runs"))
		if err == nil && len(left) == 0 {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Error("a run's directory is left on the other side")
}

// TestInterruptedInALaterProgram: what was known by then is written.
func TestInterruptedInALaterProgram(t *testing.T) {
	dir, command := elsewhere(t, "[on.box]\ncommand = \"sh -c 'exec \\\"$@\\\"' sh\"\n")
	const waits = "#[test] fn waits() { println!(\"started\"); loop { std::thread::sleep(std::time::Duration::from_millis(100)) } }\n"
	noError(t, os.WriteFile(filepath.Join(dir, "tests", "waits.rs"), []byte(waits), 0o644))
	code, text := onceStarted(t, command(nil, "test", "--offline", "--features", "cuda", "--gpu-on", "box", "--gpu-json=known.json", "--", "--nocapture"), nil)
	data, err := os.ReadFile(filepath.Join(dir, "known.json"))
	if code != 130 || err != nil || strings.Count(string(data), `"id": "proof.no-device"`) != 2 || !strings.Contains(string(data), `"message": "interrupted"`) ||
		strings.Count(text, "Starting on box") != 1 {
		t.Errorf("it ended with %d: %s, %v\n%s", code, data, err, text)
	}
}

// TestProveInterrupted: the files that were asked for say that nothing is proven.
func TestProveInterrupted(t *testing.T) {
	dir, command := elsewhere(t, "[on.box]\ncommand = \"sh -c 'exec \\\"$@\\\"' sh\"\n")
	code, text := onceStarted(t, command(nil, "prove", "/bin/sh", "--on", "box", "--json=known.json", "--receipt", "receipt.json", "--", "-c",
		"echo started; exec sleep 600"), nil)
	answer, err := os.ReadFile(filepath.Join(dir, "known.json"))
	sealed, missing := os.ReadFile(filepath.Join(dir, "receipt.json"))
	if code != 130 || err != nil || missing != nil || !strings.Contains(string(answer), `"message": "interrupted"`) ||
		!strings.Contains(string(sealed), `"kind": "unproved"`) {
		t.Errorf("it ended with %d: %v %v\n%.900s\n%.900s\n%s", code, err, missing, answer, sealed, text)
	}
}

// TestProveInAnOlderRoot: a real root of its own (chroot) whose C library is older than the program takes: nothing is started there, and both
// versions are said. Its shell loads a newer one from another directory, as programs with a search path of their own do.
func TestProveInAnOlderRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		need.Missing(t, "mount", "only root may change the root directory")
	}
	cc, root := need.CC(t), t.TempDir()
	for _, program := range []string{"sh", "mkdir", "head", "wc", "mv", "rm", "uname", "id", "chmod"} {
		from := need.Program(t, "sh", program)
		listed, err := exec.Command("ldd", from).Output()
		noError(t, err)
		files := []string{from}
		for _, word := range strings.Fields(string(listed)) {
			if strings.HasPrefix(word, "/") {
				files = append(files, word)
			}
		}
		for _, file := range files {
			to := filepath.Join(root, file)
			if filepath.Dir(file) == "/usr/bin" {
				to = filepath.Join(root, "bin", filepath.Base(file))
			}
			data, err := os.ReadFile(file)
			noError(t, errors.Join(err, os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, data, 0o755)))
		}
	}
	writeFiles(t, root, map[string]string{"old.c": "int gnu_get_libc_version(void) { return 0; }\n", "old.map": "GLIBC_2.2.5 { gnu_get_libc_version; };\nGLIBC_2.17 { };\n"})
	for _, dir := range []string{"lib64", "dev", "proc"} {
		noError(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
	}
	if err := syscall.Mount("proc", filepath.Join(root, "proc"), "proc", 0, ""); err != nil {
		need.Missing(t, "mount", "mount: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(filepath.Join(root, "proc"), syscall.MNT_DETACH) })
	if err := os.WriteFile(filepath.Join(root, "dev", "null"), nil, 0o666); err != nil { // a file does: the shell only writes to it
		t.Fatal(err)
	}
	if out, err := exec.Command(cc, "-shared", "-fPIC", "-nostdlib", "-Wl,-soname,libc.so.6,--version-script="+filepath.Join(root, "old.map"), "-o",
		filepath.Join(root, "lib64", "libc.so.6"), filepath.Join(root, "old.c")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	_, command := elsewhere(t, fmt.Sprintf("[on.older]\ncommand = \"chroot %s\"\ncache = \"/store\"\n", root))
	c := command([]string{"TMPDIR=/tmp"}, "prove", "target/debug/app", "--on", "older", "--json=older.json")
	var out, errs strings.Builder
	c.Stdout, c.Stderr = &out, &errs
	_ = c.Run() // its exit code is looked at
	if c.ProcessState.ExitCode() != 21 || out.String() != "" || !strings.Contains(errs.String(), "needs glibc 2.") ||
		!strings.Contains(errs.String(), "has glibc 2.17") {
		t.Errorf("it ended with %d\n%s%s", c.ProcessState.ExitCode(), out.String(), errs.String())
	}
	if data, err := os.ReadFile(filepath.Join(c.Dir, "older.json")); err != nil || !strings.Contains(string(data), `"id": "elsewhere.refused"`) {
		t.Errorf("%s, %v", data, err)
	}
}
