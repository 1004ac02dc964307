// How the ranks of a communicator find each other: by an id that holds where its maker listens, or
// by what the ranks of another communicator told each other.
//
// Whoever connects must know the number in the id: connections of strangers are dropped.
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

// Of a communicator. NCCL has been run with tens of thousands.
inline constexpr int kMaxRanks = 1 << 16;

// Makes an id, and a thread that introduces the ranks which come with it to each other. It ends
// when all have come, or with the process.
Result<nccl::UniqueId> MakeUniqueId();

// Waits until all `size` ranks have come; a rank that goes again before may come anew. kInvalid
// where another rank disagrees on their number, or is this one.
Result<Mesh> JoinById(const nccl::UniqueId& id, int rank, int size,
                      std::shared_ptr<net::Interrupt> interrupt);

// Those who have found each other by the first way, or are invited, have a minute to connect.

// What each rank of a new communicator tells the others of an older one.
struct Invitation {
  net::Address address;
  std::uint64_t key = 0;  // The first rank's counts.
};
Invitation Invite(const net::Listener& listener);
Result<Mesh> JoinInvited(const net::Listener& listener, const std::vector<Invitation>& ranks,
                         int rank, std::shared_ptr<net::Interrupt> interrupt);

}  // namespace cuspan::softnccl
