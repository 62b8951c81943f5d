package hostcc_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest"
	"gpubuild/toolchain/hostcc"
)

func TestFind(t *testing.T) {
	for _, tt := range []struct {
		story, host string
		want        []string
	}{
		{
			"Debian's names contain the version: nothing is run",
			"os: linux\n-- @env --\nPATH=/usr/bin\n-- @links --\n/usr/bin/gcc -> gcc-12\n/usr/bin/g++ -> g++-12\n/usr/bin/gcc-12 -> x86_64-linux-gnu-gcc-12\n/usr/bin/g++-12 -> x86_64-linux-gnu-g++-12\n/usr/bin/clang-18 -> ../lib/llvm-18/bin/clang\n/usr/bin/clang++-18 -> ../lib/llvm-18/bin/clang++\n-- @empty --\n/usr/bin/x86_64-linux-gnu-gcc-12 +x\n/usr/bin/x86_64-linux-gnu-g++-12 +x\n/usr/lib/llvm-18/bin/clang +x\n/usr/lib/llvm-18/bin/clang++ +x\n/usr/bin/aarch64-linux-gnu-gcc-13 +x\n/usr/bin/gcc-ar +x\n",
			[]string{"gcc 12 /usr/bin/gcc /usr/bin/g++ PATH default", "clang 18 /usr/bin/clang-18 /usr/bin/clang++-18 /usr/bin"},
		},
		{
			"versions as compilers print them",
			"os: linux\n-- @env --\nPATH=/a:/b:/c\n-- @empty --\n/a/gcc +x\n/a/g++ +x\n/b/gcc +x\n/b/g++ +x\n/c/clang +x\n/c/clang++ +x\n/c/gcc +x\n/c/g++ +x\n-- $ /a/gcc --version --\ngcc (GCC) 14.2.1 20250110 (Red Hat 14.2.1-7)\n-- $ /b/gcc --version --\ngcc (Debian 12.2.0-14+deb12u1) 12.2.0\n-- $ /c/clang --version --\nUbuntu clang version 18.1.3 (1ubuntu1)\n-- $ /c/gcc --version --\nApple clang version 15.0.0 (clang-1500.3.9.4)\n",
			[]string{
				"gcc 14.2.1 /a/gcc /a/g++ PATH default",
				"gcc 12.2.0 /b/gcc /b/g++ /b",
				"clang 18.1.3 /c/clang /c/clang++ /c",
				"clang 15.0.0 /c/gcc /c/g++ /c",
			},
		},
		{
			"one without g++",
			"os: linux\n-- @env --\nPATH=/usr/bin\n-- @empty --\n/usr/bin/gcc-11 +x\n",
			[]string{"gcc 11 /usr/bin/gcc-11  /usr/bin: nvcc also needs g++-11, which is missing"},
		},
		{
			"two names of one gcc, and only the second has a g++",
			"os: linux\n-- @env --\nPATH=/a:/b\n-- @links --\n/a/gcc -> /o/gcc-13\n/b/gcc -> /o/gcc-13\n-- @empty --\n/o/gcc-13 +x\n/b/g++ +x\n" +
				"-- $ /a/gcc --version --\ngcc (GCC) 13.1.0\n-- $ /b/gcc --version --\ngcc (GCC) 13.1.0\n",
			[]string{
				"gcc 13.1.0 /a/gcc  PATH default: nvcc also needs g++, which is missing",
				"gcc 13.1.0 /b/gcc /b/g++ /b",
			},
		},
		{
			"gcc without a number, whose g++ has one",
			"os: linux\n-- @env --\nPATH=/usr/bin\n-- @links --\n/usr/bin/gcc -> gcc-12\n-- @empty --\n/usr/bin/gcc-12 +x\n/usr/bin/g++-12 +x\n",
			[]string{"gcc 12 /usr/bin/gcc /usr/bin/g++-12 PATH default"},
		},
		{
			"the user's words come first, launchers are passed over",
			"os: linux\n-- @env --\nPATH=/usr/bin\nCC=ccache gcc-11\nCXX=distcc g++-13\nNVCC_CCBIN=/usr/bin/g++-9\n-- @empty --\n/usr/bin/gcc-11 +x\n/usr/bin/g++-11 +x\n/usr/bin/gcc-13 +x\n/usr/bin/g++-13 +x\n",
			[]string{
				" 0 /usr/bin/g++-9  NVCC_CCBIN: it does not exist",
				"gcc 13 /usr/bin/gcc-13 /usr/bin/g++-13 CXX",
				"gcc 11 /usr/bin/gcc-11 /usr/bin/g++-11 CC",
			},
		},
		{
			"of the variables for C++ sources the one that the cc crate reads",
			"os: linux\narch: amd64\n-- @env --\nPATH=/usr/bin\nCXX=g++-11\nHOST_CXX=g++-12\nCXX_x86_64_unknown_linux_gnu=g++-13\nCXX_aarch64-unknown-linux-gnu=g++-11\n" +
				"-- @empty --\n/usr/bin/gcc-13 +x\n/usr/bin/g++-13 +x\n",
			[]string{"gcc 13 /usr/bin/gcc-13 /usr/bin/g++-13 CXX_x86_64_unknown_linux_gnu"},
		},
		{
			"a path with a space, and two words for one compiler, which nvcc takes by itself",
			"os: linux\n-- @env --\nPATH=/usr/bin\nNVCC_CCBIN=/usr/my tools/g++-12\nCXX=g++-13\n-- @links --\n/usr/bin/gcc -> gcc-13\n/usr/bin/g++ -> g++-13\n" +
				"-- @empty --\n/usr/my tools/gcc-12 +x\n/usr/my tools/g++-12 +x\n/usr/bin/gcc-13 +x\n/usr/bin/g++-13 +x\n",
			[]string{
				"gcc 12 /usr/my tools/gcc-12 /usr/my tools/g++-12 NVCC_CCBIN",
				"gcc 13 /usr/bin/gcc-13 /usr/bin/g++-13 CXX default",
			},
		},
		{
			"nvcc's own variable decides what it takes by itself",
			"os: linux\n-- @env --\nPATH=/usr/bin\nNVCC_PREPEND_FLAGS=-O3 -ccbin=/opt/x/bin/g++-12 -Xptxas -v\n-- @empty --\n/usr/bin/gcc-14 +x\n/usr/bin/g++-14 +x\n/opt/x/bin/g++-12 +x\n-- $ /opt/x/bin/g++-12 --version --\ng++-12 (GCC) 12.4.0\n",
			[]string{
				"gcc 12.4.0 /opt/x/bin/g++-12 /opt/x/bin/g++-12 NVCC_PREPEND_FLAGS default",
				"gcc 14 /usr/bin/gcc-14 /usr/bin/g++-14 /usr/bin",
			},
		},
		{
			"nvcc's variable for what it appends is the stronger one, and a variable may name a directory",
			"os: linux\n-- @env --\nPATH=/usr/bin\nNVCC_PREPEND_FLAGS=-ccbin=/a/g++-11\nNVCC_APPEND_FLAGS=-ccbin /b/g++-12\nNVCC_CCBIN=/c\n" +
				"-- @empty --\n/a/g++-11 +x\n/b/g++-12 +x\n/c/gcc +x\n/c/g++ +x\n-- $ /a/g++-11 --version --\ng++-11 (GCC) 11.4.0\n" +
				"-- $ /b/g++-12 --version --\ng++-12 (GCC) 12.4.0\n-- $ /c/gcc --version --\ngcc (GCC) 13.1.0\n",
			[]string{
				"gcc 13.1.0 /c/gcc /c/g++ NVCC_CCBIN",
				"gcc 12.4.0 /b/g++-12 /b/g++-12 NVCC_APPEND_FLAGS default",
			},
		},
		{
			"one that crashes, one that talks nonsense",
			"os: linux\n-- @env --\nPATH=/a:/b\n-- @empty --\n/a/gcc +x\n/a/g++ +x\n/b/gcc +x\n/b/g++ +x\n-- $ /a/gcc --version +exit=139 --\n-- $ /b/gcc --version --\nhello\n",
			[]string{
				"gcc 0 /a/gcc /a/g++ PATH default: it does not answer --version: gcc --version: exit status 139",
				"gcc 0 /b/gcc /b/g++ /b: its version is unknown",
			},
		},
		{
			"Red Hat's toolsets and LLVM's own directories, which are on no PATH",
			"os: linux\n-- @env --\nPATH=/usr/bin\n-- @empty --\n/usr/bin/gcc +x\n/usr/bin/g++ +x\n/opt/rh/gcc-toolset-13/root/usr/bin/gcc +x\n/opt/rh/gcc-toolset-13/root/usr/bin/g++ +x\n/opt/rh/gcc-toolset-13/root/usr/bin/x86_64-redhat-linux-gcc-13 +x\n/opt/rh/other/root/usr/bin/gcc +x\n/usr/lib/llvm-17/bin/clang +x\n/usr/lib/llvm-17/bin/clang++ +x\n/usr/lib/llvm-17/bin/clang-17 +x\n/usr/local/bin/gcc-15 +x\n/usr/local/bin/g++-15 +x\n-- $ /usr/bin/gcc --version --\ngcc (GCC) 11.5.0 20240719 (Red Hat 11.5.0-5)\n-- $ /opt/rh/gcc-toolset-13/root/usr/bin/gcc --version --\ngcc (GCC) 13.3.1 20240611 (Red Hat 13.3.1-2)\n",
			[]string{
				"gcc 11.5.0 /usr/bin/gcc /usr/bin/g++ PATH default",
				"gcc 15 /usr/local/bin/gcc-15 /usr/local/bin/g++-15 /usr/local/bin",
				"gcc 13.3.1 /opt/rh/gcc-toolset-13/root/usr/bin/gcc /opt/rh/gcc-toolset-13/root/usr/bin/g++ /opt/rh/gcc-toolset-13/root/usr/bin",
				"clang 17 /usr/lib/llvm-17/bin/clang /usr/lib/llvm-17/bin/clang++ /usr/lib/llvm-17/bin",
			},
		},
		{
			"WSL's PATH leads to Windows, which has no compiler for Linux",
			"os: linux\nkernel: 5.15.90.1-microsoft-standard-WSL2\n-- @env --\nPATH=/mnt/c/tools:/a\n-- @empty --\n/mnt/c/tools/gcc-13 +x\n" +
				"/mnt/c/tools/g++-13 +x\n/a/gcc +x\n/a/g++ +x\n-- $ /a/gcc --version --\ngcc (GCC) 12.2.0\n",
			[]string{"gcc 12.2.0 /a/gcc /a/g++ PATH default"},
		},
		{
			"the c++ that the cc crate takes, beside the cc of another one",
			"os: linux\n-- @env --\nPATH=/a:/usr/bin\n-- @links --\n/usr/bin/c++ -> g++-12\n-- @empty --\n/usr/bin/cc +x\n/usr/bin/gcc-12 +x\n/usr/bin/g++-12 +x\n/a/c++ +x\n" +
				"-- $ /a/c++ --version --\nc++ (GCC) 16.1.0\n",
			[]string{"gcc 16.1.0 /a/c++ /a/c++ PATH cc", "gcc 12 /usr/bin/gcc-12 /usr/bin/g++-12 /usr/bin"},
		},
		{
			"c++ as a link to one that is known",
			"os: linux\n-- @env --\nPATH=/usr/bin\n-- @links --\n/usr/bin/c++ -> g++-12\n-- @empty --\n/usr/bin/cc +x\n/usr/bin/gcc-12 +x\n/usr/bin/g++-12 +x\n",
			[]string{"gcc 12 /usr/bin/gcc-12 /usr/bin/g++-12 /usr/bin cc"},
		},
		{"none", "os: linux\n", nil},
	} {
		t.Run(tt.story, func(t *testing.T) {
			h := hosttest.Must(hosttest.Parse([]byte(tt.host)))(t)
			steps := hosttest.Must(hosttest.Commands([]byte(tt.host)))(t)
			var got []string
			for _, c := range hostcc.Find(context.Background(), h, hosttest.NewScript(t, steps...)) {
				s := fmt.Sprintf("%s %s %s %s %s", c.Kind, c.Version, c.Path, c.CXX, c.Origin)
				if c.Version == "" {
					s = fmt.Sprintf("%s 0 %s %s %s", c.Kind, c.Path, c.CXX, c.Origin)
				}
				if c.Default {
					s += " default"
				}
				if c.CCrate {
					s += " cc"
				}
				if c.Problem != "" {
					s += ": " + c.Problem
				}
				got = append(got, s)
			}
			hosttest.Equal(t, strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
		})
	}
}

// TestAsked holds that a compiler outside PATH is found when the user gives its path, and reported when it does not exist.
func TestAsked(t *testing.T) {
	h, err := hosttest.Parse(
		[]byte(
			"os: linux\n-- @env --\nPATH=/usr/bin\n-- @empty --\n/usr/bin/gcc-14 +x\n/usr/bin/g++-14 +x\n/opt/g/bin/g++ +x\n/opt/g/bin/gcc +x\n",
		),
	)
	if err != nil {
		t.Fatal(err)
	}
	all := hostcc.Find(context.Background(), h, says{text: "g++ (GCC) 13.1.0"}, "/opt/g/bin/g++", "g++-14", "/gone/g++", "")
	var got []string
	for _, c := range all {
		got = append(got, c.Path+" "+c.Word+" "+c.Problem)
	}
	if s := strings.Join(got, "|"); s != "/opt/g/bin/gcc asked for |/usr/bin/gcc-14 asked for |/gone/g++ asked for it does not exist" {
		t.Errorf("got %s", s)
	}
}

// says is a runner whose compiler always says the same.
type says struct {
	text string
	err  error
}

func (s says) Run(context.Context, buildenv.Cmd) (buildenv.Result, error) {
	return buildenv.Result{Stdout: []byte(s.text)}, s.err
}

// TestBounded holds that a PATH of any length costs a bounded number of processes.
func TestBounded(t *testing.T) {
	var b strings.Builder
	b.WriteString("os: linux\n-- @env --\nPATH=/d0")
	for i := range 200 {
		fmt.Fprintf(&b, ":/d%d", i)
	}
	b.WriteString("\n-- @empty --\n")
	for i := range 200 {
		fmt.Fprintf(&b, "/d%d/gcc +x\n/d%d/g++ +x\n", i, i)
	}
	h := hosttest.Must(hosttest.Parse([]byte(b.String())))(t)
	if n := len(hostcc.Find(context.Background(), h, says{text: "gcc (GCC) 13.1.0"})); n > 24 {
		t.Errorf("%d compilers", n)
	}
	for _, c := range hostcc.Find(context.Background(), h, says{err: errors.New("no such file")}) {
		if c.Problem == "" {
			t.Errorf("%s: no problem reported", c.Path)
		}
	}
}

func FuzzVersion(f *testing.F) {
	for _, s := range []string{"gcc (GCC) 14.2.1 20250110 (Red Hat 14.2.1-7)", "clang version 18.1.3", ")", "gcc (((( 1.2", "99999999999999999999.1"} {
		f.Add(s)
	}
	h := hosttest.Must(hosttest.Parse([]byte("os: linux\n-- @env --\nPATH=/a\n-- @empty --\n/a/gcc +x\n/a/g++ +x\n")))(f)
	f.Fuzz(func(t *testing.T, text string) {
		for _, c := range hostcc.Find(context.Background(), h, says{text: text}) {
			if c.Problem == "" && c.Major <= 0 {
				t.Errorf("%q: %+v", text, c)
			}
		}
	})
}
