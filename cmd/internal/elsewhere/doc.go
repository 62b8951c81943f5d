// Package elsewhere runs programs on another machine under the probe, and brings their verdicts back.
//
// Open starts the place's command (ssh, srun, or one of the user's) once for all programs of a run, with a shell script behind it. Over its
// standard input travel a gpubuild and, for each program, a stream of its own (smux): frames of one byte (kind), four bytes (length,
// big-endian) and the content, and the files that the other side lacks, which it keeps by their SHA-256. Serve is the gpubuild there.
// Programs that cargo or nextest start reach Open's process by a socket. What came back is judged here, as a program of this machine is.
// Limits: the place has the architecture of this machine, and passes on bytes unchanged (no terminal, no labels).
package elsewhere
