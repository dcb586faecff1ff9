#!/usr/bin/env bash
# ./dev package: dist/lambent-VERSION-linux-x86_64.tar.gz, which runs from wherever it is unpacked: programs, the emulated driver, the
# shim, the driver of forwarded CUDA, examples, and every library but glibc.
source "$(dirname "$0")/common.sh"
build release
version="$(sed -n 's/^project(lambent VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)"
name="lambent-$version-linux-$(uname -m)"
stage="$(mktemp -d)"
trap 'rm -rf "$stage"' EXIT
target="$stage/$name"
mkdir -p "$target/bin" "$target/lib"

for program in lambent lambent-worker lambent-launcher lambent-device lambent-executor lambent-bundle lambent-simulator \
  lambent-sweep lambent-why lambent-slices lambent-shim emulated-gpu; do
  install -s "build/release/bin/$program" "$target/bin/"
done
cp -r build/release/lib/emulated build/release/lib/shim build/release/lib/forward "$target/lib/"
cp -r build/release/share build/release/examples "$target/"
# The README shows a picture below docs and leads to the other pages.
cp -r README.md ARCHITECTURE.md CONTRIBUTING.md STYLE.md CHANGELOG.md LICENSE docs "$target/"

say "gathering libraries"
# Everything that the programs load but what belongs to glibc, which must be the machine's own.
{ find "$target/bin" "$target/lib" -type f -print0 | xargs -0 -n1 ldd 2>/dev/null || true; } |
  awk '/=> \// {print $3}' | sort -u |
  grep -vE '/(libc|libm|libdl|libpthread|librt|libresolv|ld-linux[^/]*|libcuda|libnvidia-ml)\.so' |
  while read -r library; do
    cp -L "$library" "$target/lib/"
  done

mkdir -p dist
tar -C "$stage" -czf "dist/$name.tar.gz" "$name"
say "dist/$name.tar.gz ($(du -h "dist/$name.tar.gz" | cut -f1))"
