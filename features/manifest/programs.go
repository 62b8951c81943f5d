package manifest

import "slices"

// program is a [[bin]] of a manifest.
type program struct {
	name  string
	needs []string // required-features
}

func programsIn(raw map[string]any) []program {
	var out []program
	for _, one := range tablesOf(raw["bin"]) {
		needs, _ := stringsOf(one["required-features"])
		out = append(out, program{str(one["name"]), needs})
	}
	return out
}

// Required is a program of the package that is built only with a feature; empty when there is none.
func (p *Package) Required(feature string) string {
	for _, b := range p.programs {
		if slices.Contains(b.needs, feature) {
			return b.name
		}
	}
	return ""
}
