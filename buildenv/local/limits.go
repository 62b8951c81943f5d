package local

import (
	"path"
	"strconv"
	"strings"
)

// bounded answers the smaller of two amounts; 0 means unknown.
func bounded(have, limit uint64) uint64 {
	if have == 0 || limit != 0 && limit < have {
		return limit
	}
	return have
}

// limits answers the bytes that the control groups of this process leave it; 0: no limit. read answers a file's text or nothing. Source:
// Documentation/admin-guide/cgroup-v2.rst of Linux; of version 1 nothing is read.
func limits(read func(path string) string) (memory uint64) {
	_, group, _ := strings.Cut("\n"+read("/proc/self/cgroup"), "\n0::")
	group, _, _ = strings.Cut(group, "\n")
	// In a container the path may be the host's, which is not mounted: then only the root that is says anything, and it is visited
	// in the end in every case. A limit holds for all below it, so the smallest one counts.
	for dir := path.Clean("/" + group); ; dir = path.Dir(dir) {
		at := path.Join("/sys/fs/cgroup", dir)
		memory = bounded(memory, room(read(at+"/memory.max"), read(at+"/memory.current"), read(at+"/memory.stat")))
		if dir == "/" {
			return memory
		}
	}
}

// room is what a group may still take: its limit less what it uses, where cached files that it can drop do not count.
func room(limit, used, stat string) uint64 {
	max := number(limit)
	if max == 0 {
		return 0
	}
	use := number(used)
	for _, line := range strings.Split(stat, "\n") {
		if f := strings.Fields(line); len(f) == 2 && f[0] == "inactive_file" {
			use -= min(use, number(f[1]))
		}
	}
	if use >= max {
		return 1 // 0 would mean unknown
	}
	return max - use
}

// number reads a positive number; 0 for anything else, such as "max" and -1.
func number(s string) uint64 {
	n, err := strconv.ParseUint(strings.TrimSpace(s), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// available reads MemAvailable of /proc/meminfo (proc(5)), which is in KiB.
func available(meminfo string) uint64 {
	for _, line := range strings.Split(meminfo, "\n") {
		if f := strings.Fields(line); len(f) >= 2 && f[0] == "MemAvailable:" {
			return number(f[1]) << 10
		}
	}
	return 0
}
