package report

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"gpubuild/buildenv/lazyregexp"
	"gpubuild/gpu"
)

// ExpectedRow is a row as the matrix has it.
type ExpectedRow struct {
	ID       string `json:"id"`
	Features string `json:"features"`
	CUDA     string `json:"cuda"`
	Arch     string `json:"arch"`
	Platform string `json:"platform"`
	Profile  string `json:"profile"`
	Place    string `json:"place"`
}

// axes are where a row stands in the heat map. Without a matrix they are what its results say.
func (r Row) axes() ExpectedRow {
	if r.expected.ID != "" {
		return r.expected
	}
	out := ExpectedRow{ID: r.ID, Features: strings.Join(r.Features, ","), Arch: r.Set.Arch}
	if parts := strings.SplitN(r.Set.Toolkit, ".", 3); len(parts) > 1 {
		out.CUDA = parts[0] + "." + parts[1]
	}
	return out
}

// The heat map: a block for each toolkit and platform, in it a line for each feature set and a column for each architecture.
type (
	heatBlock struct {
		Title   string
		Columns []string
		Lines   []heatLine
	}
	heatLine struct {
		Name  string
		Cells [][]heatCell // by column
	}
	heatCell struct {
		Status        Status
		Anchor, Title string
	}
)

func heatMap(rows []Row) []heatBlock {
	var out []heatBlock
	title := func(a ExpectedRow) string {
		s := "no toolkit"
		if a.CUDA != "" {
			s = "CUDA " + a.CUDA
		}
		if a.Platform != "" {
			s += " · " + a.Platform
		}
		return s
	}
	columns := map[string][]string{} // of a block by its title
	for _, r := range rows {
		a := r.axes()
		if key, arch := title(a), cmp.Or(a.Arch, "any"); !slices.Contains(columns[key], arch) {
			columns[key] = append(columns[key], arch)
		}
	}
	for _, list := range columns {
		slices.SortFunc(list, func(a, b string) int { return cmp.Or(len(a)-len(b), strings.Compare(a, b)) })
	}
	sorted := slices.SortedFunc(slices.Values(rows), func(a, b Row) int {
		x, y := a.axes(), b.axes()
		return cmp.Or(strings.Compare(x.Platform, y.Platform), strings.Compare(x.CUDA, y.CUDA), strings.Compare(x.Features, y.Features),
			strings.Compare(x.Profile, y.Profile), strings.Compare(x.Place, y.Place))
	})
	for _, r := range sorted {
		a := r.axes()
		if len(out) == 0 || out[len(out)-1].Title != title(a) {
			out = append(out, heatBlock{Title: title(a), Columns: columns[title(a)]})
		}
		block := &out[len(out)-1]
		name := cmp.Or(a.Features, "default features")
		if a.Profile != "" && a.Profile != "dev" {
			name += " · " + a.Profile
		}
		line := slices.IndexFunc(block.Lines, func(l heatLine) bool { return l.Name == name })
		if line < 0 {
			line = len(block.Lines)
			block.Lines = append(block.Lines, heatLine{Name: name})
		}
		column := slices.Index(block.Columns, cmp.Or(a.Arch, "any"))
		l := &block.Lines[line]
		for len(l.Cells) <= column {
			l.Cells = append(l.Cells, nil)
		}
		l.Cells[column] = append(l.Cells[column], heatCell{r.Status, anchor(r.ID), r.ID + ": " + r.Status.Words()})
	}
	return out
}

var plainAnchor = lazyregexp.New(`^[A-Za-z0-9.+_-]{1,120}$`)

// anchor names a row in an address.
func anchor(id string) string {
	if plainAnchor.MatchString(id) {
		return "row-" + id
	}
	sum := sha256.Sum256([]byte(id))
	return "row-" + hex.EncodeToString(sum[:6])
}

// statusOf is what one result comes to.
func statusOf(r Result) Status {
	if s, _ := proofOf(r); s != StatusNone {
		return s
	}
	s, _ := buildOf(r)
	return s
}

// strip is the last results of a row, the newest on the right, drawn as one dashed line for each status.
type strip struct {
	Width int
	Words string
	Paths []stripPath
}

type stripPath struct {
	Status Status
	D      string
}

const stripStep = 5

func stripOf(r Row) strip {
	results := r.results[:min(len(r.results), historyKept)]
	if len(results) < 2 {
		return strip{}
	}
	s := strip{Width: stripStep * len(results), Words: fmt.Sprintf("the last %d results, the newest on the right", len(results))}
	paths := map[Status]*strings.Builder{}
	for i := 0; i < len(results); {
		status, n := statusOf(results[i].Result), 1
		for i+n < len(results) && statusOf(results[i+n].Result) == status {
			n++
		}
		if paths[status] == nil {
			paths[status] = &strings.Builder{}
		}
		i += n
		fmt.Fprintf(paths[status], "M%d 6h%d", stripStep*(len(results)-i), stripStep*n) // drawn in dashes, a result each
	}
	for _, status := range statuses {
		if p := paths[status]; p != nil {
			s.Paths = append(s.Paths, stripPath{status, p.String()})
		}
	}
	return s
}

// course is the kernel time of a row over its results.
type course struct {
	Points, Last, First string
	Count               int
}

const courseWidth, courseHeight = 240, 40

func courseOf(r Row) course {
	var ns []float64
	for _, o := range slices.Backward(r.results[:min(len(r.results), historyKept)]) {
		if p := theProof(o.Result); p != nil && p.Verdict == Proved && p.Launches > 0 {
			ns = append(ns, float64(p.TotalNS)/float64(p.Launches))
		}
	}
	if len(ns) < 2 {
		return course{}
	}
	word := func(v float64) string { return time.Duration(v).Round(10 * time.Nanosecond).String() }
	return course{polyline(ns, slices.Max(ns)), word(ns[len(ns)-1]), word(ns[0]), len(ns)}
}

// polyline is the points of a curve from 0 to most.
func polyline(values []float64, most float64) string {
	var points []string
	for i, v := range values {
		x, y := 2+float64(i)*(courseWidth-4)/float64(len(values)-1), courseHeight-2-(courseHeight-4)*v/max(most, 1)
		points = append(points, fmt.Sprintf("%.1f,%.1f", x, y))
	}
	return strings.Join(points, " ")
}

// usage is what one GPU did while a row's program ran; Points is its utilisation, empty if the driver does not report it.
type usage struct{ Text, Points string }

// usageOf is the newest watch of a row, and its alerts.
func usageOf(r Row) (gpus []usage, alerts []gpu.Alert) {
	for _, o := range r.results {
		if o.Result.Watch == nil {
			continue
		}
		for _, u := range o.Result.Watch.GPUs {
			var curve []float64
			for _, percent := range u.Curve {
				curve = append(curve, float64(percent))
			}
			shown := usage{Text: u.Text()}
			if len(curve) > 1 {
				shown.Points = polyline(curve, 100)
			}
			gpus = append(gpus, shown)
		}
		return gpus, o.Result.Watch.Alerts
	}
	return nil, nil
}

// change is a row that is another thing at the newest commit than at the one before.
type change struct {
	ID, Anchor string
	Was, Is    Status
}

// changesBetween is what broke and what was repaired between the two newest commits of all results.
type changesBetween struct {
	Old, New        string
	Broke, Repaired []change
}

func between(rows []Row) changesBetween {
	newest := map[string]time.Time{}
	var commits []string
	for _, r := range rows {
		for _, o := range r.results {
			if c := commitOf(o.Result); c != "" {
				if newest[c].IsZero() {
					commits = append(commits, c)
				}
				if o.Result.At.After(newest[c]) {
					newest[c] = o.Result.At
				}
			}
		}
	}
	if len(commits) < 2 {
		return changesBetween{}
	}
	slices.SortFunc(commits, func(a, b string) int { return newest[b].Compare(newest[a]) })
	out := changesBetween{Old: commits[1], New: commits[0]}
	for _, r := range rows {
		at := map[string]Status{}
		for _, o := range r.results { // the newest first
			if c := commitOf(o.Result); at[c] == "" {
				if s := statusOf(o.Result); s != StatusNone {
					at[c] = s
				}
			}
		}
		was, is := at[out.Old], at[out.New]
		one := change{r.ID, anchor(r.ID), was, is}
		switch {
		case was == "" || is == "" || was == is:
		case slices.Index(statuses, is) < slices.Index(statuses, was):
			out.Broke = append(out.Broke, one)
		default:
			out.Repaired = append(out.Repaired, one)
		}
	}
	return out
}

func commitOf(r Result) string {
	if r.Origin == nil {
		return ""
	}
	return r.Origin.Commit
}

// failureGroup is one reason of several rows.
type failureGroup struct {
	Status Status
	Why    string
	Rows   []change
}

// folded are the reasons that several rows have: those that differ in numbers only are one.
func folded(rows []Row) []failureGroup {
	var out []failureGroup
	at := map[string]int{}
	for _, r := range rows {
		why := r.why()
		if why == "" || r.Status == StatusProven || r.Status == StatusCompiled {
			continue
		}
		key := string(r.Status) + numbers.ReplaceAllString(why, "#")
		i, known := at[key]
		if !known {
			i = len(out)
			at[key] = i
			out = append(out, failureGroup{Status: r.Status, Why: why})
		}
		out[i].Rows = append(out[i].Rows, change{ID: r.ID, Anchor: anchor(r.ID)})
	}
	out = slices.DeleteFunc(out, func(g failureGroup) bool { return len(g.Rows) < 2 })
	slices.SortStableFunc(out, func(a, b failureGroup) int { return len(b.Rows) - len(a.Rows) })
	return out
}

// shortCommit is enough of a commit to know it by.
func shortCommit(commit string) string { return Plain(commit[:min(len(commit), 9)]) }

// webAddress is an address that a page may lead to; empty: it is none.
func webAddress(run string) string {
	if strings.HasPrefix(run, "https://") || strings.HasPrefix(run, "http://") {
		return run
	}
	return ""
}

// commitAddress is where the service that a run is of shows the commit; empty: not known.
func commitAddress(r Result) string {
	if r.Origin == nil || webAddress(r.Origin.Run) == "" || r.Origin.Commit == "" {
		return ""
	}
	for _, mark := range []string{"/actions/runs/", "/-/jobs/"} {
		if base, _, found := strings.Cut(r.Origin.Run, mark); found {
			if strings.HasPrefix(mark, "/-/") {
				base += "/-"
			}
			return base + "/commit/" + r.Origin.Commit
		}
	}
	return ""
}
