// Handlers of the control messages between agents, by op: each part of an agent registers its own.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>

#include "common/status.h"
#include "launcher/agent/base/roles.h"
#include "ops.gen.h"
#include "protocol/wire/frame.h"

namespace cuspan {

// Threads: one.
class ControlTable {
 public:
  // Agents that may send a message.
  enum class From { kHead, kWorkers, kAny };

  // Registers the handler of messages T, replacing an earlier one. A message is decoded before the
  // call; views in it are valid during the call.
  template <typename T>
  void Handle(From from, std::function<void(std::uint32_t rank, T& message)> handler)
      CUSPAN_REQUIRES(agent_thread) {
    static_assert(T::kClass == OpClass::kAgents);
    handlers_[T::kIndex] = {
        from, [handler = std::move(handler)](std::uint32_t rank, const Frame& frame) -> Status {
          Result<T> message = ParseMessage<T>(frame);
          if (message.ok()) handler(rank, *message);
          return message.status();
        }};
  }
  // Removes the handler of messages T.
  template <typename T>
  void Forget() CUSPAN_REQUIRES(agent_thread) {
    handlers_[T::kIndex] = {};
  }

  // Calls the handler of the message. An error is one sentence: the message is malformed, or this
  // agent does not accept it from the agent `rank`.
  Status Receive(std::uint32_t rank, const Frame& frame) const CUSPAN_REQUIRES(agent_thread);

 private:
  struct Entry {
    From from = From::kAny;
    std::function<Status(std::uint32_t rank, const Frame& frame)> call;  // Null: not accepted.
  };
  // Handler of messages of this op from the agent `rank`; null if they are not accepted.
  const Entry* Find(Op op, std::uint32_t rank) const CUSPAN_REQUIRES(agent_thread);

  std::array<Entry, kOpCount> handlers_ CUSPAN_GUARDED_BY(agent_thread);
};

}  // namespace cuspan
