#!/usr/bin/env bash
# ./dev docs: the documentation as a site in dist/site, by MkDocs. Any warning is an error.
source "$(dirname "$0")/common.sh"
install_packages tools/dev/packages.txt
site=.cache/site-tools
wanted="$(cat tools/site/requirements.txt)"
if [ "$wanted" != "$(cat "$site/installed.txt" 2>/dev/null)" ]; then
  say "installing MkDocs into $site"
  /usr/bin/python3 -m venv --clear "$site"
  "$site/bin/pip" install --quiet --disable-pip-version-check --retries 5 -r tools/site/requirements.txt
  printf '%s\n' "$wanted" >"$site/installed.txt"
fi
NO_MKDOCS_2_WARNING=1 "$site/bin/mkdocs" build --quiet --config-file tools/site/mkdocs.yml "$@"
say "dist/site/index.html"
