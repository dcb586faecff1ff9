# Sourced by the scripts of ./dev: installs what is missing and builds. Asks nothing.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
cd "$root"
export CCACHE_BASEDIR="$root" CCACHE_NOHASHDIR=1
export CCACHE_MAXSIZE="${CCACHE_MAXSIZE:-5G}"

say() { printf '\033[1m== %s\033[0m\n' "$*" >&2; }
die() { printf 'dev: %s\n' "$*" >&2; exit 1; }

# install_packages FILE: installs the Debian packages listed in FILE that are missing; removes none.
install_packages() {
  local missing=() name
  while read -r name _; do
    case "$name" in ''|'#'*) continue ;; esac
    dpkg-query -W -f='${db:Status-Status}' "$name" 2>/dev/null | grep -qx installed || missing+=("$name")
  done <"$1"
  [ ${#missing[@]} -eq 0 ] && return 0
  command -v apt-get >/dev/null || die "needs Debian's apt-get to install: ${missing[*]}"
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || die "as root, run: apt-get install ${missing[*]}"
    as_root=(sudo)
  fi
  say "installing ${missing[*]}"
  "${as_root[@]}" apt-get update -qq
  DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y -qq --no-install-recommends \
    --no-remove "${missing[@]}" >/dev/null
}

# python_packages FILE...: a virtual environment in .venv with exactly these packages.
python_packages() {
  local wanted
  wanted="$(cat "$@")"
  [ "$wanted" = "$(cat .venv/installed.txt 2>/dev/null)" ] && return 0
  say "installing Python packages into .venv"
  /usr/bin/python3 -m venv --clear .venv
  local file
  for file in "$@"; do
    .venv/bin/pip install --quiet --disable-pip-version-check --retries 5 -r "$file" || return 1
  done
  printf '%s\n' "$wanted" >.venv/installed.txt
}

# more_python_packages FILE: those too, where they can be had.
more_python_packages() {
  local installed
  installed=".venv/$(basename "$1")"
  cmp --quiet "$1" "$installed" && return 0
  say "installing the Python packages of $1 into .venv"
  .venv/bin/pip install --quiet --disable-pip-version-check --timeout 30 --retries 3 -r "$1" || return 1
  cp "$1" "$installed"
}

# Whether a CUDA toolkit is installed; tests/programs/CMakeLists.txt looks in the same places.
has_nvcc() { command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ]; }

# build [KIND] [targets...]: KIND is release (default), asan, tsan or fuzz; in build/KIND. With LAMBENT_UNITY=ON a new folder compiles
# sources in batches (docs/internals/build.md).
build() {
  local kind="${1:-release}"
  [ $# -gt 0 ] && shift
  local options=(-DCMAKE_BUILD_TYPE=RelWithDebInfo "-DLAMBENT_UNITY=${LAMBENT_UNITY:-OFF}")
  case "$kind" in
    release) ;;
    asan) options+=(-DLAMBENT_SANITIZE=address,undefined,float-cast-overflow) ;;
    tsan) options+=(-DLAMBENT_SANITIZE=thread) ;;
    fuzz) options+=(-DLAMBENT_FUZZ=ON -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++) ;;
    *) die "no such build: $kind" ;;
  esac
  install_packages tools/dev/packages.txt
  mkdir -p "build/$kind"
  if [ ! -f "build/$kind/build.ninja" ]; then
    say "configuring build/$kind"
    cmake -S . -B "build/$kind" -G Ninja "${options[@]}" -DCMAKE_C_COMPILER_LAUNCHER=ccache \
      -DCMAKE_CXX_COMPILER_LAUNCHER=ccache >"build/$kind.configure.log" 2>&1 ||
      { tail -30 "build/$kind.configure.log" >&2; die "configuring failed"; }
  fi
  say "building build/$kind"
  cmake --build "build/$kind" ${@:+--target "$@"}
}
