// Memory of a ring without a channel.
#pragma once

#include <memory>
#include <utility>

#include "protocol/channel/ring.h"

namespace cuspan {

// The smallest ring for two of the largest frames.
inline constexpr std::uint64_t kRingSlots = 2048;

struct RingMemory {
  explicit RingMemory(std::uint64_t slots = kRingSlots)
      : slot_count(slots),
        fd(*CreateSharedMemory("cuspan-test", slots * kSlotBytes)),
        mapping(*Mapping::MapTwice(fd.get(), 0, slots * kSlotBytes)),
        control(std::make_unique<RingControl>()) {}

  RingProducer Producer() { return {control.get(), {mapping.data(), slot_count}, SharedSync(1)}; }
  RingConsumer Consumer() { return {control.get(), {mapping.data(), slot_count}, SharedSync(1)}; }

  std::uint64_t slot_count;
  UniqueFd fd;
  Mapping mapping;
  std::unique_ptr<RingControl> control;
};

}  // namespace cuspan
