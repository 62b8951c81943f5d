package featurecheck

import (
	"context"
	"errors"
	"slices"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/cmd/internal/session"
	"gpubuild/features/manifest"
	"gpubuild/toolchain/cargo"
)

// WithMissingFeature adds to cargo's refusal of a GPU feature that no selected package has the line of [features] that would declare it.
func WithMissingFeature(ctx context.Context, s *session.Session, err error) error {
	var refused *cargo.RefusedError
	if !errors.As(err, &refused) || refused.Fix != "" {
		return err
	}
	r := s.Request()
	selected, known := s.Project.Selection(r)
	var lacking []string
	for _, f := range manifest.Union([]string{"cuda", "cudnn"}, s.Config.GPUFeatures.Value) {
		if known && slices.Contains(r.Features, f) &&
			!slices.ContainsFunc(selected, func(p *manifest.Package) bool { return p.Declares(f) }) {
			lacking = append(lacking, f)
		}
	}
	line, bad := s.Line.Change(cargo.Change{Without: lacking})
	if bad != nil || len(lacking) == 0 {
		return err
	}
	j, bad := Open(ctx, s.Machine, line, Options{})
	if bad != nil { // that was not all that cargo refuses
		return err
	}
	view, bad := j.Input.View(s.Machine.Host)
	if bad != nil {
		return err
	}
	var lines []string
	for _, root := range view.Roots {
		p := view.ManifestOf(root.Node)
		if p == nil || !slices.ContainsFunc(selected, func(q *manifest.Package) bool { return q.Manifest == p.Manifest }) {
			continue
		}
		for _, f := range lacking {
			var enables []string
			if f == "cudnn" && p.Declares("cuda") {
				enables = append(enables, buildenv.TOMLString("cuda"))
			}
			forwards := false
			for _, d := range p.Dependencies {
				n := -1
				if d.Kind == manifest.Normal {
					n = view.DepNode(root.Node, d, root.Set)
				}
				if n < 0 || !view.Declares(n, f) {
					continue
				}
				weak := ""
				if d.Optional {
					weak = "?"
				}
				forwards, enables = true, append(enables, buildenv.TOMLString(d.Key+weak+"/"+f))
			}
			text := "add to [features] of " + s.Machine.Shown(p.Manifest) + ":\n      " + f + " = [" + strings.Join(enables, ", ") + "]"
			if forwards && !slices.Contains(lines, text) {
				lines = append(lines, text)
			}
		}
	}
	if len(lines) == 0 {
		return err
	}
	suggested := *refused
	suggested.Fix = strings.Join(lines, "\n      ")
	return &suggested
}
