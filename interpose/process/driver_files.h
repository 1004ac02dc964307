// The files by which programs see that a node has NVIDIA's driver and GPUs, before they ask CUDA:
// device files, and texts of the kernel module. On a node without them a program of a run is told
// that they exist, for the run's devices. Device files cannot be opened; texts can.
//
//   /dev/nvidia0 …, /dev/nvidiactl, /dev/nvidia-uvm
//   /proc/driver/nvidia/version, /sys/module/nvidia/version     where the driver's release is known
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
  unsigned major = 0, minor = 0;   // Of a device file.
  std::string text;                // Of a text.
  std::vector<std::string> names;  // Of what is in a folder.
};

// The file at an absolute path without "//", "." and "..", for a run with these devices.
DriverFile FindDriverFile(std::string_view path, const std::vector<DeviceDescription>& devices);

// Names of the device files.
std::vector<std::string> DeviceFileNames(std::size_t devices);

// Fills *out as stat does. `near` is that of a file on the same file system, for its times and
// numbers.
void FillStat(const DriverFile& file, const struct stat& near, struct stat* out);

// True for paths that FindDriverFile may know, by a look at the text: cheap.
bool MayBeDriverFile(const char* path);

// `path` as FindDriverFile takes it. A relative one begins in `base`, an absolute path.
std::string AbsolutePath(std::string_view path, std::string_view base);

}  // namespace cuspan
