#include "proxy/softnccl/bootstrap.h"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/unit/proxy/softnccl/ranks.h"

namespace cuspan::softnccl {
namespace {

// Address of the id's creator.
net::Address RootOf(const nccl::UniqueId& id) {
  net::Address root;
  std::memcpy(&root, id.bytes + sizeof(std::uint64_t), sizeof(root));
  return root;
}

void ExpectTheyKnowEachOther(Mesh& mesh) {
  std::vector<int> all(mesh.size());
  for (int rank = 0; rank < mesh.size(); ++rank) all[rank] = rank;
  const std::vector<std::byte> own(1, static_cast<std::byte>(mesh.rank()));
  const auto gathered = mesh.Gather(1, all, own);
  ASSERT_TRUE(gathered.ok()) << gathered.status().message();
  for (int rank = 0; rank < mesh.size(); ++rank)
    EXPECT_EQ((*gathered)[rank], static_cast<std::byte>(rank));
}

TEST(Bootstrap, RanksFindEachOther) {
  for (const int size : {1, 2, 9}) WithMeshes(size, ExpectTheyKnowEachOther);
}

TEST(Bootstrap, StrangersAreDropped) {
  const Result<nccl::UniqueId> id = MakeUniqueId();
  ASSERT_TRUE(id.ok());
  const auto never = NewInterrupt();
  std::vector<UniqueFd> strangers;
  // One sends nothing, one too little, and others send data unknown to all ranks.
  for (int i = 0; i < 8; ++i) {
    Result<UniqueFd> fd = net::Connect(RootOf(*id), *never, net::kNever);
    ASSERT_TRUE(fd.ok()) << fd.status().message();
    const std::size_t bytes = i == 0 ? 0 : i == 1 ? 13 : 64;
    const std::vector<std::uint8_t> said(bytes, static_cast<std::uint8_t>(i));
    ASSERT_TRUE(net::SendAll(fd->get(), said.data(), said.size(), *never, net::kNever).ok());
    strangers.push_back(std::move(*fd));
  }
  // After a complete message, the connection is closed.
  for (std::size_t i = 2; i < strangers.size(); ++i) {
    std::byte answer{};
    EXPECT_EQ(net::ReceiveAll(strangers[i].get(), &answer, 1, *never, net::kNever).code(),
              StatusCode::kUnavailable);
  }
  AsRanks(3, [&](int rank) {
    Result<Mesh> mesh = JoinById(*id, rank, 3, NewInterrupt());
    ASSERT_TRUE(mesh.ok()) << mesh.status().message();
    ExpectTheyKnowEachOther(*mesh);
  });
}

TEST(Bootstrap, ARankThatGoesBeforeAllHaveComeMayComeAgain) {
  const Result<nccl::UniqueId> id = MakeUniqueId();
  ASSERT_TRUE(id.ok());
  const auto interrupt = NewInterrupt();
  interrupt->Raise();
  // This rank also has a wrong number of ranks.
  EXPECT_EQ(JoinById(*id, 1, 3, interrupt).status().code(), StatusCode::kUnavailable);
  AsRanks(2, [&](int rank) {
    // The root may not know yet that the rank has left.
    Result<Mesh> mesh = JoinById(*id, rank, 2, NewInterrupt());
    while (mesh.status().code() == StatusCode::kInvalid)
      mesh = JoinById(*id, rank, 2, NewInterrupt());
    ASSERT_TRUE(mesh.ok()) << mesh.status().message();
    ExpectTheyKnowEachOther(*mesh);
  });
}

// Two ranks join with an id, and one must be refused. The other waits until it is interrupted.
void ExpectOneRefused(int second_rank, int second_size) {
  const Result<nccl::UniqueId> id = MakeUniqueId();
  ASSERT_TRUE(id.ok());
  std::vector<Status> statuses(2);
  const auto interrupt = NewInterrupt();
  AsRanks(2, [&](int which) {
    const int rank = which == 0 ? 0 : second_rank, size = which == 0 ? 2 : second_size;
    statuses[which] = JoinById(*id, rank, size, interrupt).status();
    interrupt->Raise();
  });
  const int refused = statuses[0].code() == StatusCode::kInvalid ? 0 : 1;
  EXPECT_EQ(statuses[refused].code(), StatusCode::kInvalid) << statuses[refused].message();
  EXPECT_EQ(statuses[1 - refused].code(), StatusCode::kUnavailable)
      << statuses[1 - refused].message();
}

TEST(Bootstrap, EachRankComesOnce) { ExpectOneRefused(0, 2); }

TEST(Bootstrap, AnIdIsForOneNumberOfRanks) { ExpectOneRefused(1, 3); }

TEST(Bootstrap, WhoWaitsForOthersCanBeInterrupted) {
  const Result<nccl::UniqueId> id = MakeUniqueId();
  ASSERT_TRUE(id.ok());
  const auto interrupt = NewInterrupt();
  std::thread raises([&] { interrupt->Raise(); });
  EXPECT_EQ(JoinById(*id, 0, 2, interrupt).status().code(), StatusCode::kUnavailable);
  raises.join();
}

TEST(Bootstrap, AnIdThatNobodyMadeIsAnError) {
  for (const int filler : {0, 1, 255}) {
    nccl::UniqueId id;
    std::memset(id.bytes, filler, sizeof(id.bytes));
    const Result<Mesh> mesh = JoinById(id, 0, 1, NewInterrupt());
    ASSERT_FALSE(mesh.ok());
    EXPECT_NE(mesh.status().message(), "");
  }
}

TEST(Bootstrap, AnIdOfAnotherKeyIsAnError) {
  Result<nccl::UniqueId> id = MakeUniqueId();
  ASSERT_TRUE(id.ok());
  id->bytes[0] = static_cast<char>(id->bytes[0] ^ 1);
  EXPECT_EQ(JoinById(*id, 0, 1, NewInterrupt()).status().code(), StatusCode::kUnavailable);
}

TEST(Bootstrap, InvitedRanksFindEachOther) {
  constexpr int kRanks = 4;
  std::vector<net::Listener> listeners;
  std::vector<Invitation> invitations;
  for (int rank = 0; rank < kRanks; ++rank) {
    Result<net::Listener> listener = net::Listener::Open(kRanks);
    ASSERT_TRUE(listener.ok()) << listener.status().message();
    invitations.push_back(Invite(*listener));
    listeners.push_back(std::move(*listener));
  }
  AsRanks(kRanks, [&](int rank) {
    Result<Mesh> mesh = JoinInvited(listeners[rank], invitations, rank, NewInterrupt());
    ASSERT_TRUE(mesh.ok()) << mesh.status().message();
    ExpectTheyKnowEachOther(*mesh);
  });
}

}  // namespace
}  // namespace cuspan::softnccl
