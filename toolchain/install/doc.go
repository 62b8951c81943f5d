// Package install puts a CUDA toolkit into the user's own cache without admin rights: it picks a pinned set of wheels, has the user's own
// pip fetch them (so that mirrors, proxies and credentials hold), checks each against its hash, unpacks them into one tree, adds what no
// wheel has (links, version.json, link stubs) and renames the tree into place. A wheel is unpacked as soon as pip has it, while it fetches the next.
//
// It never asks and never decides whether to fetch: Plan.Lines says what a Run would fetch, how large it is and under whose licence, and
// the caller has the user's consent before it calls Run.
//
// It owns the formats pins.toml, stubs/*.txt, gpubuild-toolkit.json (the marker, written last) and gpubuild-files.json (every file with its
// hash), and the directories toolkits/ and wheels/ of the cache.
//
// A toolkit below toolkits/ is complete or absent: everything happens in a directory beside it whose name begins with a dot, under a
// lock between processes. Nothing is synced to the disk before the rename, so that a machine that loses power in that second can leave a
// damaged tree; Verify finds it. Only Linux and Windows on x86_64 have pins. Windows trees get no link stubs: what import libraries there
// are lie in the runtime's wheel.
package install
