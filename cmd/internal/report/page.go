package report

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"strings"
	"sync"
	"time"
)

// The page is one file that asks for nothing else and runs nothing: its policy forbids it, and allows just this style, by its hash.
var (
	//go:embed page/page.html
	pageHTML string
	//go:embed page/page.css
	pageCSS string
)

const historyShown = 5

// page is what the template is given; all of it is foreign text.
type page struct {
	Policy      string
	Style       template.CSS
	Rows        []pageRow
	Files, By   string
	Sums, Title string
	Project     string // of all rows; empty: they are of several, or it is not known
	Newest      time.Time
}

// pageRow is a row with what its details show.
type pageRow struct {
	Row
	With    []string
	Latest  Result
	History []Observation
	More    int
}

// pageTemplate is parsed once: that takes three times as long as a page.
var pageTemplate = sync.OnceValues(func() (*template.Template, error) {
	return template.New("page").Funcs(template.FuncMap{
		"plain": Sanitize, "count": Count, "lines": SanitizeLines, "stamp": stamp, "sign": sign, "place": place,
		"join":   func(l []string) string { return strings.Join(l, ", ") },
		"iso":    func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"status": func(r Result) Status { s, _ := statusOf(r); return s },
		"commit": func(r Result) string { return shortCommit(r.from().Commit) },
		"run": func(r Result) string {
			if run := r.from().Run; strings.HasPrefix(run, "https://") || strings.HasPrefix(run, "http://") {
				return run
			}
			return ""
		},
	}).Parse(pageHTML)
})

// HTML renders rows as one self-contained page, of so many files, by a version of gpubuild.
func HTML(rows []Row, files int, by string) ([]byte, error) {
	t, err := pageTemplate()
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(pageCSS))
	p := page{
		Policy: "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
			"'; base-uri 'none'; form-action 'none'",
		Style: template.CSS(pageCSS), Files: Count(files, "file"), By: by, Sums: Summary(rows), Title: Count(len(rows), "row"),
	}
	projects := map[string]bool{}
	for _, r := range rows {
		if r.Project != "" {
			p.Project, projects[r.Project] = r.Project, true
		}
	}
	if len(projects) > 1 {
		p.Project = ""
	}
	for _, r := range rows {
		shown := pageRow{Row: r, History: r.results[:min(len(r.results), historyShown)]}
		if r.Results > 0 && !r.results[0].Earlier {
			if shown.Latest = r.results[0].Result; shown.Latest.At.After(p.Newest) {
				p.Newest = shown.Latest.At
			}
		}
		shown.More = len(r.results) - len(shown.History)
		with := []fact{{"CUDA ", r.Set.Toolkit}, {"cuDNN ", r.Set.CUDNN}, {"", r.Set.Arch}, {"", r.Set.Compiler}}
		shown.With = words(with)
		p.Rows = append(p.Rows, shown)
	}
	var b bytes.Buffer
	err = t.Execute(&b, p)
	return b.Bytes(), err
}
