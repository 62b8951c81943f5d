// Package explain finds known causes in the text of a failed build or run: each rule of rules.toml that a line confirms is answered with
// what it means and what to do.
//
// It is pure: it reads no file and asks nothing of the machine. A line is matched only by a rule's whole regular expression, never by a
// loose word, and a failure that no rule knows is said to be unknown, with the first lines that look like errors.
//
// It owns the format of rules.toml. Limits: the last 16 MiB of a text are read; of a line that is longer than 4 KiB the part around the
// literal is seen; the lines around a line, for rules that ask for them, are 12 to each side and at most 8 KiB; text that changes its
// encoding midway is read in the encoding that it began with.
package explain

import (
	_ "embed"
	"fmt"
	"math"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"

	"github.com/BurntSushi/toml"

	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/lazyregexp"
)

//go:embed rules.toml
var rulesText string

// Kind says how much a rule's line explains.
type Kind string

// Kinds, in the order in which findings are printed.
const (
	Cause       Kind = "cause"       // explains the failure by itself
	Consequence Kind = "consequence" // follows from something that the log may name elsewhere
	General     Kind = "general"     // what a tool says is missing or refused; of use where no other rule knows the failure
	Umbrella    Kind = "umbrella"    // says only that a part failed
	Note        Kind = "note"        // stands in the logs of good builds, too
	Silent      Kind = "silent"      // leaves no text
)

func (k Kind) order() int {
	return slices.Index([]Kind{Cause, Consequence, General, Umbrella, Note, Silent}, k)
}

// Stages are the parts of a build or run in which a rule's failure shows, in a reader's words.
var Stages = map[string]string{
	"locate": "finding the tools", "configure": "configuring", "compile-host": "compiling for the host",
	"compile-nvcc": "compiling kernels", "link": "linking", "load": "starting the program", "run": "running",
	"silent-cpu": "running on the CPU", "stale": "stale artifacts",
}

// Rule is one known failure.
type Rule struct {
	ID       string   `toml:"id" json:"id"`
	Kind     Kind     `toml:"kind" json:"kind"`
	Stage    string   `toml:"stage" json:"stage"`
	On       []string `toml:"on" json:"-"`
	Of       string   `toml:"of" json:"-"`
	Codes    []string `toml:"codes" json:"codes,omitempty"`
	Cause    string   `toml:"cause" json:"cause"`
	Fix      string   `toml:"fix" json:"fix"`
	Windows  string   `toml:"windows" json:"-"`
	Command  string   `toml:"command" json:"command,omitempty"`
	Commands []string `toml:"commands" json:"-"`
	Here     []string `toml:"here" json:"-"`
	Source   []string `toml:"source" json:"source"`
	Examples []string `toml:"examples" json:"-"`

	Confirm *regexp.Regexp `toml:"confirm" json:"-"`
	Near    *regexp.Regexp `toml:"near" json:"-"`
	Not     *regexp.Regexp `toml:"not" json:"-"`
	NotNear *regexp.Regexp `toml:"not-near" json:"-"`

	owners []*Owner
}

// Owner is a package or an interface, and how to get it, by the names of its headers, functions and so on: the kinds that a rule's of
// names.
type Owner struct {
	Is    string                    `toml:"is"`
	Get   string                    `toml:"get"`
	Names map[string]*regexp.Regexp `toml:"names"`
}

// Speaker is a tool that says error lines, and what to look at next where no rule knows the cause. $name is a group of says.
type Speaker struct {
	Is    string         `toml:"is"`
	Next  string         `toml:"next"`
	Cause string         `toml:"cause"` // where its lines say themselves what is wrong; ends in what they say
	Part  bool           `toml:"part"`  // it says only that a part failed, not why
	Own   bool           `toml:"own"`   // it is gpubuild
	Says  *regexp.Regexp `toml:"says"`
}

// Rules are a table of known failures, ready to search with.
type Rules struct {
	All      []*Rule
	speakers []*Speaker
}

// Default returns the rules that are part of this program, parsed once: nobody changes them.
var Default = sync.OnceValues(func() (*Rules, error) { return Parse(rulesText) })

// Parse reads a table of rules; the tests check the one of this program.
func Parse(text string) (*Rules, error) {
	var file struct {
		Rule    []*Rule    `toml:"rule"`
		Owner   []*Owner   `toml:"owner"`
		Speaker []*Speaker `toml:"speaker"`
	}
	meta, err := toml.Decode(text, &file)
	if err != nil {
		return nil, err
	}
	if odd := meta.Undecoded(); len(odd) > 0 {
		return nil, fmt.Errorf("rules.toml: the key %s is not known", odd[0])
	}
	rs := &Rules{All: file.Rule, speakers: file.Speaker}
	for _, r := range rs.All {
		r.owners = file.Owner
	}
	return rs, nil
}

// OfPrograms are the rules for the output of a program that was built: it starts no compiler, so that none speaks there.
func (rs *Rules) OfPrograms() *Rules {
	return &Rules{speakers: rs.speakers, All: slices.DeleteFunc(slices.Clone(rs.All), func(r *Rule) bool {
		return slices.Contains([]string{"compile-host", "compile-nvcc", "link"}, r.Stage)
	})}
}

// toolCode is a code of Microsoft's tools or of Windows. Those, and CUDA's statuses, general rules know, too.
var toolCode = lazyregexp.New(`(?i)^((LNK|MSB|C|D)\d{4}|0x[0-9a-f]{8})$`)

// Lookup finds rules by id, or by a code such as LNK1181 or CUDA_ERROR_NO_DEVICE, in any case of letters. A status of Windows may be a
// number, as %ERRORLEVEL% shows it.
func (rs *Rules) Lookup(code string) []*Rule {
	var byCode []*Rule
	code = string(driverNames([]byte(code)))
	if n, err := strconv.ParseInt(code, 0, 64); err == nil && n >= math.MinInt32 && n <= math.MaxUint32 && uint32(n)>>30 == 3 {
		code = fmt.Sprintf("0x%08x", uint32(n))
	}
	for _, r := range rs.All {
		if strings.EqualFold(r.ID, code) {
			return []*Rule{r}
		}
		for _, c := range r.Codes {
			if strings.EqualFold(c, code) {
				byCode = append(byCode, r)
				break
			}
		}
	}
	said := "exit code: " + code + "\nerror " + strings.ToUpper(code) + ":"
	if s := LookupStatus(code); s != nil && len(byCode) == 0 {
		said = "CUDA error: " + s.Name
	} else if !toolCode.MatchString(code) {
		return byCode
	}
	for _, f := range rs.search([]byte(said), 0).Found {
		if !slices.ContainsFunc(byCode, func(r *Rule) bool { return r.ID == f.ID }) {
			r, w := *f.Rule, f.Words(Facts{})
			r.Cause, r.Fix, r.Windows, r.Examples = w.Cause, w.Fix, "", nil
			byCode = append(byCode, &r)
		}
	}
	return byCode
}

// Near lists the ids that share a part with a word that Lookup did not find, at most ten; else the most similar id or code, those of others
// included.
func (rs *Rules) Near(word string, others []string) []string {
	var ids []string
	for _, r := range rs.All {
		text := strings.ToLower(r.ID + " " + strings.Join(r.Codes, " "))
		if len(word) >= 3 && strings.Contains(text, strings.ToLower(word)) && len(ids) < 10 {
			ids = append(ids, r.ID)
		}
		others = append(append(others, r.ID), r.Codes...)
	}
	if len(ids) == 0 {
		return strings.Fields(exit.Nearest(word, others))
	}
	return ids
}

// Found is one rule that the text confirmed.
type Found struct {
	*Rule
	Line   int               `json:"line"`             // of its first place in the text, from 1
	Text   string            `json:"text"`             // that line, without colours and control characters, at most 400 letters
	Count  int               `json:"count"`            // how many lines confirmed it; counting ends at 1000
	Values map[string]string `json:"values,omitempty"` // what the line named: arch, library, version …

	onWindows bool
}

// Place is a line of the text.
type Place struct {
	Line   int      `json:"line"`
	Text   string   `json:"text"`
	More   []string `json:"more,omitempty"`   // the lines below that complete it
	Status *Status  `json:"status,omitempty"` // that it or they name; nil: none
	Said   string   `json:"said,omitempty"`   // who says it
	Cause  string   `json:"cause,omitempty"`  // what it says itself
	Next   string   `json:"next,omitempty"`   // what to look at

	own, part bool // gpubuild says it; it says only that a part failed
}

// Match is what is known of a text.
type Match struct {
	Found  []Found `json:"found"`  // causes first, each kind in the order of the text
	Errors []Place `json:"errors"` // the first lines that look like errors, whether or not a rule knows them
	Lines  int     `json:"lines"`
	Bytes  int64   `json:"bytes"`

	Succeeded bool `json:"succeeded"` // nothing in the text looks like an error, and it shows that something went well, or is empty
}

// Known reports whether anything found explains the failure: that a part failed, and notes, do not.
func (m Match) Known() bool {
	return len(m.Found) > 0 && m.Found[0].Kind.order() <= General.order()
}

// Own reports whether the first error is gpubuild's own, which says itself what to do.
func (m Match) Own() bool {
	return len(m.Errors) > 0 && m.Errors[0].own
}

// Quoted reports whether no rule knows the failure and its first error says itself what is wrong.
func (m Match) Quoted() bool {
	return !m.Known() && len(m.Errors) > 0 && m.Errors[0].Cause != ""
}

// sortFound puts causes first. What follows from something and what a tool says is missing are ordered by their lines: the first error
// explains the later ones.
func sortFound(found []Found) {
	rank := func(f Found) int {
		if f.Kind == General && f.Stage != "silent-cpu" { // why a program goes on with the CPU is said by what else is known
			return Consequence.order()
		}
		return f.Kind.order()
	}
	sort.SliceStable(found, func(i, j int) bool {
		if a, b := rank(found[i]), rank(found[j]); a != b {
			return a < b
		}
		return found[i].Line < found[j].Line
	})
}
