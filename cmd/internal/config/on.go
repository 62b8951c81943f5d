package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kballard/go-shellquote"

	"gpubuild/buildenv/lazyregexp"
)

// On is an [on.NAME] table: another machine on which programs run.
type On struct {
	// The command that starts a shell there with the words that follow, and passes standard input on: "kubectl exec -i job/gpubuild --".
	Command string `toml:"command"`
	// In place of a command: slurm, or ssh:[USER@]HOST[:PORT].
	Place string `toml:"place"`
	// Further arguments of that command, such as "--partition=a100".
	Args []string `toml:"args"`
	// The directory there in which files are kept, from the root. Default: gpubuild's cache directory.
	Cache string `toml:"cache"`
	// How much is kept there after a run, such as "20G". What was not used for longest is removed, nothing of the last hour. Default: 20G.
	Limit string `toml:"limit"`
	// How long it may print nothing before it answers, such as "10m". Default: "1m", at a terminal "5m", with Slurm and Kubernetes no
	// limit.
	ConnectTimeout string `toml:"connect-timeout"`
}

const onKeys = "[on.NAME]: command, place, args, cache, limit, connect-timeout"

var placeName = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

// checkOn rejects a table that leads nowhere.
func (s Source) checkOn(tables map[string]On) error {
	for _, name := range slices.Sorted(maps.Keys(tables)) {
		on := tables[name]
		bad := func(key, problem, fix string) error { return s.wrong("on."+name+": "+problem, fix, "on", name, key) }
		switch {
		case !placeName.MatchString(name):
			return bad("", "letters, digits, _, . and - make a name", `[on.cluster]`)
		case on.Command == "" && on.Place == "" && name != "slurm", on.Command != "" && on.Place != "":
			return bad("command", "give either a command or a place", `command = "kubectl exec -i job/gpubuild --"`)
		case on.Cache != "" && !strings.HasPrefix(on.Cache, "/"):
			return bad("cache", fmt.Sprintf("%.200q is not an absolute path", on.Cache), `cache = "/scratch/me/gpubuild"`)
		case !noControl(strings.Join(append([]string{on.Command, on.Place, on.Cache}, on.Args...), "")):
			return bad("command", "control characters cannot be part of a command", "remove them")
		}
		if words, err := shellquote.Split(on.Command); err != nil || on.Command != "" && len(words) == 0 {
			return bad("command", "it has an open quote or no word", "close it")
		}
		if _, err := ParseSize(on.Limit); err != nil {
			return bad("limit", fmt.Sprintf("%.200q is not a size", on.Limit), `limit = "20G"`)
		}
		if d, err := time.ParseDuration(on.ConnectTimeout); on.ConnectTimeout != "" && (err != nil || d <= 0) {
			return bad("connect-timeout", fmt.Sprintf("%.200q is not a duration", on.ConnectTimeout), `connect-timeout = "10m"`)
		}
	}
	return nil
}

// ParseSize reads a number of bytes: 500M, 20G; 0 for an empty text.
func ParseSize(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	unit := int64(1)
	switch text[len(text)-1] {
	case 'M':
		unit = 1e6
	case 'G':
		unit = 1e9
	case 'T':
		unit = 1e12
	}
	if unit > 1 {
		text = text[:len(text)-1]
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err == nil && n <= 0 {
		err = strconv.ErrRange
	}
	return n * unit, err
}
