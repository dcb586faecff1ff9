#!/usr/bin/env bash
# unpack_debian.sh SUITE FOLDER PACKAGE...: unpacks these packages of another suite of Debian, with all that they depend on, below FOLDER.
# Nothing of the system changes, and none of their scripts runs.
set -euo pipefail
suite="$1" folder="$2"
shift 2
apt="$(mktemp -d)"
trap 'rm -rf "$apt"' EXIT
mkdir -p "$apt/state/lists/partial" "$apt/cache/archives/partial" "$folder"
touch "$apt/status"
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
echo "deb [signed-by=$keyring] http://deb.debian.org/debian $suite main" >"$apt/sources.list"
options=(-q -y -o "Dir::Etc::SourceList=$apt/sources.list" -o Dir::Etc::SourceParts=- -o "Dir::State=$apt/state" -o Acquire::Retries=3
  -o "Dir::State::status=$apt/status" -o "Dir::Cache=$apt/cache" -o APT::Sandbox::User=root -o APT::Install-Recommends=false)
apt-get "${options[@]}" update >/dev/null
apt-get "${options[@]}" install --download-only "$@" >/dev/null
for package in "$apt"/cache/archives/*.deb; do dpkg-deb -x "$package" "$folder"; done
