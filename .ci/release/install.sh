#!/bin/sh
# Installs gpubuild @VERSION@ for this user. GPUBUILD_BIN: where to (~/.local/bin); GPUBUILD_BASE: a mirror of the release, or a directory with its files.
set -eu
main() {
  bin=${GPUBUILD_BIN:-$HOME/.local/bin}
  case "$(uname -s)-$(uname -m)" in
    Linux-x86_64) target=x86_64-unknown-linux-musl sum=@x86_64-unknown-linux-musl@ ;;
    Linux-aarch64 | Linux-arm64) target=aarch64-unknown-linux-musl sum=@aarch64-unknown-linux-musl@ ;;
    Darwin-x86_64) target=x86_64-apple-darwin sum=@x86_64-apple-darwin@ ;;
    Darwin-arm64) target=aarch64-apple-darwin sum=@aarch64-apple-darwin@ ;;
    *) stop "there is no program for $(uname -sm)" ;;
  esac
  name=gpubuild-$target-v@VERSION@
  here=$(cd "$(dirname "$0")" && pwd)
  base=${GPUBUILD_BASE:-@BASE@}
  if [ -z "${GPUBUILD_BASE:-}" ] && [ -f "$here/$name.tgz" ]; then base=$here; fi # the release's files are next to this script
  [ -n "$base" ] || stop "$name.tgz is not next to this script, and GPUBUILD_BASE names no other directory or https address"
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  case "$base" in
    https://*)
      if command -v curl >/dev/null; then
        curl -fsSL --proto '=https' --tlsv1.2 -o "$work/archive" "$base/$name.tgz"
      else
        command -v wget >/dev/null || stop "curl or wget is needed, or $name.tgz next to this script"
        wget -qO "$work/archive" "$base/$name.tgz"
      fi ;;
    http://*) stop "GPUBUILD_BASE is no https address" ;;
    *) cp "${base#file://}/$name.tgz" "$work/archive" ;;
  esac
  if command -v sha256sum >/dev/null; then got=$(sha256sum "$work/archive"); else got=$(shasum -a 256 "$work/archive"); fi
  [ "${got%% *}" = "$sum" ] || stop "the SHA-256 of $name.tgz is not the one of this release"
  tar -xzf "$work/archive" -C "$work"
  mkdir -p "$bin"
  cp "$work/$name/gpubuild" "$bin/.gpubuild.new"
  chmod 755 "$bin/.gpubuild.new"
  mv -f "$bin/.gpubuild.new" "$bin/gpubuild" # also over one that runs
  ln -sf gpubuild "$bin/cargo-gpubuild"
  "$bin/gpubuild" version
  case ":$PATH:" in
    *":$bin:"*) ;;
    *) echo "add $bin to PATH" ;;
  esac
}
stop() {
  echo "gpubuild: $1" >&2
  exit 1
}
main "$@"
