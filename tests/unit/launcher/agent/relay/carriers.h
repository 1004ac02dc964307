// Carriers for tests.
#pragma once

#include <map>
#include <vector>

#include "launcher/agent/relay/carrier.h"

namespace cuspan {

// Several lanes over one transport. Each has its own range of tags.
class LanesByTag final : public Carrier {
 public:
  LanesByTag(Transport& transport, std::uint32_t lanes) : transport_(transport), lanes_(lanes) {}
  std::uint32_t lanes() const override { return lanes_; }
  Status Attach(Channel& channel) override {
    ++attached[&channel];
    return Status::Ok();
  }
  void Detach(Channel& channel) override {
    if (--attached[&channel] == 0) attached.erase(&channel);
  }
  void Send(std::uint32_t agent, std::uint32_t lane, std::uint32_t tag, SlotBytes bytes,
            std::uint64_t id) override {
    transport_.StartBulkSend(agent, TagOn(lane, tag), {bytes.data(), bytes.bytes}, id);
  }
  void Receive(std::uint32_t agent, std::uint32_t lane, std::uint32_t tag, SlotBytes bytes,
               std::uint64_t id) override {
    transport_.StartBulkReceive(agent, TagOn(lane, tag), {bytes.data(), bytes.bytes}, id);
  }
  void Expect(std::uint32_t, std::uint64_t id) override { transport_.ExpectBulk(id); }
  void Cancel(std::uint32_t, std::uint64_t id) override { transport_.CancelBulkReceive(id); }
  void Finished(std::vector<std::uint64_t>& ids) override { transport_.FinishedBulk(ids); }
  bool HasWork() override { return false; }
  void End() override {}

  std::map<Channel*, int> attached;

 private:
  static std::uint32_t TagOn(std::uint32_t lane, std::uint32_t tag) { return lane << 16 | tag; }
  Transport& transport_;
  const std::uint32_t lanes_;
};

// Records calls, moves no bytes.
class RecordingCarrier final : public Carrier {
 public:
  struct Order {
    std::uint32_t agent;
    std::uint32_t lane;
    std::uint32_t tag;
    std::uint32_t slot;
    std::uint32_t bytes;
    std::uint64_t id;
  };
  explicit RecordingCarrier(std::uint32_t lanes) : lanes_(lanes) {}
  std::uint32_t lanes() const override { return lanes_; }
  Status Attach(Channel&) override { return Status::Ok(); }
  void Detach(Channel&) override {}
  void Send(std::uint32_t agent, std::uint32_t lane, std::uint32_t tag, SlotBytes bytes,
            std::uint64_t id) override {
    sends.push_back({agent, lane, tag, bytes.slot, bytes.bytes, id});
  }
  void Receive(std::uint32_t agent, std::uint32_t lane, std::uint32_t tag, SlotBytes bytes,
               std::uint64_t id) override {
    receives.push_back({agent, lane, tag, bytes.slot, bytes.bytes, id});
  }
  void Expect(std::uint32_t, std::uint64_t id) override { expected.push_back(id); }
  void Cancel(std::uint32_t, std::uint64_t id) override { cancelled.push_back(id); }
  void Finished(std::vector<std::uint64_t>&) override {}
  bool HasWork() override { return false; }
  void End() override {}

  std::vector<Order> sends;
  std::vector<Order> receives;
  std::vector<std::uint64_t> expected;
  std::vector<std::uint64_t> cancelled;

 private:
  const std::uint32_t lanes_;
};

}  // namespace cuspan
