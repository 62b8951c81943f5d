package elsewhere

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/local"
	"gpubuild/cmd/internal/console"
	"gpubuild/cmd/internal/proof"
	"gpubuild/cmd/internal/session"
	"gpubuild/toolchain/explain"
)

// acted is a place's command that a test plays; nonce is that of its bootstrap. It ends with 1, or as soon as it is killed.
type acted func(ctx context.Context, c buildenv.Cmd, nonce string)

func (a acted) Run(ctx context.Context, c buildenv.Cmd) (buildenv.Result, error) {
	a(ctx, c, strings.Fields(c.Args[len(c.Args)-1][strings.Index(c.Args[len(c.Args)-1], "n="):])[0][len("n="):])
	if ctx.Err() != nil {
		return buildenv.Result{}, ctx.Err()
	}
	return buildenv.Result{Code: 1}, nil
}

// says writes a text every period until the command is killed, or n times.
func says(ctx context.Context, to io.Writer, text string, period time.Duration, n int) {
	for range n {
		select {
		case <-ctx.Done():
			return
		case <-time.After(period):
			_, _ = io.WriteString(to, text)
		}
	}
}

// TestSilentPlaces: a place that does not answer is given up, and until it answers only its stderr is shown, as lines of gpubuild's own.
// The clock is synctest's.
func TestSilentPlaces(t *testing.T) {
	self := file{From: filepath.Join(t.TempDir(), "gpubuild"), SHA256: sumOf("x"), Size: 128 << 10}
	hosttest.OK(t, os.WriteFile(self.From, make([]byte, self.Size), 0o600))
	const ssh, srun, forever = "/usr/bin/ssh", "/usr/bin/srun", 1 << 30
	silent := func(ctx context.Context, c buildenv.Cmd, nonce string) { <-ctx.Done() }
	for _, tt := range []struct {
		story    string
		command  string
		terminal bool
		connect  time.Duration
		does     acted
		after    time.Duration
		want     string // of why; empty: it answered
		shown    string // on stderr
	}{
		{"silent", ssh, false, 0, silent, time.Minute, "box has not answered: nothing came from it for 1m0s", "for box: it has not started after 30s (--connect-timeout"},
		{"silent, and somebody may have to log in", ssh, true, 0, silent, 5 * time.Minute, "nothing came from it for 5m0s", ""},
		{"silent for as long as the user allows", ssh, true, time.Hour, silent, time.Hour, "nothing came from it for 1h0m0s", "after 59m30s"},
		{"in a queue", srun, false, 0, func(ctx context.Context, c buildenv.Cmd, nonce string) {
			says(ctx, c.Stderr, "srun: job 1 queued\n", 24*time.Hour, 2)
		}, 48 * time.Hour, "box started nothing (srun ended with 1: srun: job 1 queued)", "--queue-timeout"},
		{"in a queue, with a limit of the user's", srun, false, time.Hour, silent, time.Hour, "nothing came from it for 1h0m0s", ""},
		{"a queue behind ssh", "/usr/bin/ssh login srun -N1", false, 0, func(ctx context.Context, c buildenv.Cmd, nonce string) {
			says(ctx, c.Stderr, "granted\n", 24*time.Hour, 1)
		}, 24 * time.Hour, "started nothing", ""},
		{"prints for ever", ssh, false, 0, func(ctx context.Context, c buildenv.Cmd, nonce string) {
			says(ctx, c.Stdout, "x", 50*time.Second, forever)
		}, 10 * time.Minute, "box prints, but has not answered for 10m0s", ""},
		{"prints errors for ever", ssh, false, 0, func(ctx context.Context, c buildenv.Cmd, nonce string) {
			says(ctx, c.Stderr, strings.Repeat("ERR\n", 1000), 50*time.Second, forever)
		}, 10 * time.Minute, "box prints, but has not answered for 10m0s", "note: what else ssh prints is not shown\n"},
		{"a login that is shown, then nothing", ssh, false, 0, func(ctx context.Context, c buildenv.Cmd, nonce string) {
			says(ctx, c.Stdout, "\x1b]0;owned\a raw\n"+greeting+" other have x86_64 -.\n", 20*time.Second, 1)
			says(ctx, c.Stderr, "open https://login.example/\x1b[2J", 20*time.Second, 1)
			says(ctx, c.Stderr, "code=1\r\nthen", 20*time.Second, 1)
			<-ctx.Done()
		}, 2 * time.Minute, "nothing came from it for 1m0s", "ssh open https://login.example/\\x1b[2Jcode=1\n"},
		{"silent behind the greeting", ssh, false, 0, func(ctx context.Context, c buildenv.Cmd, nonce string) {
			fmt.Fprintf(c.Stdout, "%s %s have any -.\n", greeting, nonce)
			says(ctx, c.Stdout, "noise\n", 50*time.Second, forever)
		}, time.Minute, "box began, but did not start gpubuild: nothing happened for 1m0s", ""},
		{"in a queue, and silent behind the greeting", srun, false, 0, func(ctx context.Context, c buildenv.Cmd, nonce string) {
			says(ctx, c.Stdout, fmt.Sprintf("%s %s have any -.\n", greeting, nonce), time.Hour, 1)
			<-ctx.Done()
		}, time.Hour + time.Minute, "nothing happened for 1m0s", ""},
		{"takes gpubuild slowly, then nothing more", ssh, false, 0, func(ctx context.Context, c buildenv.Cmd, nonce string) {
			fmt.Fprintf(c.Stdout, "%s %s send any -.\n", greeting, nonce)
			for range 3 { // of 4 pieces
				says(ctx, io.Discard, "", 50*time.Second, 1)
				_, _ = io.CopyN(io.Discard, c.Stdin, 32<<10)
			}
			<-ctx.Done()
		}, 150*time.Second + time.Minute, "nothing happened for 1m0s", ""},
		{"changes what it passes on, and does not end", ssh, false, time.Second, func(ctx context.Context, c buildenv.Cmd, nonce string) {
			fmt.Fprintf(c.Stdout, "%s %s have any -.\r\n", greeting, nonce)
			<-ctx.Done()
		}, time.Second, "box: what came back was changed on the way", ""},
		{"silent behind its last greeting", ssh, false, 2 * time.Second, func(ctx context.Context, c buildenv.Cmd, nonce string) {
			fmt.Fprintf(c.Stdout, "%s %s have any -.\n%s %[2]s\n", greeting, nonce, ready)
			<-ctx.Done()
		}, 2 * time.Second, "box started gpubuild, which does not answer: nothing came from it for 2s", ""},
		{"answers late", ssh, false, 0, func(ctx context.Context, c buildenv.Cmd, nonce string) {
			says(ctx, c.Stdout, fmt.Sprintf("%s %s have any -.\n", greeting, nonce), 59*time.Second, 1)
			says(ctx, c.Stdout, fmt.Sprintf("%s %s\n", ready, nonce), 59*time.Second, 1)
			_, _ = io.CopyN(io.Discard, c.Stdin, 1) // of the session's
		}, 0, "the connection to box ended before the result came", ""},
	} {
		t.Run(tt.story, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				shown := &explain.Tail{}
				m := &session.Machine{Runner: tt.does, Host: buildenv.Host{OS: buildenv.Linux, Cwd: "/"},
					Shell: &console.Shell{Out: io.Discard, Err: shown, ErrTerminal: tt.terminal}}
				p := proof.Place{On: proof.On{Name: "box", Connect: tt.connect}, Command: strings.Fields(tt.command), Prefix: "--"}
				began := time.Now()
				l, err := start(t.Context(), m, p, self)
				if err != nil {
					t.Fatal(err)
				}
				select {
				case <-l.over:
				case <-time.After(99 * time.Hour):
					t.Error("it was never given up")
					l.kill(nil)
					<-l.over
				}
				synctest.Wait()
				if took := time.Since(began); tt.after > 0 && took != tt.after {
					t.Errorf("it was given up after %s, want %s", took, tt.after)
				}
				if !strings.Contains(l.why.Error(), tt.want) {
					t.Errorf("why: %v, want %q", l.why, tt.want)
				}
				if text := string(shown.Text()); !strings.Contains(text, tt.shown) || strings.ContainsAny(text, "\x1b\a\r") || strings.Contains(text, "raw") ||
					strings.Contains(text, "noise") || strings.Count(text, "ERR") > mostLines+1 || strings.Contains(text, greeting) {
					t.Errorf("shown, want %q:\n%s", tt.shown, text)
				}
			})
		})
	}
}

// TestSrunThatIsGivenUp: Slurm may have made its job by then, which is cancelled by its name, or by its number once that is known.
func TestSrunThatIsGivenUp(t *testing.T) {
	self := file{From: filepath.Join(t.TempDir(), "gpubuild"), SHA256: sumOf("x"), Size: 128}
	hosttest.OK(t, os.WriteFile(self.From, make([]byte, self.Size), 0o600))
	bin := t.TempDir()
	for _, name := range []string{"srun", "scancel"} {
		hosttest.OK(t, os.WriteFile(filepath.Join(bin, name), nil, 0o700))
	}
	for greets, want := range map[string]string{"": "--name=gpubuild-NONCE", "7.0": "7"} {
		host := hosttest.Must(local.Host())(t)
		host.Env = host.Env.Set("PATH", bin).Unset("SLURM_JOB_ID")
		began, canceled, of := make(chan bool, 1), "", ""
		m := &session.Machine{Host: host, Shell: &console.Shell{Out: io.Discard, Err: io.Discard}}
		m.Runner = runnerFunc(func(ctx context.Context, c buildenv.Cmd) (buildenv.Result, error) {
			if filepath.Base(c.Path) == "scancel" {
				canceled = strings.Join(c.Args, " ")
				return buildenv.Result{}, nil
			}
			for _, v := range c.Env {
				if name, ok := strings.CutPrefix(v, "SLURM_JOB_NAME=gpubuild-"); ok {
					of = name
				}
			}
			if greets != "" {
				fmt.Fprintf(c.Stdout, "%s %s have any -%s\n", greeting, of, greets)
			}
			began <- true
			<-ctx.Done()
			return buildenv.Result{}, ctx.Err()
		})
		l, err := start(t.Context(), m, proof.Place{On: proof.On{Name: "slurm"}, Command: []string{"srun"}}, self)
		if err != nil {
			t.Fatal(err)
		}
		<-began
		l.leave()
		hosttest.Equal(t, strings.ReplaceAll(canceled, of, "NONCE"), want, "scancel, greeted "+greets)
	}
}

type runnerFunc func(context.Context, buildenv.Cmd) (buildenv.Result, error)

func (r runnerFunc) Run(ctx context.Context, c buildenv.Cmd) (buildenv.Result, error) {
	return r(ctx, c)
}

// TestAsksForAnotherFile: a place gets the files that were offered, and no other.
func TestAsksForAnotherFile(t *testing.T) {
	t.Parallel()
	c := &client{place: proof.Place{On: proof.On{Name: "box"}}, shell: &session.Machine{Shell: &console.Shell{Err: io.Discard}}}
	err := c.sendFiles([]string{"../../etc/passwd"})
	if why, is := errors.AsType[*Error](err); !is || !strings.Contains(why.What, `box asked for a file that it was not offered: "../../etc/passwd"`) {
		t.Errorf("%v", err)
	}
}
