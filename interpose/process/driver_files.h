// Files indicating NVIDIA's driver and GPUs on a node: device files, and texts of the kernel
// module. Programs look for them before they call CUDA. If the node has none, a program of a run
// sees files for the run's devices. Device files cannot be opened; texts can.
//
//   /dev/nvidia0 …, /dev/nvidiactl, /dev/nvidia-uvm
//   /proc/driver/nvidia/version, /sys/module/nvidia/version     if the driver's release is known
//   /proc/driver/nvidia/gpus/PCI-ADDRESS/information
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/wire/frame.h"

namespace cuspan {

struct DriverFile {
  enum class Kind : std::uint8_t { kNone, kDevice, kText, kFolder };
  Kind kind = Kind::kNone;
  unsigned major = 0, minor = 0;   // kDevice only.
  std::string text;                // kText only.
  std::vector<std::string> names;  // kFolder only: its entries.
};

// Returns the file at an absolute path without "//", "." and "..", in a run with these devices.
DriverFile FindDriverFile(std::string_view path, const std::vector<DeviceDescription>& devices);

// Names of the device files.
std::vector<std::string> DeviceFileNames(std::size_t devices);

// Fills *out like stat(). `near`: the status of a file on the same file system, to copy its times
// and numbers.
void FillStat(const DriverFile& file, const struct stat& near, struct stat* out);

// True if FindDriverFile may know the path. A cheap test of the text.
bool MayBeDriverFile(const char* path);

// Converts `path` for FindDriverFile. A relative path is relative to `base`, an absolute path.
std::string AbsolutePath(std::string_view path, std::string_view base);

}  // namespace cuspan
