package cargo

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/hosttest"
)

var testOwn = OwnFlags{"--gpu-arch": Value, "--gpu-strict": Switch, "--gpu-prove": Optional, "--json": Optional}

func words(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, " ")
}

func TestSplitTakesOwnFlagsAndNothingElse(t *testing.T) {
	for _, tt := range []struct{ story, args, cargo, own string }{
		{"no verb means build", "--features cuda --release", "build --features cuda --release", ""},
		{"nothing at all", "", "build", ""},
		{"global flags alone", "--locked -v", "--locked -v build", ""},
		{"a global flag before the verb", "--locked run --bin a", "--locked run --bin a", ""},
		{"toolchain first", "+nightly -Zunstable-options -C dir b -r", "+nightly -Zunstable-options -C dir b -r", ""},
		{"own flag before the verb", "--gpu-strict run -r", "run -r", "--gpu-strict"},
		{"own flag between", "test --lib --gpu-arch sm_90 name -r", "test --lib name -r", "--gpu-arch=sm_90"},
		{"own flag after a test's name", "test name --gpu-strict -r", "test name -r", "--gpu-strict"},
		{"own value with =", "--gpu-arch=sm_90", "build", "--gpu-arch=sm_90"},
		{"optional value takes no word", "build --gpu-prove --release", "build --release", "--gpu-prove"},
		{"optional value with =", "build --gpu-prove=--size=4", "build", "--gpu-prove=--size=4"},
		{
			"a program's words are its own",
			"run --gpu-strict prog --gpu-strict -- --gpu-arch",
			"run prog --gpu-strict -- --gpu-arch",
			"--gpu-strict",
		},
		{"words after -- are the program's", "run -- --gpu-strict --", "run -- --gpu-strict --", ""},
		{"words for rustc", "rustc -r -- --gpu-x", "rustc -r -- --gpu-x", ""},
		{"a binary's name is no program word", "run --bin app --gpu-strict -p core", "run --bin app -p core", "--gpu-strict"},
		{"--bin may lack its name", "run --bin --gpu-strict", "run --bin", "--gpu-strict"},
		{"plugin", "nextest run --features cuda --gpu-strict -- x", "nextest run --features cuda -- x", "--gpu-strict"},
		{"unknown flags pass", "build --from-the-future=1 -X", "build --from-the-future=1 -X", ""},
		{"jobs may be negative", "build -j -1 --gpu-strict", "build -j -1", "--gpu-strict"},
		{"cargo's own list", "--list", "--list", ""},
		{"cargo's own version", "-V", "-V", ""},
		{"an empty trailing", "run --", "run --", ""},
		{"own flag of our own verbs", "build --json=out.json -Fcuda", "build -Fcuda", "--json=out.json"},
	} {
		t.Run(tt.story, func(t *testing.T) {
			l, own := hosttest.Must2(Split(words(tt.args), testOwn))(t)
			hosttest.Equal(t, strings.Join(l.Words(), " "), tt.cargo, "cargo gets")
			var list []string
			for _, o := range own {
				if o.HasValue {
					o.Name += "=" + o.Value
				}
				list = append(list, o.Name)
			}
			hosttest.Equal(t, strings.Join(list, " "), tt.own, "own flags")
		})
	}
}

func TestSplitUnderstandsAllForms(t *testing.T) {
	const targets = "--bin --example --test --bench --lib --bins --tests --benches --all-targets --examples"
	tests := []struct {
		args []string
		want Line
		has  string
	}{
		{words("-Fcuda -F cudnn -F=a,b --features=c --features d,e"), Line{Features: words("cuda cudnn a b c d e")}, ""},
		{[]string{"--features", "cuda cudnn", "-F", " x , y"}, Line{Features: words("cuda cudnn x y")}, ""},
		{words("-pfoo -p bar -p=baz --package qux --package"), Line{Packages: words("foo bar baz qux")}, ""},
		{words("-j8"), Line{}, "--jobs"},
		{words("-vv -v --verbose"), Line{Verbose: 4}, ""},
		{words("-qr"), Line{}, "--quiet --release"},
		{words("-vrFcuda"), Line{Verbose: 1, Features: words("cuda")}, "--release"},
		{words("-rF cuda"), Line{Features: words("cuda")}, "--release"},
		{words("--bin a --bin=b --example c --test d --bench e --lib --bins --tests --benches --all-targets --examples"), Line{}, targets},
		{words("--target a --target=b --target-dir t --manifest-path m --profile p"),
			Line{Target: words("a b"), TargetDir: "t", ManifestPath: "m", Profile: "p"}, ""},
		{words("--workspace --exclude a --exclude b --all-features --no-default-features"),
			Line{Workspace: true, Excludes: words("a b"), AllFeatures: true, NoDefault: true}, ""},
		{words("--message-format=json,json-diagnostic-short --message-format short"),
			Line{MessageFormat: words("json json-diagnostic-short short")}, ""},
		{words("--config a=1 --config b=2 -Zx -Z y --color never --offline --locked --frozen"),
			Line{Config: words("a=1 b=2"), Color: "never"}, "-Z --offline --locked --frozen"},
		{words("--timings --features x --timings=html"), Line{Features: words("x")}, "--timings"},
		{words("-h"), Line{}, "--help"},
		{words("--features -r"), Line{}, "--release"},
	}
	for _, tt := range tests {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			for _, verb := range []string{"build", "b", "test"} {
				l, _ := hosttest.Must2(Split(append([]string{verb}, tt.args...), nil))(t)
				if !slices.Equal(l.Args, tt.args) || l.VerbWord != verb {
					t.Errorf("words changed: %q %q", l.VerbWord, l.Args)
				}
				got := l
				got.Args, got.Verb, got.VerbWord, got.items, got.parts, got.typed, got.verbAt = nil, "", "", nil, nil, nil, 0
				if !reflect.DeepEqual(got, tt.want) {
					t.Errorf("%s: got %+v\nwant %+v", verb, got, tt.want)
				}
				for _, name := range words("--jobs --quiet --release -Z --offline --locked --frozen --timings --help " + targets) {
					if want := slices.Contains(words(tt.has), name); l.Has(name) != want {
						t.Errorf("%s: %s: got %v, want %v", verb, name, !want, want)
					}
				}
			}
		})
	}
}

func TestSplitFaultsOfOurOwnFlags(t *testing.T) {
	for _, tt := range []struct{ args, want, hint string }{
		{"build --gpu-arhc sm_90", "unknown flag `--gpu-arhc`; did you mean `--gpu-arch`?", ""},
		{"build --gpu-zzzzzzzzzz", "unknown flag `--gpu-zzzzzzzzzz`", "`gpubuild build --help` lists the flags"},
		{"build --gpu-arch", "`--gpu-arch` needs a value", "write --gpu-arch=VALUE"},
		{"build --gpu-arch -r", "`--gpu-arch` needs a value", "write --gpu-arch=VALUE"},
		{"run --gpu-arch -- x", "`--gpu-arch` needs a value", "write --gpu-arch=VALUE"},
		{"build --gpu-arch=", "`--gpu-arch` has an empty value", "write --gpu-arch=VALUE"},
		{"build --gpu-arch ", "`--gpu-arch` has an empty value", "write --gpu-arch=VALUE"},
		{"build --gpu-strict=yes", "`--gpu-strict` takes no value, but `yes` was given", "write --gpu-strict alone"},
		{"--release run", "`run` stands after flags and is no argument of `build`", "put the verb first: gpubuild run --release"},
	} {
		_, _, err := Split(words(tt.args), testOwn)
		u, ok := err.(*exit.UsageError)
		if !ok || u.Error() != tt.want || u.Hint() != tt.hint {
			t.Errorf("%s: got %v, hint %q", tt.args, err, u.Hint())
		}
	}
	_, _, err := Split(words("env --gpu-arch 90"), map[string]Kind{"--arch": Value})
	if u, ok := err.(*exit.UsageError); !ok || u.Error() != "unknown flag `--gpu-arch`; did you mean `--arch`?" {
		t.Errorf("a prefix where there is none: %v", err)
	}
}

func TestVerbAndProfile(t *testing.T) {
	for _, tt := range []struct{ args, verb, profile string }{
		{
			"",
			"build",
			"dev",
		}, {"b -r", "build", "release"}, {"c", "check", "dev"}, {"t", "test", "dev"}, {"r", "run", "dev"}, {"d", "doc", "dev"},
		{"bench", "bench", "bench"}, {"bench --profile p", "bench", "p"}, {"nextest run -r", "nextest", "release"}, {"--list", "", "dev"},
	} {
		l, _, err := Split(words(tt.args), nil)
		if err != nil || l.Verb != tt.verb || l.ProfileName() != tt.profile {
			t.Errorf("%q: verb %q profile %q, %v", tt.args, l.Verb, l.ProfileName(), err)
		}
	}
}

// A --config before the verb is lost when one stands after it (cargo 1.95): the field says what cargo heeds.
func TestConfigBeforeTheVerb(t *testing.T) {
	l, _, _ := Split(words("--config a=1 build"), nil)
	if !slices.Equal(l.Config, words("a=1")) {
		t.Errorf("before only: %q", l.Config)
	}
	l, _, _ = Split(words("--config a=1 build --config b=2"), nil)
	if !slices.Equal(l.Config, words("b=2")) {
		t.Errorf("both: %q", l.Config)
	}
	l, _, _ = Split(words("--config a=1 build -r"), nil)
	hosttest.Equal(t, strings.Join(l.WithConfig("c=3").Words(), " "), "--config a=1 build --config a=1 --config c=3 -r", "ours added")
	l, _, _ = Split(words("--config a=1 run --config b=2 -r x --config z"), nil)
	if got := strings.Join(l.WithConfig("c=3").Words(), " "); got != "--config a=1 run --config b=2 --config c=3 -r x --config z" {
		t.Errorf("ours added: %s", got)
	}
}

// TestStarted: the cargo that starts what another one built is told to keep its warnings to itself where it knows the setting.
func TestStarted(t *testing.T) {
	for _, tt := range []struct {
		words string
		minor int
		want  string
	}{
		{"run", 97, `run --quiet --config build.warnings="allow"`}, {"run", 65, "run --quiet"}, {"test", 96, "test"}, {"test", 0, "test"}, {"build", 97, "build"},
	} {
		l, _ := hosttest.Must2(Split(strings.Fields(tt.words), nil))(t)
		hosttest.Equal(t, strings.Join(l.Started(VersionInfo{Minor: tt.minor}).Words(), " "), tt.want, tt.words, tt.minor)
	}
}

func FuzzSplit(f *testing.F) {
	for _, s := range []string{"--features cuda run", "+x -C d b -vrFc --gpu-arch a -- --", "run a --gpu-arch", "-", "- -- -", "--=", "-=", "-p= -F=", "--gpu-prove= x", "test -j -- y"} {
		f.Add(strings.ReplaceAll(s, " ", "\x00"))
	}
	f.Fuzz(func(t *testing.T, s string) {
		args := strings.Split(s, "\x00")
		before := slices.Clone(args)
		l, own, err := Split(args, testOwn)
		if !slices.Equal(args, before) {
			t.Fatal("the arguments were changed")
		}
		if err != nil {
			if _, ok := err.(*exit.UsageError); !ok {
				t.Fatalf("%T", err)
			}
			return
		}
		// What cargo gets is what was typed less our own words, in order, and at most a verb more.
		rest := l.Words()
		if l.VerbWord == "" && l.Verb == "build" {
			at := len(l.Global)
			if l.Toolchain != "" {
				at++
			}
			rest = slices.Delete(slices.Clone(rest), at, at+1)
		}
		i, missing := 0, 0
		for _, w := range args {
			if i < len(rest) && rest[i] == w {
				i++
			} else {
				missing++
			}
		}
		if i != len(rest) || missing < len(own) || missing > 2*len(own) {
			t.Fatalf("%q became %q with %d own", args, rest, len(own))
		}
		again, none, err := Split(l.Words(), testOwn)
		if err == nil && (len(none) > 0 || !slices.Equal(again.Words(), l.Words()) || again.Verb != l.Verb) {
			t.Fatalf("not the same again: %q, %q", l.Words(), again.Words())
		}
	})
}
