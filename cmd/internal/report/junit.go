package report

import (
	"cmp"
	"encoding/xml"
	"fmt"
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
	s := junitSuite{Name: Plain(r.Place()), Tests: len(r.Checks), Time: seconds(r.Seconds), Host: Plain(cmp.Or(r.machine(), "localhost"))}
	if !r.At.IsZero() {
		s.Timestamp = r.At.UTC().Format(stampForm)
	}
	for _, p := range r.properties() {
		s.Props = append(s.Props, junitProperty{"gpubuild." + p[0], p[1]})
	}
	for _, c := range r.Checks {
		out := junitCase{Name: Plain(c.Title()), Class: Plain("gpubuild." + strings.ReplaceAll(r.Place(), " ", "_")),
			Time: seconds(c.Seconds)}
		outcome := &junitOutcome{Type: Plain(c.ID), Message: Plain(c.Message),
			Text: PlainLines(strings.TrimSpace(c.Message + "\n" + c.Detail))}
		switch c.State {
		case Failed:
			s.Failures++
			out.Failure = outcome
		case Skipped:
			s.Skipped++
			out.Skipped = outcome
		default:
			out.Out = PlainLines(strings.TrimSpace(c.Message + "\n" + c.Detail))
		}
		s.Cases = append(s.Cases, out)
	}
	data, err := xml.MarshalIndent(junitFile{Name: "gpubuild", Tests: s.Tests, Failures: s.Failures, Time: s.Time, Suites: []junitSuite{s}},
		"", "  ")
	return append(append([]byte(xml.Header), data...), '\n'), err
}

func seconds(s float64) string { return fmt.Sprintf("%.3f", s) }

// properties say what was built, from what, and what a proof showed: tools that keep JUnit files keep nothing else.
func (r Result) properties() [][2]string {
	out := [][2]string{{"verb", Plain(r.Verb)}, {"exit-code", fmt.Sprint(r.Code)}, {"version", Plain(r.Gpubuild)}}
	add := func(name, value string) {
		if value = Plain(value); value != "" {
			out = append(out, [2]string{name, value})
		}
	}
	add("row", r.Row)
	if o := r.Origin; o != nil {
		add("commit", o.Commit)
		add("branch", o.Branch)
		add("run", o.Run)
		if o.Attempt > 0 {
			add("attempt", fmt.Sprint(o.Attempt))
		}
	}
	if r.Features != nil {
		add("features", strings.Join(r.Features.Asked, ","))
	}
	if r.Set != nil {
		add("toolkit", r.Set.Toolkit)
		add("compiler", r.Set.Compiler)
		add("cudnn", r.Set.CUDNN)
		add("arch", r.Set.Arch)
		add("driver", r.Set.Driver)
	}
	for _, p := range r.Programs {
		if p.Proof == nil {
			continue
		}
		add("program", p.Name)
		add("verdict", p.Proof.Verdict)
		add("device", p.Proof.Device)
		add("uuid", p.Proof.UUID)
		add("proof-driver", p.Proof.Driver)
		add("adapter", p.Proof.Adapter)
		add("why", p.Proof.Why)
	}
	if r.Watch != nil {
		for _, u := range r.Watch.GPUs {
			add("gpu", u.Text())
		}
		for _, a := range r.Watch.Alerts {
			add("alert", a.Kind+": "+a.Text())
		}
	}
	return out
}
