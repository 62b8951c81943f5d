package report

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"slices"
	"strings"
)

// The part of Jenkins' and surefire's JUnit XML that is written (testdata/schema/junit-10.xsd).
type (
	junitFile struct {
		XMLName  xml.Name     `xml:"testsuites"`
		Name     string       `xml:"name,attr,omitempty"`
		Tests    int          `xml:"tests,attr"`
		Failures int          `xml:"failures,attr"`
		Errors   int          `xml:"errors,attr"`
		Time     string       `xml:"time,attr,omitempty"`
		Suites   []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name      string          `xml:"name,attr"`
		Tests     int             `xml:"tests,attr"`
		Failures  int             `xml:"failures,attr"`
		Errors    int             `xml:"errors,attr"`
		Skipped   int             `xml:"skipped,attr"`
		Time      string          `xml:"time,attr,omitempty"`
		Timestamp string          `xml:"timestamp,attr,omitempty"`
		Host      string          `xml:"hostname,attr,omitempty"`
		Props     []junitProperty `xml:"properties>property"`
		Cases     []junitCase     `xml:"testcase"`
	}
	junitProperty struct {
		Name  string `xml:"name,attr"`
		Value string `xml:"value,attr"`
	}
	junitCase struct {
		Name    string        `xml:"name,attr"`
		Class   string        `xml:"classname,attr,omitempty"`
		Time    string        `xml:"time,attr,omitempty"`
		Failure *junitOutcome `xml:"failure"`
		Skipped *junitOutcome `xml:"skipped"`
		Out     string        `xml:"system-out,omitempty"`
	}
	junitOutcome struct {
		Type    string `xml:"type,attr,omitempty"`
		Message string `xml:"message,attr,omitempty"`
		Text    string `xml:",chardata"`
	}
)

// stampForm is that of the timestamp attribute: ISO 8601 without a zone, by which readers of JUnit understand UTC.
const stampForm = "2006-01-02T15:04:05"

// JUnit renders a result as one suite: a case for each check. A proof that was
// not made for want of a device is skipped, unless it was required.
func (r Result) JUnit() ([]byte, error) {
	host := Sanitize(cmp.Or(r.from().Machine, "localhost"))
	s := junitSuite{Name: Sanitize(r.Place()), Tests: len(r.Checks), Time: seconds(r.Seconds), Host: host}
	if !r.At.IsZero() {
		s.Timestamp = r.At.UTC().Format(stampForm)
	}
	about := []fact{{"verb", r.Verb}, {"exit-code", fmt.Sprint(r.Code)}, {"version", r.Gpubuild}}
	for _, f := range append(about, r.facts()...) {
		s.Props = append(s.Props, junitProperty{"gpubuild." + f.name, Sanitize(f.value)})
	}
	for _, c := range r.Checks {
		out := junitCase{Name: Sanitize(c.Title()), Class: Sanitize("gpubuild." + strings.ReplaceAll(r.Place(), " ", "_")),
			Time: seconds(c.Seconds)}
		outcome := &junitOutcome{Type: Sanitize(c.ID), Message: Sanitize(c.Message),
			Text: SanitizeLines(strings.TrimSpace(c.Message + "\n" + c.Detail))}
		switch c.State {
		case Failed:
			s.Failures++
			out.Failure = outcome
		case Skipped:
			s.Skipped++
			out.Skipped = outcome
		default:
			out.Out = SanitizeLines(strings.TrimSpace(c.Message + "\n" + c.Detail))
		}
		s.Cases = append(s.Cases, out)
	}
	data, err := xml.MarshalIndent(junitFile{Name: "gpubuild", Tests: s.Tests, Failures: s.Failures, Time: s.Time, Suites: []junitSuite{s}},
		"", "  ")
	return append(append([]byte(xml.Header), data...), '\n'), err
}

func seconds(s float64) string { return fmt.Sprintf("%.3f", s) }

// facts say what was built, from what, and what a proof showed, each with its name.
func (r Result) facts() []fact {
	from := r.from()
	out := []fact{{"row", r.Row}, {"commit", from.Commit}, {"branch", from.Branch}, {"run", from.Run}, {"machine", from.Machine}}
	if r.Features != nil {
		out = append(out, fact{"features", strings.Join(r.Features.Asked, ",")})
	}
	if s := r.Set; s != nil {
		out = append(out, fact{"toolkit", s.Toolkit}, fact{"compiler", s.Compiler}, fact{"cudnn", s.CUDNN}, fact{"arch", s.Arch},
			fact{"driver", s.Driver})
	}
	for _, p := range r.Programs {
		out = append(out, fact{"program", p.Title()}, fact{"code", p.Code})
		if q := p.Proof; q != nil {
			out = append(out, fact{"verdict", q.Verdict}, fact{"device", q.Device}, fact{"uuid", q.UUID}, fact{"proof-driver", q.Driver},
				fact{"adapter", q.Adapter}, fact{"why", q.Why})
		}
	}
	if r.Watch != nil {
		for _, u := range r.Watch.GPUs {
			out = append(out, fact{"gpu", u.Text()})
		}
		for _, a := range r.Watch.Alerts {
			out = append(out, fact{"alert", a.Kind + ": " + a.Message})
		}
	}
	return slices.DeleteFunc(out, func(f fact) bool { return Sanitize(f.value) == "" })
}
