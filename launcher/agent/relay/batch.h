// Format of messages between agents: a batch of frames, each preceded by its route.
//
//   offset  bytes  field
//        0      4  session, 0 for a control frame
//        4      4  context, 0 for a control frame
//        8      …  the frame as it stands in a channel (protocol/wire/frame.h)
//        …   0 … 7  zeros up to a multiple of 8
#pragma once

#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "common/status.h"
#include "protocol/wire/frame.h"

namespace cuspan {

// Identifies one session's use of one device context.
struct RouteKey {
  std::uint32_t session = 0;  // Counted from 1.
  std::uint32_t context = 0;  // The client's number of the context.
  auto operator<=>(const RouteKey&) const = default;
};

// Collects frames for one agent.
class BatchWriter {
 public:
  // `most`: maximum message size in bytes, at least kMinMessageBytes so that any frame fits.
  explicit BatchWriter(std::size_t most) : most_(most) { bytes_.reserve(most); }
  static constexpr std::size_t kMinMessageBytes = sizeof(RouteKey) + kMaxFrameBytes;

  // Appends a frame; false if it does not fit any more.
  bool Append(RouteKey route, const FrameHeader& header, Bytes payload) {
    const std::size_t needed = (sizeof route + sizeof header + payload.size() + 7) / 8 * 8;
    if (needed > most_ - bytes_.size()) return false;
    const std::size_t start = bytes_.size();
    bytes_.resize(start + needed);
    std::memcpy(bytes_.data() + start, &route, sizeof route);
    std::memcpy(bytes_.data() + start + sizeof route, &header, sizeof header);
    if (!payload.empty())
      std::memcpy(bytes_.data() + start + sizeof route + sizeof header, payload.data(),
                  payload.size());
    return true;
  }

  bool empty() const { return bytes_.empty(); }
  std::span<const std::byte> bytes() const { return bytes_; }
  void Clear() { bytes_.clear(); }

 private:
  std::size_t most_;
  std::vector<std::byte> bytes_;
};

// Reads a batch from another agent and checks every length.
class BatchReader {
 public:
  explicit BatchReader(std::span<const std::byte> bytes) : left_(bytes) {}

  struct Item {
    RouteKey route;
    Frame frame;  // Points into the batch.
  };
  // Returns the next frame; empty at the end; kInvalid if the batch is malformed.
  Result<std::optional<Item>> Next() {
    if (left_.empty()) return std::optional<Item>();
    Item item;
    if (left_.size() < sizeof item.route)
      return Status::Invalid("a batch from another agent is truncated");
    std::memcpy(&item.route, left_.data(), sizeof item.route);
    CUSPAN_ASSIGN_OR_RETURN(Frame frame,
                            ParseFrame(left_.subspan(sizeof item.route), kMaxFrameBytes));
    item.frame = frame;
    const std::size_t used =
        (sizeof item.route + sizeof(FrameHeader) + frame.payload.size() + 7) / 8 * 8;
    left_ = left_.subspan(std::min(used, left_.size()));
    return std::optional<Item>(item);
  }

 private:
  std::span<const std::byte> left_;
};

}  // namespace cuspan
