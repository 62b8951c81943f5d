# Installs gpubuild @VERSION@ for this user. GPUBUILD_BIN: where to; GPUBUILD_BASE: a mirror of the release, or a directory with its files.
$ErrorActionPreference = 'Stop'
$to = if ($env:GPUBUILD_BIN) { $env:GPUBUILD_BIN } else { Join-Path $HOME '.local\bin' }
$arm = $env:PROCESSOR_ARCHITECTURE -eq 'ARM64' -or $env:PROCESSOR_ARCHITEW6432 -eq 'ARM64'
$target, $sum = if ($arm) { 'aarch64-pc-windows-msvc', '@aarch64-pc-windows-msvc@' } else { 'x86_64-pc-windows-msvc', '@x86_64-pc-windows-msvc@' }
$name = "gpubuild-$target-v@VERSION@"
$here = $PSScriptRoot -and (Test-Path (Join-Path $PSScriptRoot "$name.zip")) # the release's files are next to this script
$base = if ($env:GPUBUILD_BASE) { $env:GPUBUILD_BASE } elseif ('@BASE@' -and -not $here) { '@BASE@' } else { $PSScriptRoot }
$dir = Join-Path ([IO.Path]::GetTempPath()) ([guid]::NewGuid())
New-Item -ItemType Directory $dir | Out-Null
try {
  $zip = Join-Path $dir 'a.zip'
  if ($base -like 'https://*') { Invoke-WebRequest -UseBasicParsing "$base/$name.zip" -OutFile $zip } else { Copy-Item (Join-Path $base "$name.zip") $zip }
  if ((Get-FileHash $zip -Algorithm SHA256).Hash -ne $sum) { throw "the SHA-256 of $name.zip is not the one of this release" }
  Expand-Archive $zip $dir
  New-Item -ItemType Directory -Force $to | Out-Null
  Copy-Item (Join-Path $dir "$name\gpubuild.exe") (Join-Path $to 'gpubuild.exe') -Force
  Copy-Item (Join-Path $dir "$name\gpubuild.exe") (Join-Path $to 'cargo-gpubuild.exe') -Force
  & (Join-Path $to 'gpubuild.exe') version
  if (($env:PATH -split ';') -notcontains $to) { "add $to to PATH" }
} finally { Remove-Item -Recurse -Force $dir }
