// Meeting agents, as threads of one process.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "launcher/agent/meeting/meeting.h"

namespace cuspan {

inline const Key128 kTestSecret = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};

inline net::Deadline InTime() {
  return std::chrono::steady_clock::now() + std::chrono::seconds(30);
}

inline std::span<const std::byte> AsBytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// An agent on a host named like its only address.
inline Meeting::Attendee AgentAt(std::string_view address) {
  const std::span<const std::byte> bytes = AsBytes(address);
  const Meeting::Blob blob(bytes.begin(), bytes.end());
  return {std::string(address), "none", "here", {{blob, {}}}};
}

// A waiting head agent, and its addresses.
class Host {
 public:
  Host() : listener_(*net::Listener::OpenOnAll(8)), never_(*net::Interrupt::Make("interrupted")) {
    places_ = *net::OwnAddresses(listener_->address().port);
  }
  const std::vector<net::Address>& places() const { return places_; }
  // Address of the loopback interface.
  const net::Address& near() const { return places_.back(); }
  const net::Interrupt& never() const { return *never_; }
  void Interrupt() { never_->Raise(); }
  const net::Listener& listener() const { return *listener_; }
  // Stops listening.
  void Close() { listener_.reset(); }

  Result<Meeting> Hold(std::uint32_t agents, const Meeting::Attendee& own,
                       std::span<const int> watched = {}, net::Deadline deadline = InTime()) {
    std::vector<std::string> hosts;
    for (std::uint32_t rank = 1; rank < agents; ++rank)
      hosts.push_back("host" + std::to_string(rank));
    return Meeting::Hold(*listener_, kTestSecret, hosts, own, watched, *never_, deadline);
  }

 private:
  std::optional<net::Listener> listener_;
  std::shared_ptr<net::Interrupt> never_;
  std::vector<net::Address> places_;
};

// Returns the meetings of these agents, by rank.
inline std::vector<Meeting> Meet(const std::vector<Meeting::Attendee>& agents) {
  Host host;
  std::vector<std::unique_ptr<Result<Meeting>>> met(agents.size());
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 1; rank < agents.size(); ++rank)
    threads.emplace_back([&, rank] {
      met[rank] = std::make_unique<Result<Meeting>>(
          Meeting::Attend(host.places(), kTestSecret, rank, agents[rank], InTime()));
    });
  met[0] = std::make_unique<Result<Meeting>>(
      host.Hold(static_cast<std::uint32_t>(agents.size()), agents[0]));
  for (std::thread& thread : threads) thread.join();
  std::vector<Meeting> meetings;
  for (const auto& one : met) {
    EXPECT_TRUE(one->ok()) << one->status().message();
    if (one->ok()) meetings.push_back(std::move(**one));
  }
  return meetings;
}

}  // namespace cuspan
