// Hears what those say first who connect to a listener: one message of fixed size each. Strangers
// who stay silent, or come in numbers, hold nobody up.
//
// Threads: one.
#pragma once

#include <cstddef>
#include <cstring>
#include <functional>
#include <list>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/status.h"
#include "common/unique_fd.h"
#include "protocol/network/sockets.h"

namespace cuspan::net {

class Entrance {
 public:
  // Both outlive this.
  Entrance(const Listener& listener, const Interrupt& interrupt, std::size_t message_bytes)
      : listener_(listener), interrupt_(interrupt), message_bytes_(message_bytes) {}

  struct Guest {
    UniqueFd fd;
    std::vector<std::byte> said;
    std::vector<std::byte> asked;  // What was said to it first.

    template <typename Message>
    Message As() const {
      static_assert(std::is_trivially_copyable_v<Message>);
      Message message;
      std::memcpy(&message, said.data(), sizeof(message));
      return message;
    }
  };
  // Makes what is said to a guest before it says anything: few bytes.
  using Question = std::function<std::vector<std::byte>()>;
  void AskFirst(Question question) { question_ = std::move(question); }

  // The next who has said all; one without a connection when one of `watched` can be read or is
  // closed. kUnavailable when interrupted or late, kExhausted where there are no descriptors.
  Result<Guest> Next(std::span<const int> watched, Deadline deadline);

 private:
  void Admit(UniqueFd fd);
  // Whether the guest has more to say.
  bool Hear(Guest& guest) const;

  const Listener& listener_;
  const Interrupt& interrupt_;
  const std::size_t message_bytes_;
  Question question_;
  std::list<Guest> waiting_;  // Have not said all, in the order in which they came.
};

}  // namespace cuspan::net
