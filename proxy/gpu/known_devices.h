// Descriptions of this host's GPUs, kept in the user's cache between runs: initialising the driver
// to describe them takes 0.1 to 0.2 s at the start of each run, asking NVML 20 ms.
//
// They hold as long as the state does: a text with everything that a description depends on. The
// free memory is no part of them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/unique_fd.h"
#include "ops.gen.h"
#include "proxy/gpu/driver.h"
#include "proxy/gpu/nvml.h"

namespace cuspan::proxy {

// The state of the GPUs visible to this process: boot, driver, environment, and NVML's list of the
// GPUs. Empty if unknown, or if a GPU is divided into MIG instances: NVML does not list those that
// the driver would choose. Empty also with a server of MPS: its devices are the driver's. `driver`
// may be uninitialised.
std::string StateOfDevices(const Nvml& nvml, const LoadedDriver& driver);

// Threads: one. Any number of processes may use the folder.
class KnownDevices {
 public:
  // The cache of the setting CUSPAN_DEVICE_CACHE. Empty if it is off, or, with a line in the log,
  // if it cannot be used.
  static std::optional<KnownDevices> Open();
  static Result<KnownDevices> Open(const std::string& folder);

  // Devices kept for the state within a day; empty if there are none, or the file is damaged.
  std::vector<DeviceDescription> Find(std::string_view state) const;
  // Keeps them, and removes descriptions not written for a week.
  Status Keep(std::string_view state, std::vector<DeviceDescription> devices) const;
  // Removes those of this boot of this host: the driver has failed, and its next answer may differ.
  void Forget() const;

 private:
  explicit KnownDevices(UniqueFd folder) : folder_(std::move(folder)) {}
  // Removes files with that start of the name, last written before a time in seconds since 1970.
  void Remove(std::string_view prefix, std::int64_t before) const;

  UniqueFd folder_;
};

}  // namespace cuspan::proxy
