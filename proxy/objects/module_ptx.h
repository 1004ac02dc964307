// PTX of a module, if it is equivalent to the code executed by the driver.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/status.h"
#include "protocol/fatbin/fatbin.h"

namespace cuspan::proxy {

// A copy of the PTX as stored in the module, usually compressed.
class ModulePtx {
 public:
  // Empty: for a module without stored PTX.
  ModulePtx() = default;

  // Finds the PTX for a device of `capability` (10 × major + minor) in `image`, checked by
  // fatbin::CheckImage. It is the one for the newest suitable architecture. It is not used if the
  // driver would run machine code for a newer architecture. The machine code may come from
  // different source code: programs depend on the architecture.
  ModulePtx(std::span<const std::byte> image, std::uint32_t capability);

  // kNotFound gives the reason why no PTX is stored.
  Result<std::string> Text() const;

  // Memory used.
  std::size_t bytes() const { return stored_.size(); }

 private:
  Status Find(std::span<const std::byte> image, std::uint32_t capability);
  void Keep(const fatbin::Entry& entry);

  Status found_ = Status::NotFound("the PTX of the module was not kept");
  fatbin::Entry entry_ = {};
  std::vector<std::uint8_t> stored_;  // Payload of entry_.
};

}  // namespace cuspan::proxy
