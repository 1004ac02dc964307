#!/usr/bin/env bash
# A cluster in a box: hosts on this machine, built from network namespaces and connected by a
# switch, with real TCP between them. For trying cuspan on "several nodes", and for its tests. It is
# invisible in the machine's own network: any number of boxes can be up at once, even with equal
# addresses.
#
# Shared by the hosts: the file system (including /tmp), memory, and process ids. Separate for each
# host: network, abstract Unix sockets, and host name.
set -euo pipefail

me=${0##*/}
usage() {
  cat <<HELP
usage: $me COMMAND [OPTIONS] [ARGUMENTS]        (as root)

  up [--hosts N | --hosts NAME,NAME,…] [--devices N,N,…] [--subnet A.B.C.0/24] [--rate RATE] [--keep NAMES]
      creates the hosts and connects them. Without options: 4 hosts, n0 … n3.
        --devices  number of software GPUs of each host, in the order of the hosts; the last number
                   applies to the remaining ones. Programs started by 'run' then use software GPUs.
        --subnet   addresses of the hosts (default: 10.77.0.0/24); not visible outside the box
        --rate     the limit of 'shape' for all hosts
        --keep     variables, NAME,NAME,…, that a process on a host inherits from the one that starts
                   it; ssh would pass none
  run HOST [--] COMMAND [ARGUMENTS]
      runs a command on a host, in this terminal and directory, in an environment in which
      'cuspan run --hosts n1,n2 -- ./app' and plain mpirun work
  shape RATE|off [HOST…]
      limits the bandwidth of these hosts (or all), each way: 1gbit, 200mbit, 500kbit
  link HOST up|down
      connects or disconnects a host; when 'up' returns, the host can be reached
  stall HOST SECONDS
      blocks all traffic of a host for this time while its link stays up, and returns afterwards
  status
      prints the hosts, their addresses, links and rates, and the number of processes on them
  down
      ends all processes on the hosts and removes the hosts. Works after any crash, and repeatedly.

Each command takes --name BOX (up to 12 letters and digits; default: box), for one of several boxes.

Example:
  $me up --devices 0,2,2,2
  $me run n0 -- cuspan run --hosts n1,n2,n3 -- ./app        # 6 devices on 3 other hosts
  $me down

Exit status: that of the command for 'run'; 2 for an error in the command line; 77 if this machine
cannot have a box (not root, no ip command, no namespaces); 1 for other failures.
HELP
}

fail() {
  echo "$me: $*" >&2
  exit 1
}
misused() {
  echo "$me: $*; see $me --help" >&2
  exit 2
}
impossible() {
  echo "$me: $*" >&2
  exit 77
}

folder_of_boxes=/run/cuspan-box
own_path=$(realpath "${BASH_SOURCE[0]}")

# Names of network namespaces: of the hosts, and of the switch between them.
space_of() { echo "cuspan-$box-$1"; }
switch() { echo "cuspan-$box"; }
exists() { [[ -e /run/netns/$1 ]]; }
# All namespaces of this box, even without its folder.
spaces() {
  local path
  for path in "/run/netns/cuspan-$box" "/run/netns/cuspan-$box-"*; do
    if [[ -e $path ]]; then echo "${path##*/}"; fi
  done
}

require_root() {
  if ((EUID != 0)); then impossible "only root can create network namespaces: run it with sudo"; fi
  command -v ip >/dev/null || impossible "there is no ip command: install iproute2"
}

# The processes of a namespace; empty if it does not exist.
processes_in() { ip netns pids "$1" 2>/dev/null || true; }

# shellcheck disable=SC2154  # state_* come from the file.
load() {
  if [[ ! -e $folder/state ]]; then fail "the box '$box' is not up; make it with: $me up${named:+ --name $box}"; fi
  # Written by 'up', in a folder that only root can write to.
  # shellcheck source=/dev/null
  source "$folder/state"
  hosts=("${state_hosts[@]}")
}

check_host() {
  local host
  for host in "${hosts[@]}"; do
    if [[ $host == "$1" ]]; then return; fi
  done
  fail "the box '$box' has no host '$1'; it has ${hosts[*]}"
}

# --- up

# set_limit RATE HOST: limits both ends of the host's link; "off" removes the limit.
set_limit() {
  local rate=$1 host=$2 bits burst space device
  for space in "$(switch) $host" "$(space_of "$host") eth0"; do
    device=${space#* }
    space=${space% *}
    if [[ $rate == off ]]; then
      # Fails if no limit was set.
      ip netns exec "$space" tc qdisc del dev "$device" root 2>/dev/null || true
      continue
    fi
    bits=${rate%[kmg]bit}
    case $rate in
      *kbit) bits=$((bits * 1000)) ;;
      *mbit) bits=$((bits * 1000000)) ;;
      *gbit) bits=$((bits * 1000000000)) ;;
    esac
    # The bucket holds 4 ms, but at least 128 KiB: TCP passes segments of up to 64 KiB to the
    # network card.
    burst=$((bits / 8 / 250))
    if ((burst < 131072)); then burst=131072; fi
    ip netns exec "$space" tc qdisc replace dev "$device" root tbf rate "$rate" burst "$burst" latency 50ms ||
      fail "the rate of host $host cannot be set: this kernel has no token bucket filter (sch_tbf)?"
  done
}

check_rate() {
  if [[ $1 != off && ! $1 =~ ^[1-9][0-9]{0,8}[kmg]bit$ ]]; then
    misused "'$1' is neither a rate such as 1gbit, 200mbit or 500kbit, nor off"
  fi
}

up() {
  local wanted=4 devices='' subnet=10.77.0.0/24 rate=off keep='' host i counts=()
  while (($# > 0)); do
    if (($# < 2)); then misused "$1 is not an option of up, or has no value"; fi
    case $1 in
      --hosts) wanted=$2 ;;
      --devices) devices=$2 ;;
      --subnet) subnet=$2 ;;
      --rate) rate=$2 ;;
      --keep) keep=$2 ;;
      *) misused "up has no option $1" ;;
    esac
    shift 2
  done
  hosts=()
  if [[ $wanted =~ ^[0-9]+$ ]]; then
    if [[ ! $wanted =~ ^[1-9][0-9]?$ ]]; then misused "a box has 1 to 99 hosts, not $wanted"; fi
    for ((i = 0; i < wanted; i++)); do hosts+=("n$i"); done
  else
    IFS=, read -r -a hosts <<<"$wanted"
  fi
  if ((${#hosts[@]} == 0 || ${#hosts[@]} > 99)); then misused "a box has 1 to 99 hosts"; fi
  for host in "${hosts[@]}"; do
    # The switch's interfaces have the same names.
    if [[ ! $host =~ ^[a-z][a-z0-9.-]{0,13}$ || $host == switch || $host == lo || $host == localhost ]]; then
      misused "'$host' is not a name of a host: use up to 14 letters, digits, dots and dashes, beginning with a letter"
    fi
  done
  host=$(printf '%s\n' "${hosts[@]}" | sort | uniq --repeated | head -n 1)
  if [[ -n $host ]]; then misused "host $host is named twice"; fi
  if [[ ! $subnet =~ ^([0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3})\.0/24$ ]]; then
    misused "'$subnet' is not a subnet such as 10.77.0.0/24"
  fi
  local network=${BASH_REMATCH[1]}
  check_rate "$rate"
  if [[ ! $keep =~ ^([A-Za-z_][A-Za-z0-9_]*(,|$))*$ ]]; then misused "--keep $keep: not a list of variable names"; fi
  if [[ -n $devices ]]; then
    IFS=, read -r -a counts <<<"$devices"
    for i in "${counts[@]}"; do
      if [[ ! $i =~ ^([0-9]|[1-5][0-9]|6[0-4])$ ]]; then misused "--devices $devices: '$i' is not a number from 0 to 64"; fi
    done
    if ((${#counts[@]} == 0 || ${#counts[@]} > ${#hosts[@]})); then
      misused "--devices $devices: the box has ${#hosts[@]} hosts"
    fi
    devices=
    for ((i = 0; i < ${#hosts[@]}; i++)); do
      devices+="${devices:+,}${hosts[i]}=${counts[i < ${#counts[@]} ? i : ${#counts[@]} - 1]}"
    done
  fi
  require_root

  local shape="${hosts[*]} $devices $subnet $rate $keep"
  if [[ -e $folder/state ]]; then
    load
    # shellcheck disable=SC2154
    if [[ $state_shape == "$shape" && $(spaces | wc -l) == $((${#hosts[@]} + 1)) ]]; then
      echo "the box '$box' is up already: ${hosts[*]}"
      return
    fi
    if [[ $state_shape != "$shape" ]]; then
      fail "the box '$box' is up with other hosts or options; remove it first: $me down${named:+ --name $box}"
    fi
  fi
  # Removes the rest of an interrupted 'up' or of a restarted machine.
  remove

  # From here on a failure removes everything.
  trap 'remove' EXIT
  trap 'exit 1' INT TERM HUP
  local problem
  if ! problem=$(ip netns add "$(switch)" 2>&1); then
    impossible "this machine does not allow network namespaces (a container?): $problem"
  fi
  local on_switch=(ip -netns "$(switch)") space
  if ! problem=$("${on_switch[@]}" link add switch type bridge 2>&1 && "${on_switch[@]}" link set switch up 2>&1); then
    impossible "this machine's kernel has no bridges: $problem"
  fi
  (umask 022 && mkdir -p "$folder_of_boxes" "$folder")
  {
    echo "127.0.0.1 localhost"
    for ((i = 0; i < ${#hosts[@]}; i++)); do echo "$network.$((i + 1)) ${hosts[i]}"; done
  } >"$folder/hosts"
  for ((i = 0; i < ${#hosts[@]}; i++)); do
    host=${hosts[i]}
    space=$(space_of "$host")
    ip netns add "$space"
    if ! problem=$("${on_switch[@]}" link add "$host" type veth peer name eth0 netns "$space" 2>&1); then
      impossible "this machine's kernel has no virtual network cables (veth): $problem"
    fi
    "${on_switch[@]}" link set "$host" master switch up
    ip -netns "$space" link set lo up
    ip -netns "$space" address add "$network.$((i + 1))/24" dev eth0
    ip -netns "$space" link set eth0 up
    if [[ $rate != off ]]; then set_limit "$rate" "$host"; fi
  done
  # Called by mpirun instead of ssh to start processes on other hosts.
  printf '#!/bin/sh\nexec %q --name %q remote-shell "$@"\n' "$own_path" "$box" >"$folder/remote-shell"
  chmod 755 "$folder/remote-shell"
  {
    declare -p hosts | sed 's/^declare -a hosts/state_hosts/'
    printf 'state_%s=%q\n' shape "$shape" devices "$devices" subnet "$subnet" network "$network" keep "$keep"
  } >"$folder/state.new"
  mv "$folder/state.new" "$folder/state"
  trap - EXIT INT TERM HUP
  echo "the box '$box' is up: ${hosts[*]}"
}

# --- down

# Sets `pids` to the processes of all hosts.
find_processes() {
  local space
  pids=()
  for space in $(spaces); do
    # shellcheck disable=SC2207  # Numbers.
    pids+=($(processes_in "$space"))
  done
}

# Ends all processes in the namespaces, then removes the namespaces.
remove() {
  local space pids round try
  for round in TERM KILL; do
    find_processes
    if ((${#pids[@]} == 0)); then break; fi
    kill -s "$round" "${pids[@]}" 2>/dev/null || true
    # Up to 3 s per round.
    for ((try = 0; try < 60 && ${#pids[@]} > 0; try++)); do
      sleep 0.05
      find_processes
    done
  done
  for space in $(spaces); do ip netns del "$space" || true; done
  rm -rf -- "$folder"
  rmdir --ignore-fail-on-non-empty "$folder_of_boxes" 2>/dev/null || true
}

# --- run

# enter HOST COMMAND…: executes the command on the host, in a mount namespace with the box's
# /etc/hosts.
enter() {
  local host=$1
  shift
  # shellcheck disable=SC2016  # The inner shell's.
  exec ip netns exec "$(space_of "$host")" unshare --uts sh -c \
    'hostname "$1" && mount --bind "$2" /etc/hosts && shift 2 && exec "$@"' sh "$host" "$folder/hosts" "$@"
}

run() {
  if (($# > 0)) && [[ $1 == -* ]]; then misused "run has no option $1"; fi
  if (($# == 0)); then misused "run needs a host and a command"; fi
  local host=$1
  shift
  if (($# > 0)) && [[ $1 == -- ]]; then shift; fi
  if (($# == 0)); then misused "no command to run on $host"; fi
  require_root
  load
  check_host "$host"
  # Remote shell for this host's mpirun: Open MPI's, and MPICH's.
  export HYDRA_LAUNCHER=rsh HYDRA_LAUNCHER_EXEC=$folder/remote-shell
  # shellcheck disable=SC2154
  export OMPI_MCA_plm=rsh OMPI_MCA_plm_rsh_agent=$folder/remote-shell \
    OMPI_MCA_oob_tcp_if_include=$state_subnet OMPI_MCA_btl_tcp_if_include=$state_subnet
  # Required by mpirun for root, the only user here.
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  # shellcheck disable=SC2154
  if [[ -n $state_devices ]]; then
    export CUSPAN_DEVICE=${CUSPAN_DEVICE:-soft} CUSPAN_SOFT_GPUS=${CUSPAN_SOFT_GPUS:-$state_devices}
  fi
  enter "$host" "$@"
}

# remote_shell [OPTIONS of ssh] [USER@]HOST COMMAND…: called by mpirun instead of ssh.
remote_shell() {
  while (($# > 0)); do
    case $1 in
      -[oliFpJbcDEeILmOQRSWw]) shift ;; # Has a value in the next word.
      -*) ;;
      *) break ;;
    esac
    shift
  done
  if (($# < 2)); then misused "remote-shell needs a host and a command"; fi
  local host=${1##*@} keep name variables=()
  shift
  require_root
  load
  check_host "$host"
  # Like ssh, it passes only the variables of a login, not the rest of this environment.
  # shellcheck disable=SC2154
  IFS=, read -r -a keep <<<"PATH,HOME,USER,LOGNAME,SHELL,LANG,$state_keep"
  for name in "${keep[@]}"; do
    if [[ -n $name && -n ${!name+set} ]]; then variables+=("$name=${!name}"); fi
  done
  local status=0 parent=$PPID
  (enter "$host" env -i "${variables[@]}" sh -c "$*") || status=$?
  # Like ssh, notices the end of the command only while the host's link is up.
  while ! plugged_in "$host" && kill -s 0 "$parent" 2>/dev/null; do sleep 0.2; done
  return "$status"
}

# --- Links

# State of a host's link: up, down, stalled, or gone with its host.
cable() {
  local line
  line=$(ip -netns "$(switch)" -oneline link show dev "$1" 2>/dev/null || true)
  if [[ -z $line ]]; then
    echo gone
  elif [[ $line != *"master switch"* ]]; then
    echo stalled
  elif [[ $line == *"state UP"* ]]; then
    echo up
  else
    echo down
  fi
}
plugged_in() { [[ $(cable "$1") == up ]]; }

shape() {
  if (($# == 0)); then misused "shape needs a rate, or off"; fi
  local rate=$1 host
  shift
  check_rate "$rate"
  require_root
  load
  for host in "$@"; do check_host "$host"; done
  if (($# == 0)); then set -- "${hosts[@]}"; fi
  for host in "$@"; do set_limit "$rate" "$host"; done
}

# After a failed address resolution the kernel returns "No route to host" for another second.
forget_addresses() {
  local host
  for host in "${hosts[@]}"; do ip -netns "$(space_of "$host")" neigh flush dev eth0; done
}

link() {
  if (($# != 2)) || [[ $2 != up && $2 != down ]]; then misused "link needs a host, and up or down"; fi
  require_root
  load
  check_host "$1"
  ip -netns "$(switch)" link set "$1" "$2"
  if [[ $2 == up ]]; then forget_addresses; fi
}

stall() {
  if (($# != 2)) || [[ ! $2 =~ ^[0-9]+(\.[0-9]+)?$ ]]; then misused "stall needs a host and a number of seconds"; fi
  require_root
  load
  check_host "$1"
  # shellcheck disable=SC2064  # The host of now is meant.
  trap "ip -netns '$(switch)' link set '$1' master switch && forget_addresses" EXIT
  trap 'exit 1' INT TERM HUP
  ip -netns "$(switch)" link set "$1" nomaster
  sleep "$2"
}

status() {
  if (($# != 0)); then misused "status takes no argument"; fi
  require_root
  load
  local host i rate count
  {
    echo "host address link rate processes software-GPUs"
    for ((i = 0; i < ${#hosts[@]}; i++)); do
      host=${hosts[i]}
      rate=$(ip netns exec "$(space_of "$host")" tc qdisc show dev eth0 2>/dev/null | sed -n 's/.*tbf.* rate \([^ ]*\) .*/\1/p')
      count=-
      # shellcheck disable=SC2154
      if [[ ",$state_devices," =~ ,$host=([0-9]+), ]]; then count=${BASH_REMATCH[1]}; fi
      # shellcheck disable=SC2154
      echo "$host $state_network.$((i + 1)) $(cable "$host") ${rate:-unlimited}" \
        "$(processes_in "$(space_of "$host")" | wc -l) $count"
    done
  } | column -t
}

# --- The command line

box=box
named=
arguments=()
command=
while (($# > 0)); do
  case $1 in
    --help | -h)
      usage
      exit 0
      ;;
    --name)
      if (($# < 2)); then misused "--name needs a name"; fi
      box=$2
      named=yes
      shift
      ;;
    -*) if [[ -z $command ]]; then misused "there is no option $1"; else arguments+=("$1"); fi ;;
    *)
      if [[ -z $command ]]; then command=$1; else arguments+=("$1"); fi
      ;;
  esac
  shift
  # The remaining arguments belong to the command.
  if [[ $command == remote-shell || ($command == run && ${#arguments[@]} -gt 0) ]]; then
    arguments+=("$@")
    break
  fi
done
if [[ ! $box =~ ^[a-z0-9]{1,12}$ ]]; then misused "'$box' is not a name of a box: use up to 12 small letters and digits"; fi
folder=$folder_of_boxes/$box
case $command in
  up | run | shape | link | stall | status) "$command" "${arguments[@]}" ;;
  remote-shell) remote_shell "${arguments[@]}" ;;
  down)
    if ((${#arguments[@]} > 0)); then misused "down takes no argument"; fi
    require_root
    remove
    ;;
  "") usage >&2 && exit 2 ;;
  *) misused "there is no command $command" ;;
esac
