// Whose the sends and receives are that a carrier has under way, by the id it was given.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "launcher/agent/relay/carrier.h"

namespace cuspan {

class ChunkInbox;
class ChunkSends;

struct BulkOwner {
  ChunkInbox* inbox = nullptr;  // Of a receive.
  ChunkSends* sends = nullptr;  // Of a send.
};

class BulkTable {
 public:
  std::uint64_t Add(BulkOwner owner) {
    owners_.emplace(++last_, owner);
    return last_;
  }
  // Forgets it; nobody's when it is not known.
  BulkOwner Take(std::uint64_t id) {
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

// A channel whose slots a carrier may use as long as this lives.
class Attachment {
 public:
  Attachment(Carrier& carrier, std::shared_ptr<Channel> channel)
      : carrier_(carrier), channel_(std::move(channel)), attached_(carrier.Attach(*channel_)) {}
  ~Attachment() { carrier_.Detach(*channel_); }
  Attachment(const Attachment&) = delete;
  Attachment& operator=(const Attachment&) = delete;

  // Whether it may.
  const Status& status() const { return attached_; }
  Channel& channel() const { return *channel_; }

 private:
  Carrier& carrier_;
  const std::shared_ptr<Channel> channel_;
  const Status attached_;
};

}  // namespace cuspan
