// Owners of a carrier's sends and receives in flight, by the id given to it.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "launcher/agent/relay/carrier.h"

namespace cuspan {

class ChunkInbox;
class ChunkSends;

struct BulkOwner {
  ChunkInbox* inbox = nullptr;  // Set for a receive.
  ChunkSends* sends = nullptr;  // Set for a send.
};

class BulkTable {
 public:
  std::uint64_t Add(BulkOwner owner) {
    owners_.emplace(++last_, owner);
    return last_;
  }
  // Removes the entry and returns its owner; no owner if the id is unknown.
  BulkOwner Extract(std::uint64_t id) {
    const auto found = owners_.find(id);
    if (found == owners_.end()) return {};
    const BulkOwner owner = found->second;
    owners_.erase(found);
    return owner;
  }

 private:
  std::uint64_t last_ = 0;
  std::unordered_map<std::uint64_t, BulkOwner> owners_;
};

// Attaches a channel to a carrier, giving access to its slots, until destroyed.
class Attachment {
 public:
  Attachment(Carrier& carrier, std::shared_ptr<Channel> channel)
      : carrier_(carrier), channel_(std::move(channel)), attached_(carrier.Attach(*channel_)) {}
  ~Attachment() { carrier_.Detach(*channel_); }
  Attachment(const Attachment&) = delete;
  Attachment& operator=(const Attachment&) = delete;

  // Result of Carrier::Attach.
  const Status& status() const { return attached_; }
  Channel& channel() const { return *channel_; }

 private:
  Carrier& carrier_;
  const std::shared_ptr<Channel> channel_;
  const Status attached_;
};

}  // namespace cuspan
