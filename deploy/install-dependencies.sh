#!/usr/bin/env bash
# Installs the Debian or Ubuntu packages for building, running and testing cuspan. Does nothing if
# all are installed. Runs as root, or uses sudo.
#
#   deploy/install-dependencies.sh                 all required packages
#   deploy/install-dependencies.sh --slurm         also Slurm and MUNGE for their tests; their services
#                                                  are not started without a configuration
#   deploy/install-dependencies.sh --monitoring    also Prometheus for its test
#   deploy/install-dependencies.sh --packaging     also the tools of deploy/package.sh
set -euo pipefail

packages=(
  # Building.
  g++ cmake ninja-build pkg-config python3
  # Libraries.
  libopenmpi-dev libucx-dev libprotobuf-dev protobuf-compiler libssl-dev libcli11-dev libfmt-dev libspdlog-dev
  libxxhash-dev liburing-dev nlohmann-json3-dev libzstd-dev liblz4-dev prometheus-cpp-dev llvm-16-dev
  # Running: mpirun, its transports, and its way of starting processes on other nodes.
  openmpi-bin libucx0 openssh-client
  # Style checks; the compiler of the preset fuzz.
  clang-format-16 clang-tidy-16 shellcheck universal-ctags clang-16 libclang-rt-16-dev
  # Tests: GoogleTest; terminals (script is in bsdutils); network namespaces; tunnels; ps; plots;
  # shells; checkers for manual pages; a debugger.
  libgtest-dev libgmock-dev tmux bsdutils iproute2 wireguard-go wireguard-tools procps gnuplot-nox fish zsh
  groff-base mandoc gdb
)
for argument; do
  case $argument in
    --slurm)
      packages+=(slurmctld slurmd slurm-client munge libslurm-dev)
      ;;
    --monitoring)
      packages+=(prometheus)
      ;;
    --packaging)
      packages+=(dpkg-dev lintian debootstrap)
      ;;
    *)
      echo "usage: $0 [--slurm] [--monitoring] [--packaging]" >&2
      exit 2
      ;;
  esac
done
# Needed for wheels: the tests' clients, and the CUDA Toolkit if none is installed.
if ! python3 -m pip --version >/dev/null 2>&1; then packages+=(python3-pip); fi

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
  echo "install-dependencies: apt-get is missing (this script is for Debian and Ubuntu);" \
    "install these packages with your system's package manager: ${packages[*]}" >&2
  exit 1
fi

missing=()
for package in "${packages[@]}"; do
  # shellcheck disable=SC2016  # ${db:Status-Status} is dpkg-query's, not the shell's.
  state=$(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null || true)
  if [[ $state != installed ]]; then missing+=("$package"); fi
done
if ((${#missing[@]} == 0)); then
  echo "all ${#packages[@]} packages are installed"
  exit 0
fi

as_root=()
if ((EUID != 0)); then
  if ! command -v sudo >/dev/null; then
    echo "install-dependencies: run it as root, or install sudo; missing packages: ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi
echo "installing ${#missing[@]} packages: ${missing[*]}"
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq update
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get -qq --yes --no-install-recommends install "${missing[@]}"
