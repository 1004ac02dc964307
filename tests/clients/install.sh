#!/usr/bin/env bash
# Prints a folder for PYTHONPATH with the wheels of requirements.txt; makes it, by some 500 MB of
# downloads, where it is not there.
#
#   tests/clients/install.sh
#
# It lies in the cache, ${XDG_CACHE_HOME:-~/.cache}/cuspan/clients, one folder for each Python and
# each state of requirements.txt.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${XDG_CACHE_HOME:-${HOME:?install: neither XDG_CACHE_HOME nor HOME is set}/.cache}/cuspan/clients
python=$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
folder=$cache/$python-$(sha256sum "$here/requirements.txt" | cut -c 1-16)
if [[ ! -d $folder ]]; then
  mkdir -p "$cache"
  work=$(mktemp -d "$cache/making.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  # Not into Python's own places: --target leaves the installed packages alone.
  PIP_ROOT_USER_ACTION=ignore python3 -m pip install --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
    --target "$work/site" --requirement "$here/requirements.txt" >&2 || {
    echo "install: the wheels of $here/requirements.txt cannot be installed with python3 -m pip (see above)" >&2
    exit 1
  }
  # Another run may have been faster.
  mv -T "$work/site" "$folder" 2> /dev/null || [[ -d $folder ]] || {
    echo "install: $folder cannot be made" >&2
    exit 1
  }
fi
echo "$folder"
