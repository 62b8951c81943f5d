package app

import (
	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/finding"
	"gpubuild/cmd/internal/report"
)

// answer writes a verb's machine-readable answer where it was asked for.
func (a *app) answer(o Options, verb string, ok bool, findings []finding.Finding, fields any) error {
	if o.JSON == nil {
		return nil
	}
	data, err := report.Envelope(verb, ok, findings, fields)
	if err != nil {
		return err
	}
	if *o.JSON == "" {
		_, err = a.Shell.Out.Write(data)
		return err
	}
	return cache.WriteFile(a.Host.Abs(*o.JSON), data, 0o644)
}
