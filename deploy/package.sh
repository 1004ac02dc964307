#!/usr/bin/env bash
# Makes Debian packages of cuspan for this machine's release of Debian or Ubuntu, and checks them
# with lintian. With --try it also installs them in a bare Debian below the build folder. There it
# runs two CUDA programs on software GPUs, removes the packages, and checks for files left.
#
#   deploy/package.sh [--build DIR] [--try]      DIR: build folder (default: build/package)
#
# The packages are in DIR/packages. --try runs as root, and downloads some 300 MB.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build=build/package
try=0
while (($# > 0)); do
  case $1 in
    --build) build=${2:?package: --build needs a folder} && shift 2 ;;
    --try) try=1 && shift ;;
    *)
      echo "usage: $0 [--build DIR] [--try]" >&2
      exit 2
      ;;
  esac
done
if ((try && EUID != 0)); then
  echo "package: --try installs into a separate Debian: run it as root" >&2
  exit 1
fi
mkdir -p "$build"
build=$(realpath "$build")
step_total=$((try ? 12 : 6))
step_logs=$build/package-logs
# shellcheck source=deploy/steps.sh
source deploy/steps.sh

begin "install packages"
quietly deploy/install-dependencies.sh --packaging

begin "find the CUDA Toolkit"
toolkit=$(deploy/toolkit.sh 2> >(tee "$step_log" >&2)) || failed
echo "      $toolkit"

begin "configure"
# Debian's MPI and UCX are in the loader's default folders.
quietly cmake --preset release -B "$build" -DCMAKE_INSTALL_PREFIX=/usr -DCMAKE_SKIP_INSTALL_RPATH=ON \
  -DCUSPAN_TESTS=OFF -DCUSPAN_NVCC="$toolkit/bin/nvcc"

begin "build"
# Everything except the benchmarks; they are not packaged.
building cmake --build "$build" --parallel "$(build_jobs)" --target \
  common/all protocol/all interpose/all proxy/all launcher/all

begin "make the packages"
packages=$build/packages
rm -rf "$packages"
# Makes packages reproducible.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y CMakeLists.txt)}
export SOURCE_DATE_EPOCH
quietly cpack --config "$build/CPackConfig.cmake" -G DEB -B "$packages"
rm -rf "$packages/_CPack_Packages"
show_packages() {
  local package
  for package in "$packages"/*.deb; do
    echo "${package##*/}, $(stat -c %s "$package") bytes"
    dpkg-deb --field "$package" Depends Recommends Suggests
  done
}
visibly show_packages

begin "check them"
check_packages() {
  lintian --allow-root --fail-on error,warning "$packages"/*.deb
  echo "lintian found nothing"
}
visibly check_packages

if ((!try)); then
  echo "the packages are in $packages"
  exit 0
fi

begin "make a bare Debian"
bare=$build/bare
suite=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
# From where this machine gets its packages: lines of suite, component and address.
# shellcheck disable=SC2016  # apt's, not the shell's.
sources() { apt-get indextargets --format '$(RELEASE) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages'; }
make_bare() {
  rm -rf "$bare"
  debootstrap --variant=minbase "$suite" "$bare" \
    "$(sources | awk -v suite="$suite" '$1 == suite && $2 == "main" { print $3; exit }')"
  sources | awk -v suite="$suite" 'index($1, suite) == 1 && $2 == "main" { print "deb", $3, $1, $2 }' | sort -u \
    >"$bare/etc/apt/sources.list"
  apt-config dump | grep '^Acquire::http' >"$bare/etc/apt/apt.conf.d/90proxy" || true
  echo "127.0.0.1 localhost $(hostname)" >"$bare/etc/hosts"
  in_bare apt-get -qq update
}
# in_bare COMMAND…: as root in the bare Debian, with file systems that go away with the command.
# shellcheck disable=SC2016  # Expanded by the inner shell.
in_bare() {
  unshare --mount --pid --fork sh -c '
    mount -t proc proc "$1/proc" && mount -t tmpfs tmpfs "$1/dev" && mount -t tmpfs tmpfs "$1/tmp" &&
    mkdir "$1/dev/shm" "$1/dev/pts" && chmod 1777 "$1/dev/shm" "$1/tmp" &&
    mount -t devpts -o newinstance,ptmxmode=0666 devpts "$1/dev/pts" && ln -s pts/ptmx "$1/dev/ptmx" &&
    for device in null zero full random urandom tty; do
      touch "$1/dev/$device" && mount --bind "/dev/$device" "$1/dev/$device" || exit
    done
    mkdir "$1/tmp/packages" "$1/tmp/programs" &&
    mount --bind "$2" "$1/tmp/packages" && mount --bind "$3" "$1/tmp/programs" || exit
    root=$1
    shift 3
    exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive HOME=/root chroot "$root" "$@"
  ' sh "$bare" "$packages" "$programs" "$@"
}
# as_user COMMAND…: runs it there without root privileges.
as_user() {
  in_bare setpriv --reuid=1000 --regid=1000 --clear-groups env HOME=/tmp "$@"
}
programs=$build/programs
mkdir -p "$programs"
quietly make_bare

begin "compile two CUDA programs"
compile() {
  local program
  for program in matmul fft; do
    "$toolkit/bin/nvcc" -O1 -std=c++17 -cudart static "tests/apps/$program.cu" -o "$programs/$program"
  done
}
quietly compile

begin "install the packages there"
# All files except the state of apt and dpkg, and files left by adduser for openssh-client's group.
list_files() {
  (cd "$bare" && find . -xdev \( -path ./proc -o -path ./dev -o -path ./tmp -o -path ./var/cache -o -path ./var/log \
    -o -path ./var/lib/apt -o -path ./var/lib/dpkg -o -path ./etc/gshadow- -o -path ./run/adduser \) -prune -o -print) | sort
}
list_files >"$build/files-before"
# Without recommended packages: one node does not need them.
install_there() {
  in_bare sh -c 'apt-get --yes --no-install-recommends install /tmp/packages/cuspan_*.deb /tmp/packages/cuspan-software-gpu_*.deb'
}
quietly install_there
in_bare dpkg-query --list 'cuspan*'

begin "run the programs, on one node and without mpirun"
run_there() {
  as_user cuspan --version
  as_user cuspan devices --device soft
  as_user cuspan doctor --device soft
  as_user cuspan run --device soft --stats -- /tmp/programs/matmul 512
  as_user cuspan run --device soft --stats -- /tmp/programs/fft 14 32
}
visibly run_there

begin "run them on two remote devices, with mpirun"
run_remote() {
  local program
  in_bare apt-get -qq --yes --no-install-recommends install openmpi-bin openssh-client >"$step_logs/openmpi.log" 2>&1
  for program in "matmul 512" "fft 14 32"; do
    # shellcheck disable=SC2086  # The program's arguments are words.
    as_user cuspan run --gpus 2 --device soft --hosts localhost:1,localhost:1 --same-node never --stats -- \
      /tmp/programs/$program
  done
  as_user cuspan metrics --device soft | grep -v '^#'
}
visibly run_remote

begin "remove them"
remove_there() {
  in_bare sh -c 'apt-get --yes purge cuspan cuspan-software-gpu && apt-get --yes autoremove --purge openmpi-bin openssh-client'
}
quietly remove_there
list_files >"$build/files-after"
show_left() {
  if in_bare dpkg-query --list 'cuspan*' 2>/dev/null; then return 1; fi
  diff "$build/files-before" "$build/files-after" || return
  echo "nothing is left: $(wc -l <"$build/files-after") files, as before"
}
visibly show_left
