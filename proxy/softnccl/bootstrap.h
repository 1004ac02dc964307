// Connects the ranks of a communicator. They find each other by an id containing the address of its
// creator's socket, or by invitations exchanged in another communicator.
//
// A connecting process must present the key of the id; other connections are dropped.
//
// Threads: any.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "common/status.h"
#include "protocol/nccl/nccl.h"
#include "protocol/network/sockets.h"
#include "proxy/softnccl/mesh.h"

namespace cuspan::softnccl {

// Ranks of a communicator. NCCL has been run with tens of thousands.
inline constexpr int kMaxRanks = 1 << 16;

// Creates an id, and a thread introducing the ranks with this id to each other. The thread ends
// when all have come, or with the process.
Result<nccl::UniqueId> MakeUniqueId();

// Blocks until all `size` ranks have come. A rank leaving earlier may come again. kInvalid if
// another rank has a different size, or the same rank.
Result<Mesh> JoinById(const nccl::UniqueId& id, int rank, int size,
                      std::shared_ptr<net::Interrupt> interrupt);

// Both ways of joining give the ranks a minute to connect, once all of them are known.

// Values sent by each rank of a new communicator to the others, through an older one.
struct Invitation {
  net::Address address;
  std::uint64_t key = 0;  // Only the first rank's is used.
};
Invitation Invite(const net::Listener& listener);
Result<Mesh> JoinInvited(const net::Listener& listener, const std::vector<Invitation>& ranks,
                         int rank, std::shared_ptr<net::Interrupt> interrupt);

}  // namespace cuspan::softnccl
