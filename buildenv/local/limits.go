package local

import (
	"math"
	"path"
	"strconv"
	"strings"
)

// bounded answers the smaller of two amounts; 0 means unknown.
func bounded[T int | uint64](have, limit T) T {
	if have == 0 || limit != 0 && limit < have {
		return limit
	}
	return have
}

// limits answers the processors and bytes that the control groups of this process leave it; 0: no limit. read answers a file's text or
// nothing. Sources: Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst of Linux.
func limits(read func(path string) string) (cpus int, memory uint64) {
	for _, line := range strings.Split(read("/proc/self/cgroup"), "\n") {
		// "0::/path" is version 2, "4:cpu,cpuacct:/path" version 1.
		f := strings.SplitN(line, ":", 3)
		if len(f) != 3 {
			continue
		}
		// In a container the path may be the host's, which is not mounted: then only the root that is says anything, and it is visited
		// in the end in every case. A limit holds for all below it, so the smallest one counts.
		for dir := path.Clean("/" + f[2]); ; dir = path.Dir(dir) {
			c, m := groupLimits(read, f[1], dir)
			cpus, memory = bounded(cpus, c), bounded(memory, m)
			if dir == "/" {
				break
			}
		}
	}
	return cpus, memory
}

func groupLimits(read func(string) string, controllers, dir string) (cpus int, memory uint64) {
	at := func(elem ...string) string { return read(path.Join(append([]string{"/sys/fs/cgroup"}, elem...)...)) }
	if controllers == "" {
		if f := strings.Fields(at(dir, "cpu.max")); len(f) == 2 {
			cpus = quota(number(f[0]), number(f[1]))
		}
		max, used := at(dir, "memory.max"), at(dir, "memory.current")
		return cpus, room(max, used, at(dir, "memory.stat"), "inactive_file")
	}
	for _, c := range strings.Split(controllers, ",") {
		switch c {
		case "cpu":
			cpus = quota(number(at("cpu", dir, "cpu.cfs_quota_us")), number(at("cpu", dir, "cpu.cfs_period_us")))
		case "memory":
			max, used := at("memory", dir, "memory.limit_in_bytes"), at("memory", dir, "memory.usage_in_bytes")
			memory = room(max, used, at("memory", dir, "memory.stat"), "total_inactive_file")
		}
	}
	return cpus, memory
}

// quota is how many processors "quota microseconds in each period" are, at least one; 0 when there is no quota.
func quota(quota, period uint64) int {
	if quota == 0 || period == 0 {
		return 0
	}
	return int(min(math.Ceil(float64(quota)/float64(period)), math.MaxInt32))
}

// room is what a group may still take: its limit less what it uses, where cached files that it can drop do not count.
func room(limit, used, stat, cache string) uint64 {
	max := number(limit)
	if max == 0 || max >= 1<<60 { // version 1 writes "none" as almost 2^63
		return 0
	}
	use := number(used)
	for _, line := range strings.Split(stat, "\n") {
		if f := strings.Fields(line); len(f) == 2 && f[0] == cache {
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
