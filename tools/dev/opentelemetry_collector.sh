#!/usr/bin/env bash
# opentelemetry_collector.sh PROGRAM: OpenTelemetry's own Collector, for tests/clients/test_opentelemetry.py, compiled from the Go sources
# that Debian's unstable suite has, by its Go. Some 1 GB is downloaded and four minutes of two cores are taken, once.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
source="$here/../../tests/clients/collector/main.go"
program="$(realpath -m "$1")"  # Go refuses folders that are not absolute
mkdir -p "$(dirname "$program")"
[ "$source" -nt "$program" ] || exit 0
folder="$(mktemp -d -p "$(dirname "$program")")"
trap 'chmod -R u+w "$folder"; rm -rf "$folder"' EXIT
"$here/unpack_debian.sh" sid "$folder/root" golang-go golang-opentelemetry-collector-dev
go="$(ls -d "$folder"/root/usr/lib/go-*)"
export GOROOT="$go" GOPATH="$folder/root/usr/share/gocode" GOCACHE="$folder/cache" GO111MODULE=off GOTOOLCHAIN=local CGO_ENABLED=0
"$go/bin/go" build -trimpath -o "$program.new" "$source"
mv "$program.new" "$program"
