package saved

import (
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/lazyregexp"
)

// plainVariables are those whose whole value may be kept: what names directories, versions and architectures. There is no rule by how a
// name begins: VS and VC stand before Visual Studio's variables, and before VSS_NUGET_EXTERNAL_FEED_ENDPOINTS, VCPKG_BINARY_SOURCES and
// VCAP_SERVICES, which hold passwords.
var plainVariables = set(`
PATH PATHEXT HOME USERPROFILE LD_LIBRARY_PATH LIBRARY_PATH CONDA_PREFIX VIRTUAL_ENV CARGO_HOME RUSTUP_HOME TMP WSL_DISTRO_NAME
CMAKE_GENERATOR CUDATOOLKIT_ROOT CUDA_HOME CUDA_PATH CUDA_ROOT CUDA_TOOLKIT_ROOT_DIR CUDA_LIBRARY_PATH CUDNN_LIB CUDNN_PATH
CUDNN_HOME CUDNN_ROOT CUDACXX CUDAARCHS NVCC CUDA_COMPUTE_CAP CUDARC_CUDA_VERSION CUDA_VISIBLE_DEVICES CUDA_DEVICE_ORDER
CUDA_MODULE_LOADING NVIDIA_VISIBLE_DEVICES NVIDIA_DRIVER_CAPABILITIES CUDAFORGE_THREADS RAYON_NUM_THREADS ROCM_HOME ROCM_PATH
HIP_PATH HIP_PATH_64
GPUBUILD_CUDA GPUBUILD_ARCH GPUBUILD_BACKEND GPUBUILD_CACHE
PROGRAMFILES PROGRAMFILES(X86) PROGRAMW6432 PROGRAMDATA SYSTEMROOT LOCALAPPDATA APPDATA INCLUDE EXTERNAL_INCLUDE LIB LIBPATH
VSINSTALLDIR VCINSTALLDIR VCIDEINSTALLDIR VCTOOLSINSTALLDIR VCTOOLSVERSION VCTOOLSREDISTDIR DEVENVDIR VISUALSTUDIOVERSION
VSCMD_VER VSCMD_ARG_HOST_ARCH VSCMD_ARG_TGT_ARCH VSCMD_ARG_APP_PLAT WINDOWSSDKDIR WINDOWSSDKVERSION WINDOWSSDKLIBVERSION
WINDOWSSDKBINPATH WINDOWSSDKVERBINPATH WINDOWSLIBPATH UCRTVERSION UNIVERSALCRTSDKDIR EXTENSIONSDKDIR FRAMEWORKDIR FRAMEWORKDIR64
FRAMEWORKVERSION FRAMEWORKVERSION64 COMMANDPROMPTTYPE PLATFORM PREFERREDTOOLARCHITECTURE`)

// pathLists are the plain variables of which only the directories are kept in which something was found.
var pathLists = set("PATH LD_LIBRARY_PATH LIBRARY_PATH")

// compilerVariables name a compiler and may say more; flagVariables are words for nvcc, linkVariables words for a linker.
var (
	compilerVariables = set("NVCC_CCBIN CUDAHOSTCXX HOST_COMPILER CXX CC")
	flagVariables     = set("NVCC_PREPEND_FLAGS NVCC_APPEND_FLAGS CUDA_NVCC_FLAGS")
	linkVariables     = set("RUSTFLAGS CARGO_ENCODED_RUSTFLAGS CARGO_BUILD_RUSTFLAGS NIX_LDFLAGS")
	numberedVariable  = lazyregexp.New(`^(CUDA_PATH_V\d+_\d+|VS\d+COMNTOOLS)$`)
	option            = lazyregexp.New(`\s+[-/]`)
	// nvccFlag matches what is read of nvcc's flags: see hostcc.Find and toolchain.Unchecked.
	nvccFlag = lazyregexp.New(
		`(?:-ccbin|--compiler-bindir)(?:=|\s+)(?:"[^"]+"|'[^']+'|\S+)|` +
			`-{1,2}allow-unsupported-compiler\b|-D\s*__NV_NO_HOST_COMPILER_CHECK\b(?:=\d+)?`,
	)
)

func set(words string) map[string]bool {
	out := map[string]bool{}
	for _, w := range strings.Fields(words) {
		out[w] = true
	}
	return out
}

// variable answers what may be kept of a variable: its value, or those words of it that something here reads. false: nothing.
func variable(h buildenv.Host, name, value string) (string, bool) {
	up := strings.ToUpper(name)
	if strings.ContainsAny(value, "\r\n") {
		return "", false
	}
	switch {
	case plainVariables[up] || numberedVariable.MatchString(up):
		return value, true
	case compilerVariables[up] && h.OS == buildenv.Windows: // a path with blanks, or 14.44
		value = option.Split(value, 2)[0]
		return value, value != ""
	case compilerVariables[up]:
		if h.IsAbs(value) && h.IsFile(value) {
			return value, true
		}
		words := strings.Fields(value)
		n := 0
		for n < len(words) && (strings.HasSuffix(words[n], "ccache") || strings.HasSuffix(words[n], "distcc")) {
			n++
		}
		return strings.Join(words[:min(n+1, len(words))], " "), len(words) > 0
	case flagVariables[up]:
		kept := strings.Join(nvccFlag.FindAllString(value, -1), " ")
		return kept, kept != ""
	case linkVariables[up]: // that it names directories at all is what is read of it
		return "-L", strings.Contains(value, "-L")
	}
	return "", false
}

var (
	// readable are the files whose content is read when a machine is looked at; of every other one it counts that it is there.
	readable = lazyregexp.New(
		`(?i)^(version|version\.(json|txt)|\.hipversion|state\.json|microsoft\.vc[a-z0-9.]*\.txt|[\w+.-]+\.(h|hpp))$`,
	)
	// projects are the names of files and directories that belong to somebody's project or to the user, wherever they lie.
	projects = lazyregexp.New(
		`(?i)(^|[/\\])(\.cargo|\.rustup|\.git|\.ssh|\.aws|\.netrc|\.config|cargo\.(toml|lock)|` +
			`gpubuild\.toml|rust-toolchain(\.toml)?|[^/\\]+\.rs)($|[/\\])`,
	)
	urlUser  = lazyregexp.New(`\b([a-zA-Z][a-zA-Z0-9+.-]*://)[^/\s"'@]+@`)
	urlQuery = lazyregexp.New(`\b([a-zA-Z][a-zA-Z0-9+.-]*://[^\s"'?]+)\?[^\s"'` + "`" + `]+`)
	word     = lazyregexp.New(`^[A-Za-z]+$`)
	secretly = lazyregexp.New(`(?i)token|secret|passw|passphrase|credential|apikey|api_key|access_key|_key$|_pat$|auth|cookie`)
)

// Text takes out of a text what must never be shown: the user of a URL, who may have a password, and its question, which may hold a
// key; and the values of variables whose names say that they are secret.
func Text(env buildenv.Env, s string) string {
	s = urlQuery.ReplaceAllString(urlUser.ReplaceAllString(s, "${1}…@"), "$1?…")
	for _, e := range env.Entries() {
		name, value, _ := strings.Cut(e, "=")
		// A single word may stand anywhere, as "legacy" of NPM_CONFIG_AUTH_TYPE does; a path is none.
		if secretly.MatchString(name) && len(value) >= 8 && !word.MatchString(value) && !strings.HasPrefix(value, "/") &&
			!strings.Contains(value, `:\`) {
			s = strings.ReplaceAll(s, value, "…")
		}
	}
	return s
}

// generic are names of users that name nobody.
var generic = set(
	"root user users admin ubuntu debian fedora arch build builder runner runneradmin ci jenkins vscode nvidia cuda linux " +
		"linuxbrew dev developer docker node rust cargo home app public shared default work workspace " +
		"lib bin usr local opt etc include share version program files windows system32 llvm",
)

// The name of a home on a Windows drive may have blanks; it ends at the next separator.
var (
	windowsHome = lazyregexp.New(`(?i)((?:\b[a-z]:|/mnt/[a-z])[\\/]users[\\/])([^\\/:;"'` + "`" + `\r\n]+)([\\/])`)
	otherHome   = lazyregexp.New(`((?:/home|/Users)/)([^/:;\s"'` + "`" + `,()\\]+)()`)
	renamed     = lazyregexp.New(`^u\d*$`)
)

// anonymous puts general names in place of the user's, in the home directory's path and wherever else it stands as a word, and of
// others who have a home.
func (r *Recorder) anonymous(text string) string {
	h := r.host
	names, taken := map[string]string{}, map[string]bool{}
	user := path.Base(strings.ReplaceAll(h.Home, `\`, "/"))
	if h.Home != "" && user != "root" && user != "/" && user != "." {
		fold := ""
		if h.OS == buildenv.Windows {
			fold = "(?i)"
		}
		up := h.Home[:len(h.Home)-len(user)]
		text = regexp.MustCompile(fold+regexp.QuoteMeta(up+user)+`\b`).ReplaceAllLiteralString(text, up+"u")
		if len(user) > 3 && !generic[strings.ToLower(user)] && !telling.MatchString(user) {
			text = regexp.MustCompile(`(?i)(^|[^a-z0-9])`+regexp.QuoteMeta(user)+`(?:\b|_)`).
				ReplaceAllStringFunc(text, func(m string) string {
					i := len(m) - len(user)
					if strings.HasSuffix(m, "_") {
						return m[:i-1] + "u_"
					}
					return m[:i] + "u"
				})
		}
	}
	for _, homes := range []*lazyregexp.Regexp{windowsHome, otherHome} {
		text = homes.ReplaceAllStringFunc(text, func(m string) string {
			p := homes.FindStringSubmatch(m)
			name := strings.ToLower(p[2])
			if generic[name] || renamed.MatchString(name) || name == "all users" {
				return m
			}
			for n := 2; names[name] == ""; n++ {
				if free := "u" + strconv.Itoa(n); !taken[free] && !strings.Contains(text, "/"+free) && !strings.Contains(text, `\`+free) {
					names[name], taken[free] = free, true
				}
			}
			return p[1] + names[name] + p[3]
		})
	}
	return text
}

// answer is what is kept of what a program printed. Of a compiler's, that is
// its version: what a wrapper adds may speak of the user's company.
func answer(program string, text []byte) []byte {
	if strings.Contains(program, "nvidia-smi") {
		return uuids(text)
	}
	lines := strings.SplitAfter(string(text), "\n")
	at := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, "clang version") })
	if at < 1 {
		return []byte(lines[0])
	}
	return []byte(lines[0] + lines[at])
}
