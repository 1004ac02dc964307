// Accepts connections and reads the first message of each, of a fixed size. Strangers that stay
// silent, or come in large numbers, block no other connection.
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
  // Both must outlive this object.
  Entrance(const Listener& listener, const Interrupt& interrupt, std::size_t message_bytes)
      : listener_(listener), interrupt_(interrupt), message_bytes_(message_bytes) {}

  struct Guest {
    UniqueFd fd;
    std::vector<std::byte> said;
    std::vector<std::byte> asked;  // Data sent to the guest first.

    template <typename Message>
    Message As() const {
      static_assert(std::is_trivially_copyable_v<Message>);
      Message message;
      std::memcpy(&message, said.data(), sizeof(message));
      return message;
    }
  };
  // Creates the first data sent to a guest; must be short.
  using Question = std::function<std::vector<std::byte>()>;
  void AskFirst(Question question) { question_ = std::move(question); }

  // The next guest with a complete message; one without a connection if one of `watched` is
  // readable or closed. kUnavailable if interrupted or late, kExhausted if there are no free
  // descriptors.
  Result<Guest> Next(std::span<const int> watched, Deadline deadline);

 private:
  void Admit(UniqueFd fd);
  // Reads from the guest; true if its message is still incomplete.
  bool Receive(Guest& guest) const;

  const Listener& listener_;
  const Interrupt& interrupt_;
  const std::size_t message_bytes_;
  Question question_;
  std::list<Guest> waiting_;  // Guests with incomplete messages, in the order of arrival.
};

}  // namespace cuspan::net
