// Package probe owns the C programs that witness what a process does on a GPU, builds them, and reads what they write.
//
// Three sources stand in csrc. probe.c becomes a library that the CUDA driver itself loads into a process (CUDA_INJECTION64_PATH) and
// that writes CUPTI's kernel records as JSON lines. control.c becomes the positive control: a program that certainly runs a kernel.
// watch.c becomes the parent of the program that is watched, because only a parent can tell whether children came and went unseen.
// Build compiles them by the user's host compiler into a private directory that is named by a hash of the sources and the compiler;
// what was built is hashed, and checked before each use.
//
// A record file is named <pid>-<start time>.jsonl. Its lines, by "event": injected (the heartbeat: version, pid, ppid, started, exe,
// exe_device, exe_inode, caller; forked for a fork of a recorded process), unavailable (step, rc, why) or recording (cupti, libcupti,
// libcuda, driver, callbacks, drivers), interposed (symbol, by), kernel (name, cut, device, context, stream, grid, block, start, end; count
// and total when launches were summed up), device (ordinal, uuid, name, major, minor), driver (drivers, nodes), dropped (count),
// bad-buffer (rc), note (why), end (flush, kernels, unfinished, dropped, accepted, lost_writes). Times are CUPTI's nanoseconds.
//
// The records are foreign bytes: the program under watch could write them itself. ParseRecords bounds and counts, it trusts nothing;
// what records mean is gpu/verify's business. A program that wants to forge records can: nothing here guards against that.
package probe
