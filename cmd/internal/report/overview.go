package report

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"gpubuild/buildenv/lazyregexp"
	"gpubuild/gpu"
)

var plainAnchor = lazyregexp.New(`^[A-Za-z0-9.+_-]{1,120}$`)

// anchor names a row in an address.
func anchor(id string) string {
	if plainAnchor.MatchString(id) {
		return "row-" + id
	}
	sum := sha256.Sum256([]byte(id))
	return "row-" + hex.EncodeToString(sum[:6])
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

const courseWidth, courseHeight = 240, 40

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

func commitOf(r Result) string {
	if r.Origin == nil {
		return ""
	}
	return r.Origin.Commit
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

// commitAddress is where the service that a result is of shows a commit; empty: not known.
func commitAddress(r Result) string { return repositoryPage(r, "/commit/"+commitOf(r)) }

// repositoryPage is a page about the repository on the service that a result is of.
func repositoryPage(r Result, page string) string {
	if commitOf(r) == "" || webAddress(r.Origin.Run) == "" {
		return ""
	}
	if base, _, found := strings.Cut(r.Origin.Run, "/actions/runs/"); found {
		return base + page
	}
	if base, _, found := strings.Cut(r.Origin.Run, "/-/jobs/"); found {
		return base + "/-" + page
	}
	return ""
}

// trouble is a row that somebody has to look at, with what is asked first: since which commit, on which machine, and whether it comes and
// goes.
type trouble struct {
	Row
	Anchor, Why     string
	Commits         string // the range in which it broke
	Address         string // where the service shows that range
	Since           time.Time
	Where, Unsteady string
	Same            []link // further rows with the same status for the same reason
}

// link leads to a row of the page.
type link struct{ ID, Anchor string }

// troubles has rows whose reasons differ in numbers only once.
func troubles(rows []Row) (out []trouble) {
	at := map[string]int{}
	for _, r := range rows {
		if !r.Status.bad() && !r.Flaky {
			continue
		}
		side := r.deciding()
		key := string(r.Status) + numbers.ReplaceAllString(side.Why, "#")
		if i, known := at[key]; known && side.Why != "" && !r.Flaky {
			out[i].Same = append(out[i].Same, link{r.ID, anchor(r.ID)})
			continue
		}
		at[key] = len(out)
		t := trouble{Row: r, Anchor: anchor(r.ID), Why: Plain(side.Why), Since: side.Since, Where: Plain(r.Machine)}
		if r.Status.bad() {
			if t.Commits = side.commits(); side.Before != "" && side.First != "" {
				t.Address = repositoryPage(r.latest, "/compare/"+side.Before+"..."+side.First)
			}
		}
		if r.Device != "" {
			t.Where = strings.TrimPrefix(t.Where+", "+Plain(r.Device), ", ")
		}
		if r.Flaky {
			t.Unsteady = fmt.Sprintf("failed %d of the last %d", r.Failed, r.Runs)
		}
		out = append(out, t)
	}
	return out
}
