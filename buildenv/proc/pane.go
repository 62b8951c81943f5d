package proc

import "errors"

// ErrNoPane says that this system has no terminal of which we could read along.
//
// On macOS the same calls exist, but nothing has been tried there, and a user's terminal is no place for guesses. Windows' pseudo consoles are no
// pipes: they draw the screen anew, so that colours, links and the width of lines are no longer the program's own.
var ErrNoPane = errors.New("reading along is not known to leave this system's terminals as they are")
