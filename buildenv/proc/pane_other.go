//go:build !linux

package proc

import (
	"io"
	"os"
)

// Pane is a terminal between a child's stderr and the user's; there is none on this system.
type Pane struct{ Stderr *os.File }

// OpenPane answers ErrNoPane.
func OpenPane(*os.File, io.Writer) (*Pane, error) { return nil, ErrNoPane }

// Close does nothing.
func (*Pane) Close() {}
