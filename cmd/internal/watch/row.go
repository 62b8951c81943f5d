package watch

import (
	"fmt"
	"unicode/utf8"

	"gpubuild/gpu"
)

// Row is a sample in one line of that many columns; 0: of any length. Where it would be longer, the name is shortened and no number is.
func Row(s gpu.Sample, columns int) string {
	row := func(tail string) string {
		head, width := fmt.Sprintf("GPU %d  ", s.Index), max(20, utf8.RuneCountInString(s.Name))
		if columns > 0 {
			width = max(4, min(width, columns-len(head)-utf8.RuneCountInString(tail)))
		}
		if name := []rune(s.Name); len(name) > width {
			s.Name = string(name[:width-1]) + "…"
		}
		return fmt.Sprintf("%s%-*s%s", head, width, s.Name, tail)
	}
	if s.Lost {
		return row("  does not answer")
	}
	or := func(known bool, format string, values ...any) string {
		if !known {
			return "-"
		}
		return fmt.Sprintf(format, values...)
	}
	memory, utilisation := "-", "-"
	if s.Utilisation != nil {
		utilisation = fmt.Sprintf("%d%%", *s.Utilisation)
	}
	if s.MemoryUsed != nil {
		memory = fmt.Sprintf("%5.1f/%.1f GB", float64(*s.MemoryUsed)/1e9, float64(s.MemoryTotal)/1e9)
	}
	tail := fmt.Sprintf(" %4s  %s  %6s  %8s  %5s", utilisation, memory,
		or(s.Temperature > 0, "%3d °C", s.Temperature), or(s.ClockMHz > 0, "%4d MHz", s.ClockMHz),
		or(s.PowerMW > 0, "%3d W", s.PowerMW/1000))
	if why := s.Throttling(); why != "" {
		tail += "  slowed down by " + why
	}
	return row(tail)
}
