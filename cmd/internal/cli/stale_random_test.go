//go:build linux

package cli_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"time"

	"gpubuild/buildenv/hosttest/need"
)

// wish is what a build is asked for.
type wish struct {
	root     string // "live", or "b": a tree that is never anything but the other toolkit
	how      string // how it is named: usual, path, flag, nvcc
	arch     string
	compiler string // of the host
	features string
	profile  string
}

func (w wish) String() string {
	return fmt.Sprintf("%s by %s, sm_%s, g++ %s, %s, %s", w.root, w.how, w.arch, w.compiler, w.features, w.profile)
}

// world is the state that a round changes and the next one finds.
type world struct {
	k     *kernels
	r     *rand.Rand
	live  string         // the tree whose content lies behind live
	forms map[string]int // of each package's kernel
	wish  wish
	old   map[string][]byte // earlier stamps
}

// tree is the toolkit that a wish means now.
func (w *world) tree(of wish) string {
	if of.root == "b" {
		return "b"
	}
	return w.live
}

// environment is a wish as a command's environment and flags.
func (w *world) environment(of wish) (env, flags []string) {
	k := w.k
	tree := map[string]string{"live": "a", "b": "b"}[of.root] // root("a") is the link
	switch of.how {
	case "path":
		env = k.onPath(tree)
	case "flag":
		env, flags = []string{"PATH=" + os.Getenv("PATH")}, []string{"--gpu-toolkit=" + k.root(tree)}
	case "nvcc":
		env = k.onPath(map[string]string{"a": "b", "b": "a"}[tree], "NVCC="+filepath.Join(k.root(tree), "bin", "nvcc"))
	default:
		env = k.usual(tree)
	}
	env = append(env, "CUDA_COMPUTE_CAP="+of.arch)
	if of.compiler == "11" {
		env = append(env, "NVCC_CCBIN=/usr/bin/g++-11")
	}
	if of.profile != "dev" {
		flags = append(flags, "--profile", of.profile)
	}
	return env, flags
}

// draw changes one thing of a wish.
func (w *world) draw(of wish, what int) wish {
	switch what {
	case 0:
		of.root = map[string]string{"live": "b", "b": "live"}[of.root]
	case 1:
		of.how = []string{"usual", "path", "flag", "nvcc"}[w.r.IntN(4)]
	case 2:
		of.arch = map[string]string{"80": "90", "90": "80"}[of.arch]
	case 3:
		of.compiler = map[string]string{"11": "12", "12": "11"}[of.compiler]
	case 4:
		// CMake takes seconds to make up its mind, so not too often.
		set := []string{"cuda"}
		for _, f := range []string{"archive", "cc", "driver"} {
			if w.r.IntN(2) == 0 {
				set = append(set, f)
			}
		}
		if w.r.IntN(6) == 0 {
			set = append(set, "cmake")
		}
		// cc looks for libcudart in targets/x86_64-linux/lib alone, which toolkits made of wheels do not have; archive names the directory.
		if slices.Contains(set, "cc") && !slices.Contains(set, "archive") {
			set = append(set, "archive")
		}
		of.features = strings.Join(set, ",")
	case 5:
		of.profile = map[string]string{"dev": "second", "second": "dev"}[of.profile]
	}
	return of
}

// change does one thing to the machine or to what is wished for, and says what.
func (w *world) change() string {
	k, r := w.k, w.r
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	any := func() string { return pick("ptx", "archive", "cc", "cmake") }
	dir := "now/target/" + map[string]string{"dev": "debug", "second": "second"}[w.wish.profile]
	switch n := r.IntN(16); n {
	case 0, 1, 2, 3, 4, 5:
		was := w.wish
		w.wish = w.draw(was, n)
		return fmt.Sprintf("%v → %v", was, w.wish)
	case 6:
		w.live = pick("a", "b")
		k.trees()
		k.dirty = true
		k.sh("ln -sfn trees/" + w.live + " live")
		return "live is a link to " + w.live
	case 7:
		w.live = pick("a", "b")
		k.trees()
		k.plant(map[string]string{"a": k.first, "b": k.other}[w.live], "a")
		return "what live leads to replaced by a copy of " + w.live
	case 8:
		path := pick("now/ws/"+any()+"/src/kernel.cu", "now/ws/app/src/main.rs", "live/bin/nvcc", "live/include/cuda.h",
			"live/lib/libcudart_static.a")
		if strings.HasPrefix(path, "live") {
			k.sh("d=$(readlink -f " + path + "); cp -a $d own.tmp; mv -f own.tmp $d")
			k.dirty = true
		}
		k.sh("touch " + path)
		return path + " touched"
	case 9:
		name := any()
		w.forms[name] = 1 - w.forms[name]
		k.edit(k.now("ws"), name, w.forms[name])
		return fmt.Sprintf("%s's kernel edited: form %d", name, w.forms[name])
	case 10:
		by := w.wish
		for range 2 {
			by = w.draw(by, r.IntN(5))
		}
		env, flags := w.environment(by)
		flags = slices.DeleteFunc(flags, func(f string) bool { return strings.HasPrefix(f, "--gpu-") })
		if by.how == "flag" {
			env = append(env, w.k.onPath(map[string]string{"live": "a", "b": "b"}[by.root])[0]) // cargo knows no flag of ours
		}
		text, code := k.cargo(env, by.features, flags...)
		return fmt.Sprintf("plain cargo: %v (ended with %d; compiled %q)", by, code, compiled(text))
	case 11:
		name := any()
		what := pick("kernels", "deps/libkernels_"+name+"-*", "build/kernels-"+name+"-*", ".fingerprint/kernels-"+name+"-*", "build",
			".fingerprint/kernels-*")
		k.sh("rm -rf " + dir + "/" + what)
		return "removed " + dir + "/" + what
	case 12:
		// Those of everything else would have cargo compile everything else, which says nothing about us.
		by := []time.Duration{0, time.Hour, -24 * time.Hour}[r.IntN(3)]
		k.shift(k.now("target"), "kernels", by)
		return fmt.Sprintf("times of our packages' files moved by %v (0: all are now)", by)
	case 13:
		list := k.stamps("*")
		if len(list) == 0 {
			return "no stamp is there"
		}
		path := pick(list...)
		data, err := os.ReadFile(path)
		noError(k.t, err)
		how := pick("cut", "emptied", "garbled", "removed", "replaced by an earlier one")
		switch old := w.old[path]; {
		case how == "removed":
			k.sh("rm " + path)
			return path + " removed"
		case how == "cut" && len(data) > 0:
			data = data[:r.IntN(len(data))]
		case how == "garbled" && len(data) > 0:
			for range 3 {
				data[r.IntN(len(data))] ^= byte(1 + r.IntN(255))
			}
		case how == "replaced by an earlier one" && old != nil:
			data = old
		default:
			data = nil
		}
		noError(k.t, os.WriteFile(path, data, 0o644))
		return path + " " + how
	case 14:
		k.sh("rm -rf now/cache")
		return "gpubuild's cache emptied"
	default:
		for _, path := range k.stamps("*") {
			if data, err := os.ReadFile(path); err == nil {
				w.old[path] = data
			}
		}
		return "nothing"
	}
}

// random draws changes by lot and holds the device code of each build against that of a clean build by plain cargo: byte for byte. Every
// step is logged, and the same GPUBUILD_TEST=seed=N takes the same steps again.
func (k *kernels) random() {
	n := need.Count(k.t, "random", 3)
	r, seed := lots(k.t)
	k.restore("all")
	// A second profile compiles everything anew once, the build crates included: only where there is time for it.
	profiles := full(k.t)
	w := &world{k: k, r: r, live: "a", forms: map[string]int{}, old: map[string][]byte{},
		wish: wish{"live", "usual", "90", "12", "cuda," + small, "dev"}}
	began, rebuilt := time.Now(), 0
	for i := range n {
		for range 1 + r.IntN(3) {
			was := w.wish
			step := w.change()
			if w.wish.profile != was.profile && !profiles {
				w.wish, step = was, "nothing"
			}
			k.t.Logf("%d: %s", i, step)
		}
		env, flags := w.environment(w.wish)
		text, code := k.gpubuild(env, w.wish.features, flags...)
		k.t.Logf("%d: gpubuild: %v (ended with %d; compiled %q)", i, w.wish, code, compiled(text))
		if len(compiled(text)) > 0 {
			rebuilt++
		}
		fail := func(why string) {
			k.t.Fatalf("seed %d, round %d: %s\n%s", seed, i, why, text)
		}
		if code != 0 {
			fail(fmt.Sprintf("ended with %d", code))
		}
		program := k.now("target", map[string]string{"dev": "debug", "second": "second"}[w.wish.profile], "kernels")
		is := slices.DeleteFunc(k.held(program), func(im image) bool { return im.Kernel == "driver_scale" })
		if want := w.clean(); !slices.Equal(is, want) {
			fail(fmt.Sprintf("the program holds\n%+v\na clean build\n%+v", is, want))
		}
		// cc tells nvcc the compiler that it would take for C++ itself, so that only cudaforge's packages know NVCC_CCBIN, and CMake
		// CUDAHOSTCXX.
		if has := strings.Contains(k.comment(program), " 11."); has != (w.wish.compiler == "11" &&
			(strings.Contains(w.wish.features, "archive") || strings.Contains(w.wish.features, "cmake"))) {
			fail("host code is from another compiler: " + k.comment(program))
		}
		k.record(fmt.Sprintf("round %d", i))
	}
	k.t.Logf("%d rounds, seed %d, %v: %d compiled something, %d kernels built cleanly for comparison", n, seed,
		time.Since(began).Round(time.Second), rebuilt, len(k.known))
}

// clean is the device code that a clean build by plain cargo has for the wish; each kernel is built once for each toolkit, architecture and
// form.
func (w *world) clean() []image {
	k := w.k
	tree := w.tree(w.wish)
	names := kernelsOf(w.wish.features)
	key := func(name string) string {
		return fmt.Sprintf("%s %s %s %d", tree, w.wish.arch, name, w.forms[name])
	}
	if slices.ContainsFunc(names, func(n string) bool { return k.known[key(n)] == nil }) {
		k.build(names, tree, w.wish.arch, w.forms, func(images []image) {
			for _, im := range images {
				if name, _, _ := strings.Cut(im.Kernel, "_scale"); slices.Contains(names, name) {
					k.known[key(name)] = append(k.known[key(name)], im)
				}
			}
		}, key)
	}
	var out []image
	for _, n := range names {
		out = append(out, k.known[key(n)]...)
	}
	sort.Slice(out, func(a, b int) bool { return fmt.Sprint(out[a]) < fmt.Sprint(out[b]) })
	return out
}

// build builds these kernels cleanly with plain cargo, in a place of its own and with the toolkits themselves.
func (k *kernels) build(names []string, tree, arch string, forms map[string]int, keep func([]image), key func(string) string) {
	k.t.Helper()
	k.sh("test -d oracle/ws || { rm -rf oracle; cp -a snap/all oracle; }")
	ws, target := filepath.Join(k.dir, "oracle", "ws"), filepath.Join(k.dir, "oracle", "target")
	features := []string{"archive"} // without which cc does not find libcudart
	for _, name := range names {
		k.edit(ws, name, forms[name])
		delete(k.known, key(name))
		if name != "ptx" {
			features = append(features, name)
		}
	}
	root := map[string]string{"a": k.first, "b": k.other}[tree]
	env := []string{"PATH=" + filepath.Join(root, "bin") + ":" + os.Getenv("PATH"), "CUDA_HOME=" + root, "CUDA_COMPUTE_CAP=" + arch,
		"CARGO_TARGET_DIR=" + target}
	for _, words := range [][]string{
		{"cargo", "clean", "-p", "kernels", "-p", "kernels-ptx", "-p", "kernels-archive", "-p", "kernels-cc", "-p", "kernels-cmake"},
		{"cargo", "build", "-p", "kernels", "--features", strings.Join(features, ",")},
	} {
		c := k.command(env, words...)
		c.Dir = ws
		if out, err := c.CombinedOutput(); err != nil {
			k.t.Fatalf("clean build: %v: %v\n%s", words, err, out)
		}
	}
	keep(k.held(filepath.Join(target, "debug", "kernels")))
}
