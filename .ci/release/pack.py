#!/usr/bin/env python3
"""Makes from the archives in DIST (main.go): wheels, .deb and .rpm packages (nfpm), an OCI image (one tar), install.sh and install.ps1,
and where ADDRESS is that of a repository, a Homebrew formula, a Scoop and a winget manifest. Prints the names.

usage: pack.py DIST VERSION EPOCH ADDRESS
"""

import base64
import gzip
import hashlib
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile

HERE = pathlib.Path(__file__).parent
DIST, VERSION, EPOCH, ADDRESS = pathlib.Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]
BASE = f"{ADDRESS}/releases/download/v{VERSION}" if ADDRESS else ""
ISO = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(EPOCH))
SUMMARY = "Build Rust GPU code with cargo and prove that it ran on the GPU"
# The newest one without go.digitalxero.dev, a host of modules that the Go proxies of closed networks do not know (its msix packager).
NFPM = "github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.2"

# The tags of each wheel. Static Go needs no glibc, so that a wheel for Linux has tags for both C libraries (PEP 425's compressed sets).
TAGS = {
    "x86_64-unknown-linux-musl": "manylinux_2_17_x86_64.manylinux2014_x86_64.musllinux_1_1_x86_64",
    "aarch64-unknown-linux-musl": "manylinux_2_17_aarch64.manylinux2014_aarch64.musllinux_1_1_aarch64",
    "x86_64-pc-windows-msvc": "win_amd64",
    "aarch64-pc-windows-msvc": "win_arm64",
    "x86_64-apple-darwin": "macosx_12_0_x86_64",
    "aarch64-apple-darwin": "macosx_12_0_arm64",
}
LINUX = {"amd64": "x86_64-unknown-linux-musl", "arm64": "aarch64-unknown-linux-musl"}
WINDOWS = {"x64": "x86_64-pc-windows-msvc", "arm64": "aarch64-pc-windows-msvc"}


def stem(triple):
    return f"gpubuild-{triple}-v{VERSION}"


def archive(triple):
    return DIST / (stem(triple) + (".zip" if "windows" in triple else ".tgz"))


def contents(triple):
    """The files of an archive by their path below its folder."""
    skip = len(stem(triple)) + 1
    if "windows" in triple:
        with zipfile.ZipFile(archive(triple)) as z:
            return {n[skip:]: z.read(n) for n in z.namelist()}
    with tarfile.open(archive(triple)) as t:
        return {m.name[skip:]: t.extractfile(m).read() for m in t if m.isfile()}


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def sum_of(triple):
    return sha256(archive(triple).read_bytes())


def compressed(data):
    return gzip.compress(data, 9, mtime=0)


def pep440():
    version = VERSION.replace("-rc.", "rc").replace("-beta.", "b").replace("-alpha.", "a")
    if not re.fullmatch(r"[0-9.]+((rc|b|a)[0-9]+)?", version):
        sys.exit(f"a wheel cannot have the version {VERSION}: use 1.2.3, 1.2.3-rc.1, -beta.1 or -alpha.1")
    return version


def readme(text):
    """README for a page that is not in the repository: its links lead there."""
    if ADDRESS:
        text = re.sub(rb"\]\((?!https:|#)", f"]({ADDRESS}/blob/v{VERSION}/".encode(), text)
        text = re.sub(rb'(src|srcset)="(?!https:)', rf'\1="{ADDRESS}/raw/v{VERSION}/'.encode(), text)
    return text


def wheel(triple, files):
    """https://packaging.python.org/en/latest/specifications/binary-distribution-format/"""
    program = "gpubuild.exe" if "windows" in triple else "gpubuild"
    version = pep440()
    info, data = f"gpubuild-{version}.dist-info", f"gpubuild-{version}.data"
    metadata = (
        f"Metadata-Version: 2.4\nName: gpubuild\nVersion: {version}\nSummary: {SUMMARY}\n"
        "License-Expression: MIT\nLicense-File: LICENSE\nLicense-File: THIRD-PARTY.txt\nRequires-Python: >=3.8\n"
        "Description-Content-Type: text/markdown\n\n"
    )
    tags = "".join(f"Tag: py3-none-{t}\n" for t in TAGS[triple].split("."))
    entries = {
        f"{data}/scripts/{program}": files[program],
        "gpubuild_shim.py": (HERE / "shim.py").read_bytes(),
        f"{data}/data/share/man/man1/gpubuild.1": files["man/gpubuild.1"],
        f"{info}/METADATA": metadata.encode() + readme(files["README.md"]),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: gpubuild-release\nRoot-Is-Purelib: false\n{tags}".encode(),
        f"{info}/entry_points.txt": b"[console_scripts]\ncargo-gpubuild = gpubuild_shim:main\n",
        f"{info}/licenses/LICENSE": files["LICENSE"],
        f"{info}/licenses/THIRD-PARTY.txt": files["THIRD-PARTY.txt"],
        f"{info}/sboms/gpubuild.cdx.json": files["gpubuild.cdx.json"],
    }
    record = ""
    for name, content in entries.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(content)}\n"
    entries[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    with zipfile.ZipFile(DIST / f"gpubuild-{version}-py3-none-{TAGS[triple]}.whl", "w") as z:
        for name, content in entries.items():
            entry = zipfile.ZipInfo(name, time.gmtime(EPOCH)[:6])
            entry.create_system = 3  # Unix: the upper half of external_attr is the mode
            entry.external_attr = (0o100755 if "/scripts/" in name else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            z.writestr(entry, content, compresslevel=9)


def tar(entries):
    """A tar of (path, content, mode): None is a directory, text is where a symbolic link leads."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as w:
        for path, content, mode in entries:
            entry = tarfile.TarInfo(path)
            entry.mtime, entry.mode, entry.uname, entry.gname = EPOCH, mode, "root", "root"
            if content is None:
                entry.type = tarfile.DIRTYPE
                w.addfile(entry)
            elif isinstance(content, str):
                entry.type, entry.linkname = tarfile.SYMTYPE, content
                w.addfile(entry)
            else:
                entry.size = len(content)
                w.addfile(entry, io.BytesIO(content))
    return out.getvalue()


def image(programs):
    """An OCI layout: an image from scratch with gpubuild alone for each architecture, to COPY --from, and their index.
    https://github.com/opencontainers/image-spec"""
    parts = {"oci-layout": b'{"imageLayoutVersion":"1.0.0"}'}

    def blob(content, kind):
        if not isinstance(content, bytes):
            content = json.dumps(content, separators=(",", ":"), sort_keys=True).encode()
        digest = sha256(content)
        parts["blobs/sha256/" + digest] = content
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": "sha256:" + digest, "size": len(content)}

    manifests = []
    for arch, files in programs.items():
        layer = tar(
            [
                ("usr/", None, 0o755),
                ("usr/local/", None, 0o755),
                ("usr/local/bin/", None, 0o755),
                ("usr/local/bin/gpubuild", files["gpubuild"], 0o755),
                ("usr/local/bin/cargo-gpubuild", "gpubuild", 0o777),
                ("LICENSE", files["LICENSE"], 0o644),
                ("THIRD-PARTY.txt", files["THIRD-PARTY.txt"], 0o644),
            ]
        )
        config = {
            "architecture": arch,
            "os": "linux",
            "created": ISO,
            "config": {
                "Entrypoint": ["/usr/local/bin/gpubuild"],
                "Env": ["PATH=/usr/local/bin:/usr/bin:/bin"],
                "Labels": {
                    "org.opencontainers.image.version": VERSION,
                    "org.opencontainers.image.licenses": "MIT",
                    **({"org.opencontainers.image.source": ADDRESS} if ADDRESS else {}),
                },
            },
            "rootfs": {"type": "layers", "diff_ids": ["sha256:" + sha256(layer)]},
            "history": [{"created": ISO, "created_by": "gpubuild's .ci/release"}],
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": blob(config, "config.v1+json"),
            "layers": [blob(compressed(layer), "layer.v1.tar+gzip")],
        }
        manifests.append(dict(blob(manifest, "manifest.v1+json"), platform={"os": "linux", "architecture": arch}))
    index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": manifests}
    top = dict(blob(index, "index.v1+json"), annotations={"org.opencontainers.image.ref.name": VERSION})
    parts["index.json"] = json.dumps({"schemaVersion": 2, "manifests": [top]}).encode()
    entries = [("blobs/", None, 0o755), ("blobs/sha256/", None, 0o755)]
    entries += [(path, parts[path], 0o644) for path in sorted(parts)]
    (DIST / f"gpubuild-v{VERSION}-oci.tar").write_bytes(tar(entries))


def linux_packages(arch, files):
    """A .deb and a .rpm, by nfpm."""
    with tempfile.TemporaryDirectory() as work:
        listed = [{"src": "gpubuild", "dst": "/usr/bin/cargo-gpubuild", "type": "symlink", "file_info": {"mtime": ISO}}]

        def add(path, content, mode=0o644):
            source = pathlib.Path(work, str(len(listed)))
            source.write_bytes(content)
            info = {"mode": mode, "owner": "root", "group": "root", "mtime": ISO}
            listed.append({"src": str(source), "dst": path, "file_info": info})

        add("/usr/bin/gpubuild", files["gpubuild"], 0o755)
        add("/usr/share/man/man1/gpubuild.1.gz", compressed(files["man/gpubuild.1"]))
        add("/usr/share/doc/gpubuild/copyright", files["LICENSE"] + b"\n" + files["THIRD-PARTY.txt"])
        add("/usr/share/bash-completion/completions/gpubuild", files["completions/gpubuild.bash"])
        add("/usr/share/zsh/site-functions/_gpubuild", files["completions/_gpubuild"])
        add("/usr/share/fish/vendor_completions.d/gpubuild.fish", files["completions/gpubuild.fish"])
        config = {
            "name": "gpubuild",
            "arch": arch,
            "version": VERSION,
            "release": "1",
            "maintainer": "gpubuild",
            "description": SUMMARY,
            "license": "MIT",
            "homepage": ADDRESS,
            "section": "devel",
            "priority": "optional",
            "suggests": ["cargo"],  # apt installs what is recommended, and who has rustup's cargo needs no other
            "mtime": ISO,
            "disable_globbing": True,
            "rpm": {"buildhost": "localhost", "summary": SUMMARY},
            "contents": listed,
        }
        path = pathlib.Path(work, "nfpm.yaml")
        path.write_text(json.dumps(config))  # JSON is YAML
        for kind in ("deb", "rpm"):
            command = ["go", "run", NFPM, "package", "--config", str(path), "--packager", kind, "--target", str(DIST)]
            subprocess.run(command, check=True, stdout=sys.stderr, env={**os.environ, "SOURCE_DATE_EPOCH": str(EPOCH)})
    for made in DIST.glob("*~*"):  # 1.0.0~rc.1: GitHub renames such a file, and SHA256SUMS would not name it
        made.rename(made.with_name(made.name.replace("~", ".")))


def scripts(have):
    for name in ("install.sh", "install.ps1"):
        text = (HERE / name).read_text().replace("@BASE@", BASE).replace("@VERSION@", VERSION)
        for triple in TAGS:
            text = text.replace(f"@{triple}@", sum_of(triple) if triple in have else "none")
        (DIST / name).write_text(text)


def homebrew(have):
    text = (HERE / "gpubuild.rb").read_text().replace("@ADDRESS@", ADDRESS).replace("@VERSION@", VERSION)
    for triple in TAGS:
        url = f'url "{BASE}/{archive(triple).name}"\n      sha256 "{sum_of(triple)}"' if triple in have else "# none"
        text = text.replace(f"@{triple}@", url)
    (DIST / "gpubuild.rb").write_text(text)


def scoop(have):
    architectures = {}
    for arch, triple in WINDOWS.items():
        if triple in have:
            url = f"{BASE}/{archive(triple).name}"
            architectures["64bit" if arch == "x64" else arch] = {"url": url, "hash": sum_of(triple), "extract_dir": stem(triple)}
    manifest = {
        "version": VERSION,
        "description": SUMMARY,
        "homepage": ADDRESS,
        "license": "MIT",
        "architecture": architectures,
        "bin": ["gpubuild.exe", ["gpubuild.exe", "cargo-gpubuild"]],
    }
    (DIST / "gpubuild.json").write_text(json.dumps(manifest, indent=2))


def winget(have):
    """The three files of a package in https://github.com/microsoft/winget-pkgs: a manifest in one file has one installer only."""
    owner = ADDRESS.split("/")[3]
    installers = "InstallerType: zip\nNestedInstallerType: portable\nInstallers:\n"
    for arch, triple in WINDOWS.items():
        if triple in have:
            installers += f"""- Architecture: {arch}
  InstallerUrl: {BASE}/{archive(triple).name}
  InstallerSha256: {sum_of(triple).upper()}
  NestedInstallerFiles:
  - RelativeFilePath: {stem(triple)}\\gpubuild.exe
    PortableCommandAlias: gpubuild
"""
    locale = f"""PackageLocale: en-US
Publisher: {owner}
PackageName: gpubuild
License: MIT
ShortDescription: {SUMMARY}
PackageUrl: {ADDRESS}
"""
    for suffix, kind, text in (
        ("", "version", "DefaultLocale: en-US\n"),
        (".installer", "installer", installers),
        (".locale.en-US", "defaultLocale", locale),
    ):
        head = f"PackageIdentifier: {owner}.gpubuild\nPackageVersion: {VERSION}\n"
        (DIST / f"{owner}.gpubuild{suffix}.yaml").write_text(f"{head}{text}ManifestType: {kind}\nManifestVersion: 1.6.0\n")


def main():
    before = {p.name for p in DIST.iterdir()}
    have = {t: contents(t) for t in TAGS if archive(t).exists()}
    for triple, files in have.items():
        wheel(triple, files)
    linux = {arch: have[t] for arch, t in LINUX.items() if t in have}
    if linux:
        image(linux)
    for arch, files in linux.items():
        linux_packages(arch, files)
    scripts(have)
    if BASE:
        homebrew(have)
    if BASE and any(t in have for t in WINDOWS.values()):
        scoop(have)
        winget(have)
    for name in sorted(p.name for p in DIST.iterdir() if p.name not in before):
        print(name)


main()
