// Package hosttest is a stored machine: a txtar file read as a buildenv.Host, and a scripted runner for the commands that a test expects.
// Only tests import it. It never looks at the machine that the test runs on, so that a Windows host can be read on Linux.
//
// # The format
//
// The text before the first section holds one "key: value" a line, and comments that begin with #:
//
//	os: linux            # linux, windows or darwin; must be given
//	arch: amd64          # amd64 when left out
//	kernel: 6.1.0-18     # release of the kernel
//	home: /home/u
//	cwd: /home/u/app
//	cpus: 8              # 4 when left out
//
// A comment ends such a line only when a space stands before the #. Then the sections. A name that is an absolute path by the host's own
// rules is a file with that content; a trailing newline belongs to it. Directories above it exist, too. After the name, set off by a
// space, may stand:
//
//	+x            may be executed (Linux, macOS)
//	+0640         its permission bits
//	+base64       the content is base64
//	+hex          the content is hexadecimal, blanks between the bytes are ignored
//	+chomp        the last newline does not belong to the content
//	+crlf         every newline is CR LF
//	+unreadable   can be looked at but not opened: fs.ErrPermission
//	+size=N       N bytes: the content, then zeros
//
// A name that begins with @ says something of the machine, one fact a line; lines that begin with # and empty lines are skipped:
//
//	-- @env --         NAME=value
//	-- @links --       /usr/local/cuda -> cuda-13.4      (the target is relative to the link's directory, or absolute)
//	-- @dirs --        /empty/directory                  (+unreadable may follow: it cannot be listed)
//	-- @empty --       /path/of/an/empty/file +x
//	-- @registry --    as below
//
// The registry is written as regedit writes it, with values as they are (no quotes, no escapes); @ is a key's default value:
//
//	[HKLM\SOFTWARE\Microsoft\VisualStudio\SxS\VS7]
//	17.0=C:\Program Files\Microsoft Visual Studio\2022\Community\
//	[32 HKLM\SOFTWARE\Microsoft\Microsoft SDKs\Windows\v10.0]
//	InstallationFolder=C:\Program Files (x86)\Windows Kits\10\
//	[unreadable HKLM\SOFTWARE\Secret]
//
// A key below HKLM\SOFTWARE belongs to the 64-bit view, or with "32" before it to the 32-bit view, or with "both" to both; all other keys
// are in both, as Windows shares them ("Registry Keys Affected by WOW64", Microsoft).
//
// A name that begins with $ is a command and what it prints, for Commands:
//
//	-- $ /usr/bin/gcc --version --
//	gcc (Debian 12.2.0-14) 12.2.0
//	-- $ /usr/bin/nvidia-smi -L +exit=9 +stderr --
//
// Its words are split at blanks; '…' and "…" keep a word together. +exit=N is its status, +stderr means that it is written there.
//
// Limits: no times (all files are of the same moment), no owners, no case-insensitive macOS, no junction that is no link.
package hosttest
