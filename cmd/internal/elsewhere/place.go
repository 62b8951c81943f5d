package elsewhere

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kballard/go-shellquote"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/lazyregexp"
	"gpubuild/cmd/internal/config"
	"gpubuild/cmd/internal/proof"
	"gpubuild/cmd/internal/session"
	"gpubuild/cmd/internal/tools"
	"gpubuild/gpu/probe"
)

// Resolve finds the place that a command line names; nil: it names none. prefix is how that command line's flags begin.
func Resolve(s *session.Session, o proof.Options, trusted bool, prefix string) (*proof.Place, error) {
	h, on := s.Machine.Host, o.On
	if on.Name == "" {
		if len(on.Send)+len(on.SendEnv)+on.Retry > 0 || on.Queue > 0 || on.Connect > 0 {
			return nil, &exit.UsageError{What: fmt.Sprintf("%[1]ssend, %[1]ssend-env, %[1]squeue-timeout, %[1]sconnect-timeout and %[1]sretry-lost "+
				"are for a program that runs on another machine", prefix), Fix: "add " + prefix + "on PLACE"}
		}
		return nil, nil
	}
	switch fix := "run gpubuild on that machine"; {
	case o.Backend == probe.Vulkan:
		return nil, &exit.UsageError{What: "with " + prefix + "on only CUDA is recorded", Fix: fix}
	case h.OS != buildenv.Linux:
		return nil, &exit.UsageError{What: "programs are sent to another machine from Linux only, WSL2 included", Fix: fix}
	}
	user, err := tools.User(h)
	if err != nil {
		return nil, err
	}
	root := h.Cwd
	if s.Project != nil {
		root = s.Project.Root
	}
	found, err := Parse(h, on.Name, s.Config.On.Value, user.On)
	if err != nil {
		return nil, err
	}
	_, theirs := s.Config.On.Value[on.Name]
	if _, mine := user.On[on.Name]; theirs && !mine && !trusted {
		top := h.Real(cmp.Or(h.Repository(h.Real(root)), root))
		if !slices.ContainsFunc(user.Trust, func(dir string) bool { return h.Below(top, h.Real(dir)) }) {
			return nil, exit.Errorf(exit.Config, fmt.Sprintf("if you trust it: %strust-project, or trust = [%q] in your own configuration "+
				"(`gpubuild help config`); or define [on.%s] there", prefix, top, on.Name),
				"[on.%s] in %s names a command, and gpubuild runs no command of a repository without your consent", on.Name,
				s.Config.On.Origin)
		}
	}
	on.Connect = cmp.Or(on.Connect, found.Connect)
	found.On, found.Root, found.Prefix = on, root, prefix
	for i, name := range found.Send { // the program may be started in another directory
		found.Send[i] = h.Abs(name)
	}
	return &found, nil
}

// Parse reads a PLACE: ssh:[USER@]HOST[:PORT], slurm, or a name of an [on.NAME] table, of which the user's own come first.
func Parse(h buildenv.Host, word string, tables map[string]config.On, own map[string]config.On) (proof.Place, error) {
	on, named := tables[word]
	if mine, is := own[word]; is {
		on, named = mine, true
	}
	p := proof.Place{On: proof.On{Name: word}, Dir: on.Cache, Limit: on.Limit}
	p.Connect, _ = time.ParseDuration(on.ConnectTimeout) // config has checked it; empty: 0
	words, err := shellquote.Split(on.Command)
	host, isHost := strings.CutPrefix(cmp.Or(on.Place, word), "ssh:")
	switch {
	case err != nil:
	case len(words) > 0:
		p.Command, p.Joined = append(words, on.Args...), h.Base(words[0]) == "ssh"
	case isHost:
		if words, err = ssh(host); err == nil {
			p.Command, p.Joined = slices.Concat(words[:1], on.Args, words[1:]), true
		}
	case host == "slurm":
		p.Command = append(slurm(h), on.Args...)
	case named:
		err = &exit.UsageError{What: fmt.Sprintf("[on.%s] place = %.200q is neither slurm nor ssh:[USER@]HOST[:PORT]", word, on.Place),
			Fix: `anything else is a command, such as command = "kubectl exec -i job/gpubuild --"`}
	default:
		names := slices.AppendSeq(slices.Collect(maps.Keys(tables)), maps.Keys(own))
		slices.Sort(names)
		names = append([]string{"slurm"}, slices.Compact(names)...)
		err = &exit.UsageError{What: fmt.Sprintf("no place is called %.200q", word), Fix: fmt.Sprintf("ssh:%s if it is a host; places: %s; "+
			"[on.%[1]s] of gpubuild.toml or your own configuration defines it", word, strings.Join(names, ", "))}
	}
	return p, err
}

// sshPlace is [USER@]HOST[:PORT]; HOST may be an IPv6 address, in brackets before a port. ssh would read a hyphen in front as an option.
var sshPlace = lazyregexp.New(
	`^(?:([^-@\s][^@\s]*)@)?(\[[^-\]\s][^\]\s]*\]|[^-:@\[\s][^:@\s]*|[^-:@\[\s]*:[^@\s]*:[^@\s]*)(?::(\d+))?$`)

// ssh is the command that reaches a host.
func ssh(place string) ([]string, error) {
	m := sshPlace.FindStringSubmatch(place)
	if m == nil {
		return nil, &exit.UsageError{What: fmt.Sprintf("ssh:%s names no host", place), Fix: "ssh:[USER@]HOST[:PORT]"}
	}
	words := []string{"ssh", "-T", "-oServerAliveInterval=15", "-oServerAliveCountMax=4"}
	if port := m[3]; port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return nil, exit.Usagef("give a port from 1 to 65535", "ssh:%s: no port has the number %s", place, port)
		}
		words = append(words, "-p", port)
	}
	if user := m[1]; user != "" {
		words = append(words, "-l", user)
	}
	return append(words, "--", strings.Trim(m[2], "[]")), nil
}

// slurm is one task: in the allocation that gpubuild runs in, else in a job of its own with one GPU. Unbuffered: srun(1) holds back bytes
// without a line feed otherwise. The first interrupt gives the job up: an srun that is killed leaves its job running.
func slurm(h buildenv.Host) []string {
	words := []string{"srun", "--nodes=1", "--ntasks=1", "--unbuffered", "--quit-on-interrupt"}
	if h.Env.Get("SLURM_JOB_ID") != "" {
		return append(words, "--overlap")
	}
	return append(words, "--gres=gpu:1")
}

// Error is what kept a program from being run, or its result from coming back. It is never a verdict.
type Error struct {
	ID   string `json:"id,omitempty"` // of the finding; empty: no matter of the place
	What string `json:"what"`
	Fix  string `json:"fix,omitempty"`
}

// IDs of what can go wrong.
const (
	IDUnreachable = "elsewhere.unreachable"
	IDRefused     = "elsewhere.refused"
	IDQueue       = "elsewhere.queue"
	IDTimeout     = "elsewhere.timeout"
	IDIncomplete  = "elsewhere.incomplete"
)

func (e *Error) Error() string     { return e.What }
func (e *Error) Hint() string      { return e.Fix }
func (e *Error) ExitCode() int     { return exit.Unproved }
func (e *Error) FindingID() string { return e.ID }
