package console

import (
	"io"
	"time"

	"github.com/schollz/progressbar/v3"
)

// Download shows how far downloads of a total size are: on a terminal one bar with size, speed and time left, elsewhere nothing. end
// removes the bar.
func (s *Shell) Download(total int64) (set func(done int64), end func()) {
	if !s.ErrTerminal || s.Quiet || total <= 0 {
		return func(int64) {}, func() {}
	}
	bar := progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(s.Err), progressbar.OptionSetDescription("    Fetching"), progressbar.OptionShowBytes(true),
		progressbar.OptionShowCount(), progressbar.OptionSetPredictTime(true), progressbar.OptionSetElapsedTime(false),
		progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionSetWidth(25), progressbar.OptionUseANSICodes(false),
		progressbar.OptionSetTheme(progressbar.Theme{Saucer: "=", SaucerHead: ">", SaucerPadding: " ", BarStart: "[", BarEnd: "]"}),
	)
	// A bar that cannot be drawn stops no download. The library divides by the time since its first line; a speed over less than its
	// own interval would be nonsense, so nothing is shown before.
	bar.StartWithoutRender()
	began := time.Now()
	set = func(done int64) {
		if time.Since(began) > 500*time.Millisecond {
			_ = bar.Set64(done)
		}
	}
	return set, func() { _ = bar.Clear(); _, _ = io.WriteString(s.Err, "\r") }
}
