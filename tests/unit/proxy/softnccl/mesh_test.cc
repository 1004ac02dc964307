#include "proxy/softnccl/mesh.h"

#include <gtest/gtest.h>

#include "tests/unit/proxy/softnccl/ranks.h"

namespace cuspan::softnccl {
namespace {

std::vector<std::byte> Pattern(int from, int to, std::size_t bytes) {
  std::vector<std::byte> made(bytes);
  for (std::size_t i = 0; i < bytes; ++i)
    made[i] = static_cast<std::byte>(i * 7 + static_cast<std::size_t>(from * 31 + to * 17));
  return made;
}

TEST(Mesh, AllSendToAllAtOnce) {
  // Nothing, one byte, and more than sockets buffer; two messages for each pair.
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{3} << 20U}) {
    WithMeshes(4, [&](Mesh& mesh) {
      std::vector<std::vector<std::byte>> out, in(2 * mesh.size());
      std::vector<Outgoing> outgoing;
      std::vector<Incoming> incoming;
      for (int round = 0; round < 2; ++round) {
        for (int rank = 0; rank < mesh.size(); ++rank) {
          std::vector<std::byte>& room = in[round * mesh.size() + rank];
          out.push_back(Pattern(mesh.rank(), rank, bytes + round));
          room.resize(bytes + round);
          incoming.push_back({rank, room.data(), room.size()});
        }
      }
      for (int i = 0; i < 2 * mesh.size(); ++i)
        outgoing.push_back({i % mesh.size(), out[i].data(), out[i].size()});
      const Status status = mesh.Exchange(1, outgoing, incoming);
      ASSERT_TRUE(status.ok()) << status.message();
      for (int i = 0; i < 2 * mesh.size(); ++i)
        EXPECT_EQ(in[i], Pattern(i % mesh.size(), mesh.rank(), bytes + i / mesh.size()));
    });
  }
}

TEST(Mesh, SomeRanksMayDoWithoutOthers) {
  WithMeshes(3, [](Mesh& mesh) {
    std::byte byte{static_cast<std::uint8_t>(mesh.rank())};
    // 0 sends to 1, 1 to 2, and only then 2 to 0.
    for (int from = 0; from < 3; ++from) {
      const int to = (from + 1) % 3;
      const Outgoing outgoing{to, &byte, 1};
      const Incoming incoming{from, &byte, 1};
      Status status;
      if (mesh.rank() == from) status = mesh.Exchange(1, {&outgoing, 1}, {});
      if (mesh.rank() == to) status = mesh.Exchange(1, {}, {&incoming, 1});
      EXPECT_TRUE(status.ok()) << status.message();
    }
    EXPECT_EQ(byte, std::byte{0});
  });
}

TEST(Mesh, RanksThatDisagreeAllHearOfIt) {
  WithMeshes(3, [](Mesh& mesh) {
    // Rank 1 sends more than the others expect.
    const std::vector<int> all = {0, 1, 2};
    const std::vector<std::byte> own(mesh.rank() == 1 ? 9 : 8);
    const auto gathered = mesh.Gather(1, all, own);
    ASSERT_FALSE(gathered.ok());
    EXPECT_TRUE(gathered.status().code() == StatusCode::kInvalid ||
                gathered.status().code() == StatusCode::kUnavailable)
        << gathered.status().message();
    EXPECT_FALSE(mesh.Gather(1, all, own).ok());
  });
}

TEST(Mesh, AnotherKindIsADisagreement) {
  WithMeshes(2, [](Mesh& mesh) {
    const std::vector<int> all = {0, 1};
    EXPECT_FALSE(mesh.Gather(mesh.rank(), all, std::vector<std::byte>(4)).ok());
  });
}

TEST(Mesh, WhoIsGoneIsMissed) {
  WithMeshes(2, [](Mesh& mesh) {
    if (mesh.rank() == 1) return mesh.Close();
    const std::vector<int> all = {0, 1};
    const auto gathered = mesh.Gather(1, all, std::vector<std::byte>(4));
    ASSERT_FALSE(gathered.ok());
    EXPECT_EQ(gathered.status().message(), "rank 1 is gone");
  });
}

TEST(Mesh, AnInterruptEndsAWait) {
  const Result<nccl::UniqueId> id = MakeUniqueId();
  ASSERT_TRUE(id.ok());
  AsRanks(2, [&](int rank) {
    const auto interrupt = NewInterrupt();
    Result<Mesh> mesh = JoinById(*id, rank, 2, interrupt);
    ASSERT_TRUE(mesh.ok()) << mesh.status().message();
    std::byte byte{};
    const Incoming incoming{1 - rank, &byte, 1};
    std::thread raises([&] { interrupt->Raise(); });
    // The other rank never sends.
    EXPECT_EQ(mesh->Exchange(1, {}, {&incoming, 1}).code(), StatusCode::kUnavailable);
    raises.join();
  });
}

TEST(Mesh, WhatARankSendsItselfMustBeReceived) {
  WithMeshes(1, [](Mesh& mesh) {
    std::byte byte{7}, room{};
    const Outgoing outgoing{0, &byte, 1};
    const Incoming incoming{0, &room, 1};
    EXPECT_EQ(mesh.Exchange(1, {&outgoing, 1}, {}).code(), StatusCode::kInvalid);
    EXPECT_EQ(mesh.Exchange(1, {}, {&incoming, 1}).code(), StatusCode::kInvalid);
    EXPECT_TRUE(mesh.Exchange(1, {&outgoing, 1}, {&incoming, 1}).ok());
    EXPECT_EQ(room, byte);
  });
}

}  // namespace
}  // namespace cuspan::softnccl
