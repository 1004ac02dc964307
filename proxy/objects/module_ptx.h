// The PTX of a module, where it tells what the driver runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/status.h"
#include "protocol/fatbin/fatbin.h"

namespace cuspan::proxy {

// A copy of it, as it is stored in the module: mostly compressed.
class ModulePtx {
 public:
  // None: of a module of which none is kept.
  ModulePtx() = default;

  // Of `image`, which fatbin::CheckImage has accepted, for a device of `capability` (10 × major +
  // minor): the PTX of the newest architecture that it can be compiled for, unless there is machine
  // code for a newer one that the driver would run in its place. The two may be of different
  // sources: what a program does depends on the architecture.
  ModulePtx(std::span<const std::byte> image, std::uint32_t capability);

  // kNotFound says why there is none.
  Result<std::string> Text() const;

  // The memory that it takes.
  std::size_t bytes() const { return stored_.size(); }

 private:
  Status Find(std::span<const std::byte> image, std::uint32_t capability);
  void Keep(const fatbin::Entry& entry);

  Status found_ = Status::NotFound("the PTX of the module was not kept");
  fatbin::Entry entry_ = {};
  std::vector<std::uint8_t> stored_;  // What is the entry's.
};

}  // namespace cuspan::proxy
