// Runs ranks of a communicator as threads of a test.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "proxy/softnccl/bootstrap.h"
#include "tests/unit/protocol/network/interrupts.h"

namespace cuspan::softnccl {

using net::NewInterrupt;

// Runs `body` once for each rank, concurrently.
inline void AsRanks(int size, const std::function<void(int rank)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) threads.emplace_back([&, rank] { body(rank); });
  for (std::thread& thread : threads) thread.join();
}

// The same, with a mesh of the ranks.
inline void WithMeshes(int size, const std::function<void(Mesh& mesh)>& body) {
  const Result<nccl::UniqueId> id = MakeUniqueId();
  ASSERT_TRUE(id.ok()) << id.status().message();
  AsRanks(size, [&](int rank) {
    Result<Mesh> mesh = JoinById(*id, rank, size, NewInterrupt());
    ASSERT_TRUE(mesh.ok()) << mesh.status().message();
    body(*mesh);
  });
}

}  // namespace cuspan::softnccl
