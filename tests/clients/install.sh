#!/usr/bin/env bash
# Prints a folder for PYTHONPATH with the wheels of a list beside this script; makes it if missing.
#
#   tests/clients/install.sh              those of requirements.txt, some 500 MB of downloads
#   tests/clients/install.sh torch.txt    some 3 GB
#   tests/clients/install.sh jax.txt      some 270 MB
#   tests/clients/install.sh headers.txt  some 6 MB
#
# The folder is in the cache, ${XDG_CACHE_HOME:-~/.cache}/cuspan/clients: one per Python version and
# version of the list.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
list=$here/${1:-requirements.txt}
[[ -f $list ]] || {
  echo "install: there is no $list; usage: $0 [requirements.txt|torch.txt|jax.txt|headers.txt]" >&2
  exit 2
}
cache=${XDG_CACHE_HOME:-${HOME:?install: neither XDG_CACHE_HOME nor HOME is set}/.cache}/cuspan/clients
python=$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
folder=$cache/$python-$(sha256sum "$list" | cut -c 1-16)
if [[ ! -d $folder ]]; then
  mkdir -p "$cache"
  work=$(mktemp -d "$cache/making.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  # --target keeps the packages out of Python's own folders. --no-cache-dir avoids a second copy in
  # pip's cache.
  PIP_ROOT_USER_ACTION=ignore python3 -m pip install --quiet --disable-pip-version-check --no-cache-dir \
    --no-deps --only-binary=:all: --target "$work/site" --requirement "$list" >&2 || {
    echo "install: the wheels of $list cannot be installed with python3 -m pip (see above)" >&2
    exit 1
  }
  # Another run may have made the folder first.
  mv -T "$work/site" "$folder" 2> /dev/null || [[ -d $folder ]] || {
    echo "install: $folder cannot be made" >&2
    exit 1
  }
fi
echo "$folder"
