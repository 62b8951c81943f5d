package report

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"slices"
	"strings"
	"sync"
	"time"

	"gpubuild/buildenv/finding"
	"gpubuild/gpu"
)

// The page is one file that asks for nothing else: its policy forbids it, and allows just this style and this script, by their hashes.
var (
	//go:embed page/page.html
	pageHTML string
	//go:embed page/page.css
	pageCSS string
	//go:embed page/page.js
	pageJS string
)

const historyShown = 5

// page is what the template is given; all of it is foreign text.
type page struct {
	Policy  string
	Style   template.CSS
	Script  template.JS
	Rows    []pageRow
	Files   string
	Newest  time.Time
	Legend  []legend
	By      string
	Trouble []trouble
}

type legend struct {
	Status Status
	Count  int
	X, W   float64 // of its part of the bar, of 1000
}

// pageRow is a row with its words.
type pageRow struct {
	Row
	Rank    int
	Asked   string
	With    []string
	Checks  []Check
	Details []Program
	Finds   []finding.Finding
	History []Observation
	More    int
	Anchor  string
	Strip   strip
	GPUs    []usage
	Alerts  []gpu.Alert
}

// pageTemplate is parsed once: that takes three times as long as a page.
var pageTemplate = sync.OnceValues(func() (*template.Template, error) {
	return template.New("page").Funcs(template.FuncMap{
		"plain": Plain, "lines": PlainLines, "stamp": stamp, "sign": sign, "place": place,
		"iso":     func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"zero":    time.Time.IsZero,
		"rest":    func(list []string) string { return strings.Join(list[1:], " · ") },
		"short":   func(uuid string) string { return Plain(shortUUID(uuid)) },
		"build":   func(r Result) Side { s, why := buildOf(r); return Side{Status: s, Why: why} },
		"proof":   func(r Result) Side { s, why := proofOf(r); return Side{Status: s, Why: why} },
		"toolkit": toolkitOf,
		"device":  deviceOf,
		"commit":  commitOf, "commitShort": shortCommit, "commitAddress": commitAddress,
		"run": func(r Result) string {
			if r.Origin == nil {
				return ""
			}
			return webAddress(r.Origin.Run)
		},
	}).Parse(pageHTML)
})

// HTML renders rows as one self-contained page, of so many files, by a version of gpubuild.
func HTML(rows []Row, files int, by string) ([]byte, error) {
	t, err := pageTemplate()
	if err != nil {
		return nil, err
	}
	p := page{
		Policy: "default-src 'none'; style-src " + hashed(pageCSS) + "; script-src " + hashed(pageJS) +
			"; base-uri 'none'; form-action 'none'",
		Style: template.CSS(pageCSS), Script: template.JS(pageJS), Files: Count(files, "file"), By: by,
		Trouble: troubles(rows),
	}
	count := map[Status]int{}
	for _, r := range rows {
		count[r.Status]++
		if r.at.After(p.Newest) {
			p.Newest = r.at
		}
		p.Rows = append(p.Rows, pageRowOf(r))
	}
	x := 0.0
	for i := len(statuses) - 1; i >= 0; i-- {
		if n := count[statuses[i]]; n > 0 {
			w := 1000 * float64(n) / float64(len(rows))
			p.Legend = append(p.Legend, legend{statuses[i], n, x, w})
			x += w
		}
	}
	var b bytes.Buffer
	err = t.Execute(&b, p)
	return b.Bytes(), err
}

func hashed(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

func pageRowOf(r Row) pageRow {
	out := pageRow{Row: r, Asked: Plain(strings.Join(r.Features, ", ")), Finds: r.latest.Findings, Checks: r.latest.Checks,
		Details: r.latest.Programs, Anchor: anchor(r.ID), Strip: stripOf(r), Rank: slices.Index(statuses, r.Status)}
	out.GPUs, out.Alerts = usageOf(r)
	for _, w := range words([]fact{{"CUDA ", r.Set.Toolkit}, {"cuDNN ", r.Set.CUDNN}, {"", r.Set.Arch}, {"", r.Set.Compiler}}) {
		out.With = append(out.With, Plain(w))
	}
	out.History = r.results
	if len(out.History) > historyShown {
		out.More = len(out.History) - historyShown
		out.History = out.History[:historyShown]
	}
	return out
}

// shortUUID is enough of a device's UUID to know it by; the whole stands in the proof's words.
func shortUUID(uuid string) string {
	const enough = len("GPU-") + 8
	if len(uuid) > enough {
		return uuid[:enough] + "…"
	}
	return uuid
}

func toolkitOf(r Result) string {
	if r.Set == nil || r.Set.Toolkit == "" {
		return ""
	}
	return "CUDA " + Plain(r.Set.Toolkit)
}

func deviceOf(r Result) string {
	if p := theProof(r); p != nil {
		return Plain(p.Device)
	}
	return ""
}
