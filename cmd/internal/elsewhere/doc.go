// Package elsewhere runs a program on another machine under the probe, and brings its verdict back.
//
// Send starts the place's command (ssh, srun, or one of the user's) with a shell script behind it, over whose standard input everything
// travels: a gpubuild, the program, the libraries that it loads, the probe and CUPTI, each by its SHA-256. The other side keeps them, so
// that a second run sends only what changed. Serve is the gpubuild there.
//
// Format: after two lines of text, frames of one byte (kind), four bytes (length, big-endian), the content and a line feed, because
// srun passes on whole lines. What came back is judged here, as a program of this machine is.
// Limits: the place has the architecture of this machine, and passes on bytes unchanged (no terminal, no labels).
package elsewhere
