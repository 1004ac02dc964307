"""Checks our libraries for every name of their lists. If the toolkit is the one used for the lists, also checks the
lists for every name exported by NVIDIA's libraries."""

import glob
import subprocess
import sys


def exported(nm, library):
    lines = subprocess.run([nm, "-D", "--defined-only", library], check=True, capture_output=True,
                           text=True).stdout.splitlines()
    return {words[2].split("@")[0] for words in map(str.split, lines) if words[1] in "TW"}


def listed(path):
    with open(path, encoding="utf-8") as lines:
        return {line.split()[0] for line in lines if line.split("#")[0].split()}


def is_listed_release(toolkit):
    version = subprocess.run([f"{toolkit}/bin/nvcc", "--version"], check=True, capture_output=True,
                             text=True).stdout
    return "release 13.0" in version


def main():
    nm, runtime_list, runtime, driver_list, driver, nvml_list, nccl_list, toolkit = sys.argv[1:]
    lost = []
    for names, ours, theirs in ((runtime_list, runtime, "lib*/libcudart.so.[0-9]*"),
                                (driver_list, driver, "lib*/stubs/libcuda.so"),
                                (nvml_list, driver, "lib*/stubs/libnvidia-ml.so"),
                                (nccl_list, driver, "")):
        wanted = listed(names)
        lost += [f"{ours} does not export {name}" for name in sorted(wanted - exported(nm, ours))]
        if not theirs or not is_listed_release(toolkit):
            continue
        for path in glob.glob(f"{toolkit}/{theirs}") + glob.glob(f"{toolkit}/targets/*/{theirs}"):
            lost += [f"{names} lacks {name} of {path}"
                     for name in sorted(exported(nm, path) - wanted)]
    if lost:
        sys.exit("\n".join(lost))


main()
