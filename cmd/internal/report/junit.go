package report

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"strconv"
	"strings"
	"time"

	"gpubuild/buildenv/finding"
	"gpubuild/cmd/internal/origin"
)

// The part of Jenkins' and surefire's JUnit XML that is written, and read back (testdata/schema/junit-10.xsd).
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
		Suites    []junitSuite    `xml:"testsuite"`
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
		Error   *junitOutcome `xml:"error"`
		Skipped *junitOutcome `xml:"skipped"`
		Out     string        `xml:"system-out,omitempty"`
	}
	junitOutcome struct {
		Type    string `xml:"type,attr,omitempty"`
		Message string `xml:"message,attr,omitempty"`
		Text    string `xml:",chardata"`
	}
)

// propertyPrefix begins the properties by which a result is known again.
const propertyPrefix = "gpubuild."

// stampForm is that of the timestamp attribute: ISO 8601 without a zone, by which readers of JUnit understand UTC.
const stampForm = "2006-01-02T15:04:05"

// JUnit renders a result as one suite: a case for each check. A proof that was
// not made for want of a device is skipped, unless it was required.
func (r Result) JUnit() ([]byte, error) {
	s := junitSuite{Name: Plain(r.Place()), Tests: len(r.Checks), Time: seconds(r.Seconds), Host: "localhost"}
	if !r.At.IsZero() {
		s.Timestamp = r.At.UTC().Format(stampForm)
	}
	for _, p := range r.properties() {
		s.Props = append(s.Props, junitProperty{propertyPrefix + p[0], p[1]})
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

// properties are what a reader of the file needs to put the result into its place.
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

// ReadJUnit makes results of a JUnit file: of ours by the properties, of another's a result a suite, whose cases are the checks.
func ReadJUnit(data []byte) ([]Result, error) {
	var suites []junitSuite
	var file junitFile
	if err := xml.Unmarshal(data, &file); err == nil {
		suites = file.Suites
	} else {
		var one struct {
			XMLName xml.Name `xml:"testsuite"`
			junitSuite
		}
		if other := xml.Unmarshal(data, &one); other != nil {
			return nil, &FormatError{"it is neither JSON nor JUnit XML: " + err.Error()}
		}
		suites = []junitSuite{one.junitSuite}
	}
	var out []Result
	var take func(junitSuite)
	take = func(s junitSuite) {
		if len(s.Cases) > 0 || len(s.Suites) == 0 {
			out = append(out, s.result())
		}
		for _, inner := range s.Suites {
			take(inner)
		}
	}
	for _, s := range suites {
		take(s)
	}
	if len(out) == 0 {
		return nil, &FormatError{"this JUnit file has no suite"}
	}
	return out, nil
}

func (s junitSuite) result() Result {
	r := Result{Verb: "junit", Row: s.Name, Findings: []finding.Finding{}}
	if at, err := time.Parse(stampForm, strings.TrimSuffix(s.Timestamp, "Z")); err == nil {
		r.At = at
	} else if at, err := time.Parse(time.RFC3339, s.Timestamp); err == nil {
		r.At = at.UTC()
	}
	_, _ = fmt.Sscanf(s.Time, "%f", &r.Seconds)
	var set Set
	var from origin.Origin
	ours := false
	program := func() *Proof {
		if len(r.Programs) == 0 {
			r.Programs = append(r.Programs, Program{Proof: &Proof{}})
		}
		return r.Programs[len(r.Programs)-1].Proof
	}
	texts := map[string]*string{
		"row": &r.Row, "version": &r.Gpubuild, "commit": &from.Commit, "branch": &from.Branch, "run": &from.Run,
		"toolkit": &set.Toolkit, "compiler": &set.Compiler, "cudnn": &set.CUDNN, "arch": &set.Arch, "driver": &set.Driver,
	}
	for _, p := range s.Props {
		name, ok := strings.CutPrefix(p.Name, propertyPrefix)
		if !ok {
			continue
		}
		switch name {
		case "verb":
			r.Verb, r.Row, ours = p.Value, "", true
		case "attempt":
			from.Attempt, _ = strconv.Atoi(p.Value)
		case "exit-code":
			_, _ = fmt.Sscanf(p.Value, "%d", &r.Code)
		case "features":
			r.Features = &Features{Asked: strings.Split(p.Value, ",")}
		case "program":
			r.Programs = append(r.Programs, Program{Name: p.Value, Proof: &Proof{}})
		case "verdict", "device", "uuid", "proof-driver", "adapter", "why":
			of := program()
			*map[string]*string{
				"verdict": &of.Verdict, "device": &of.Device, "uuid": &of.UUID, "proof-driver": &of.Driver, "adapter": &of.Adapter,
				"why": &of.Why,
			}[name] = p.Value
		default:
			if to := texts[name]; to != nil {
				*to = p.Value
			}
		}
	}
	if from.Row = r.Row; from != (origin.Origin{}) {
		r.Origin = &from
	}
	if set.Toolkit+set.Arch+set.Driver+set.Compiler+set.CUDNN != "" {
		r.Set = &set
	}
	for _, c := range s.Cases {
		check := Check{ID: c.Name, State: Passed, Message: firstOf(c.Out)}
		if ours {
			check.ID, check.Name, _ = strings.Cut(c.Name, " ")
		}
		_, _ = fmt.Sscanf(c.Time, "%f", &check.Seconds)
		for _, o := range []struct {
			of    *junitOutcome
			state string
		}{{c.Skipped, Skipped}, {c.Failure, Failed}, {c.Error, Failed}} {
			if o.of != nil {
				check.State, check.Message = o.state, cmp.Or(o.of.Message, firstOf(o.of.Text))
			}
		}
		if check.State == Failed && !ours {
			r.Code = 1
		}
		r.Checks = append(r.Checks, check)
	}
	return r
}

func firstOf(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}
