"""cargo-gpubuild of a wheel: starts the program gpubuild that was installed with it."""

import os
import sys
import sysconfig


def main():
    name = "gpubuild.exe" if os.name == "nt" else "gpubuild"
    program = os.path.join(sysconfig.get_path("scripts"), name)
    if not os.path.exists(program):  # pip install --user, --prefix
        program = os.path.join(os.path.dirname(os.path.abspath(sys.argv[0])), name)
    args = sys.argv[1:]
    if args[:1] == ["gpubuild"]:  # cargo names the subcommand first
        args = args[1:]
    if os.name == "nt":
        import subprocess

        sys.exit(subprocess.call([program] + args))
    os.execv(program, ["gpubuild"] + args)
