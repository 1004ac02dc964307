// Several ranks in one process, each with a transport. A test can hold back messages and bulk. Each
// rank may have its own thread.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "launcher/agent/relay/batch.h"
#include "launcher/agent/relay/transport.h"

namespace cuspan {

// Minimum sizes.
inline constexpr Transport::Limits kTestLimits{.message_bytes = BatchWriter::kMinMessageBytes,
                                               .tags = 32'000,
                                               .least_chunk = 128 * 1024,
                                               .begins_in_halves = true};

class Network {
 public:
  bool hold_messages = false;
  bool hold_bulk = false;

  std::unique_ptr<Transport> Join(std::uint32_t rank, std::uint32_t size);
  // Makes all other ranks detect the loss of a rank.
  void Lose(std::uint32_t rank) {
    const std::lock_guard lock(mutex_);
    lost_.push_back(rank);
  }
  void Inject(std::uint32_t from, std::uint32_t to, std::vector<std::byte> message) {
    const std::lock_guard lock(mutex_);
    queues_[{from, to}].push_back(std::move(message));
  }
  // Returns the number of posted, incomplete receives of a rank.
  std::size_t Posted(std::uint32_t rank) {
    const std::lock_guard lock(mutex_);
    std::size_t posted = 0;
    for (const auto& [address, receives] : receives_)
      if (std::get<1>(address) == rank) posted += receives.size();
    return posted;
  }

 private:
  friend class Endpoint;
  struct Bulk {
    std::uint64_t id;
    const std::byte* data;
    std::byte* target;
    std::size_t bytes;
  };
  using Link = std::pair<std::uint32_t, std::uint32_t>;                     // From, to.
  using Address = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>;  // From, to, tag.
  std::mutex mutex_;
  std::vector<std::uint32_t> lost_;
  std::map<Link, std::deque<std::vector<std::byte>>> queues_;
  std::map<Link, std::deque<std::vector<std::byte>>> wholes_;
  std::map<Address, std::deque<Bulk>> sends_;
  std::map<Address, std::deque<Bulk>> receives_;
  std::map<std::uint32_t, std::vector<std::uint64_t>> finished_;
  std::map<std::uint32_t, std::set<std::uint64_t>> received_;  // Receives among finished_.
};

class Endpoint : public Transport {
 public:
  Endpoint(Network& network, std::uint32_t rank, std::uint32_t size)
      : network_(network), rank_(rank), size_(size) {}
  std::string_view name() const override { return "test"; }
  std::uint32_t rank() const override { return rank_; }
  bool proved() const override { return false; }
  std::uint32_t size() const override { return size_; }
  const Limits& limits() const override { return kTestLimits; }

  Status SendWhole(std::uint32_t rank, std::span<const std::byte> message) override {
    const std::lock_guard lock(network_.mutex_);
    network_.wholes_[{rank_, rank}].emplace_back(message.begin(), message.end());
    return Status::Ok();
  }
  Result<std::vector<std::byte>> ReceiveWhole(std::uint32_t rank) override {
    for (;;) {
      {
        const std::lock_guard lock(network_.mutex_);
        auto& queue = network_.wholes_[{rank, rank_}];
        if (!queue.empty()) {
          std::vector<std::byte> message = std::move(queue.front());
          queue.pop_front();
          return message;
        }
      }
      std::this_thread::yield();
    }
  }

  bool TrySend(std::uint32_t rank, std::span<const std::byte> message) override {
    const std::lock_guard lock(network_.mutex_);
    if (network_.hold_messages) return false;
    EXPECT_LE(message.size(), kTestLimits.message_bytes);
    network_.queues_[{rank_, rank}].emplace_back(message.begin(), message.end());
    return true;
  }
  std::optional<Message> TryReceive() override {
    const std::lock_guard lock(network_.mutex_);
    for (std::uint32_t from = 0; from < size_; ++from) {
      auto& queue = network_.queues_[{from, rank_}];
      if (queue.empty()) continue;
      current_ = std::move(queue.front());
      queue.pop_front();
      return Message{from, current_};
    }
    return std::nullopt;
  }

  void StartBulkSend(std::uint32_t rank, std::uint32_t tag, std::span<const std::byte> bytes,
                     std::uint64_t id) override {
    const std::lock_guard lock(network_.mutex_);
    network_.sends_[{rank_, rank, tag}].push_back({id, bytes.data(), nullptr, bytes.size()});
  }
  void StartBulkReceive(std::uint32_t rank, std::uint32_t tag, std::span<std::byte> bytes,
                        std::uint64_t id) override {
    const std::lock_guard lock(network_.mutex_);
    network_.receives_[{rank, rank_, tag}].push_back({id, nullptr, bytes.data(), bytes.size()});
  }
  bool ExpectBulk(std::uint64_t id) override { return expected_.insert(id).second; }
  bool CancelBulkReceive(std::uint64_t id) override {
    const std::lock_guard lock(network_.mutex_);
    for (auto& [address, receives] : network_.receives_)
      std::erase_if(receives, [&](const Network::Bulk& bulk) {
        return std::get<1>(address) == rank_ && bulk.id == id;
      });
    return expected_.erase(id) != 0;
  }
  void FinishedBulk(std::vector<std::uint64_t>& ids) override {
    const std::lock_guard lock(network_.mutex_);
    if (!network_.hold_bulk) Match();
    // A receive is reported once complete and expected.
    std::erase_if(network_.finished_[rank_], [&](std::uint64_t id) {
      if (network_.received_[rank_].contains(id) && expected_.erase(id) == 0) return false;
      network_.received_[rank_].erase(id);
      ids.push_back(id);
      return true;
    });
  }
  int wake_fd() const override { return -1; }
  Rest Arm() override { return Rest::kNaps; }
  std::optional<LostPeer> ConsumeLost() override {
    const std::lock_guard lock(network_.mutex_);
    while (lost_reported_ < network_.lost_.size()) {
      const std::uint32_t rank = network_.lost_[lost_reported_++];
      if (rank != rank_) return LostPeer{rank, "the test lost it"};
    }
    return std::nullopt;
  }
  void GiveUp(std::uint32_t) override {}
  void Shutdown() override {}

 private:
  void Match() {
    for (auto& [address, receives] : network_.receives_) {
      auto& sends = network_.sends_[address];
      while (!receives.empty() && !sends.empty()) {
        ASSERT_GE(receives.front().bytes, sends.front().bytes);
        std::memcpy(receives.front().target, sends.front().data, sends.front().bytes);
        network_.finished_[std::get<0>(address)].push_back(sends.front().id);
        network_.finished_[std::get<1>(address)].push_back(receives.front().id);
        network_.received_[std::get<1>(address)].insert(receives.front().id);
        receives.pop_front();
        sends.pop_front();
      }
    }
  }

  Network& network_;
  const std::uint32_t rank_;
  const std::uint32_t size_;
  std::vector<std::byte> current_;
  std::size_t lost_reported_ = 0;
  std::set<std::uint64_t> expected_;
};

inline std::unique_ptr<Transport> Network::Join(std::uint32_t rank, std::uint32_t size) {
  return std::make_unique<Endpoint>(*this, rank, size);
}

}  // namespace cuspan
