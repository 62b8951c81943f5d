//go:build linux

package cli_test

import (
	"bufio"
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

// slurm starts a real Slurm of one node with one GPU that is none (/dev/null), without munge, and answers what makes srun find it.
func slurm(t *testing.T) []string {
	t.Helper()
	for _, program := range []string{"slurmctld", "slurmd", "srun", "sinfo"} {
		need.Program(t, "slurm", program)
	}
	if os.Geteuid() != 0 {
		need.Missing(t, "slurm", "slurmd wants to be root")
	}
	dir := t.TempDir()
	host, err := exec.Command("hostname", "-s").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"state", "spool"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
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
	for name, text := range map[string]string{"slurm.conf": conf, "gres.conf": "Name=gpu File=/dev/null\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	env := "SLURM_CONF=" + filepath.Join(dir, "slurm.conf")
	for _, daemon := range []string{"slurmctld", "slurmd"} {
		c := exec.Command(daemon, "-D")
		c.Env = append(os.Environ(), env)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = c.Process.Kill()
			_ = c.Wait()
		})
	}
	for range 100 {
		c := exec.Command("sinfo", "-h", "-o", "%T")
		c.Env = append(os.Environ(), env)
		if out, err := c.Output(); err == nil && strings.TrimSpace(string(out)) == "idle" {
			return []string{env}
		}
		time.Sleep(200 * time.Millisecond)
	}
	log, _ := os.ReadFile(filepath.Join(dir, "slurmctld.log"))
	t.Fatalf("Slurm does not start:\n%s", log)
	return nil
}

// archived is a project whose row is compiled and archived; places are its [[matrix.prove]] tables. The program says that it has started
// and, asked for, never ends.
func archived(t *testing.T, places string) (dir string, command func(env []string, words ...string) *exec.Cmd) {
	t.Helper()
	need.Tool(t, "cargo")
	if exists("/dev/nvidia0") {
		need.Missing(t, "no-gpu", "there is a GPU here")
	}
	dir = t.TempDir()
	for name, text := range map[string]string{
		"Cargo.toml": "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[features]\ncuda = []\n",
		"Cargo.lock": "version = 3\n\n[[package]]\nname = \"app\"\nversion = \"0.1.0\"\n",
		"src/main.rs": "fn main() { println!(\"started\"); if cfg!(feature = \"cuda\") && std::env::args().count() > 1 { loop { " +
			"println!(\"waiting\"); std::thread::sleep(std::time::Duration::from_millis(100)) } } }\n",
		"gpubuild.toml": "[matrix]\nfeatures = [\"cuda\"]\nargs = [\"--offline\"]\n" + places,
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	program := binary(t)
	command = func(env []string, words ...string) *exec.Cmd {
		c := exec.Command(program, words...)
		c.Dir = dir
		c.Env = append(slices.Clone(os.Environ()), append(env, "GPUBUILD_CACHE="+filepath.Join(dir, "cache"))...)
		return c
	}
	if code, text := ended(t, command(nil, "ci", "run", archivedRow)); code != 0 || !strings.Contains(text, "Archived") {
		t.Fatalf("ended with %d:\n%s", code, text)
	}
	return dir, command
}

const archivedRow = "cuda-linux-x86_64-dev"

// proves checks what a row that proves ends with, says and leaves.
func proves(t *testing.T, dir, place string, c *exec.Cmd, code int, says, leaves string) {
	t.Helper()
	got, text := ended(t, c)
	data, err := os.ReadFile(filepath.Join(dir, "target/gpubuild-ci/results/prove-"+place+"-"+archivedRow, "prove.json"))
	if got != code || !strings.Contains(text, says) || err != nil || !strings.Contains(string(data), leaves) {
		t.Errorf("%s ended with %d, want %d and %q; it left %.400s, %v, want %q:\n%s", place, got, code, says, data, err, leaves, text)
	}
}

// onceStarted starts a command, calls strike when its program has said that it runs, and answers how the command ended.
func onceStarted(t *testing.T, c *exec.Cmd, strike func()) (int, string) {
	t.Helper()
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var errs strings.Builder
	c.Stderr = &errs
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	struck := false
	for lines.Scan() {
		if strings.Contains(lines.Text(), "started") && !struck {
			struck = true
			strike()
		}
	}
	_ = c.Wait()
	if !struck {
		t.Errorf("the program did not start:\n%s", errs.String())
	}
	return c.ProcessState.ExitCode(), errs.String()
}

// lost checks that a proof of which no result came back is none, nor is one that came to an end of its own: Slurm sends SIGTERM before
// SIGKILL, and then the program's watcher may still write what it saw.
func lost(t *testing.T, dir, place string, code int, text string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "target/gpubuild-ci/results/prove-"+place+"-"+archivedRow, "prove.json"))
	none := strings.Contains(string(data), `"verdict": "unproved"`) || strings.Contains(string(data), `"kind": "no device"`)
	if code == 0 || !strings.Contains(text, "Not proven: ") || err != nil || !none {
		t.Errorf("%s ended with %d and left %.300s, %v:\n%s", place, code, data, err, text)
	}
}

// TestProofRowThroughSlurm: a proof in a real srun ends with the proof's own code, also where srun itself answers 143 because it kills the
// other tasks than the one that failed; a job that is killed or never starts proves nothing.
func TestProofRowThroughSlurm(t *testing.T) {
	env := slurm(t)
	dir, command := archived(t, `[[matrix.prove]]
name = "two"
wrapper = "srun --gres=gpu:1 --ntasks=2 --overcommit --label --kill-on-bad-exit=1"
[[matrix.prove]]
name = "never"
wrapper = "srun --gres=gpu:7 --immediate=1"
[[matrix.prove]]
name = "killed"
args = ["wait"]
wrapper = "srun --gres=gpu:1 --job-name=killed"
`)
	run := func(place string) *exec.Cmd {
		return command(env, "ci", "run", "prove-"+place+"-"+archivedRow, "--only", "prove")
	}
	proves(t, dir, "two", run("two"), 21, "there is no CUDA driver here", `"compile_row": "`+archivedRow+`"`)
	proves(t, dir, "never", run("never"), 1, "no result of a proof came back", `"verdict": "unproved"`)
	code, text := onceStarted(t, run("killed"), func() {
		cancel := exec.Command("scancel", "--name=killed", "--signal=KILL")
		cancel.Env = append(os.Environ(), env...)
		if out, err := cancel.CombinedOutput(); err != nil {
			t.Errorf("scancel: %v: %s", err, out)
		}
	})
	lost(t, dir, "killed", code, text)
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
	if err != nil {
		t.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	listener.Close()
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"sshd_config": fmt.Sprintf("Port %d\nListenAddress 127.0.0.1\nHostKey %[2]s/host\nAuthorizedKeysFile %[2]s/user.pub\nPidFile "+
			"none\nStrictModes no\nUsePAM no\n"+
			"PermitRootLogin yes\nPasswordAuthentication no\n", port, dir),
		"ssh_config": fmt.Sprintf("Host gpu\n HostName 127.0.0.1\n Port %d\n User %s\n IdentityFile %s/user\n StrictHostKeyChecking no\n"+
			" UserKnownHostsFile %[3]s/known\n LogLevel ERROR\n", port, me.Username, dir),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_ = os.MkdirAll("/run/sshd", 0o755) // sshd's own; where it cannot be made, sshd says so
	c := exec.Command(path, "-D", "-e", "-f", filepath.Join(dir, "sshd_config"))
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	said, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
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

// TestProofRowThroughSSH: a proof through a real ssh needs nothing on the other side; a connection that is lost proves nothing.
func TestProofRowThroughSSH(t *testing.T) {
	server, words := sshd(t)
	dir, command := archived(t, fmt.Sprintf("[[matrix.prove]]\nname = \"there\"\nwrapper = %q\n[[matrix.prove]]\nname = \"lost\"\nargs "+
		"= [\"wait\"]\nwrapper = %[1]q\n", words))
	run := func(place string) *exec.Cmd {
		return command([]string{"SECRET=of this side"}, "ci", "run", "prove-"+place+"-"+archivedRow, "--only", "prove")
	}
	proves(t, dir, "there", run("there"), 21, "there is no CUDA driver here", `"archive": "`)
	code, text := onceStarted(t, run("lost"), func() {
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
	lost(t, dir, "lost", code, text)
}
