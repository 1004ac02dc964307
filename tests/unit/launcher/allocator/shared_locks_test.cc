// GPUs shared by runs: admission of runs, and cleanup after them.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <map>

#include "protocol/sharing/share_table.h"
#include "tests/unit/launcher/allocator/node_locks_fixture.h"

namespace cuspan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

ShareTerms Sharing(std::uint32_t most_runs = 2, std::uint32_t quota = 0) {
  ShareTerms terms;
  terms.shared = true;
  terms.most_runs = most_runs;
  terms.quota = quota;
  return terms;
}

ShareTerms Pairs(std::uint32_t most_runs) {
  ShareTerms terms = Sharing(most_runs);
  terms.pair = true;
  return terms;
}

class SharedLocksTest : public NodeLocksTest {
 protected:
  // Returns a run holding the GPUs, with no wait left.
  NodeLocks Having(std::uint64_t order, const ShareTerms& terms,
                   const std::vector<std::string>& gpus = {"g0"}) {
    NodeLocks locks = Entered(order, terms);
    EXPECT_EQ(Take(locks, gpus), Outcome::kDone);
    EXPECT_TRUE(locks.Settle().ok());
    return locks;
  }
  // The same in a separate process.
  pid_t HoldingProcess(std::uint64_t order, const ShareTerms& terms) {
    return Holder([&] {
      static std::optional<NodeLocks> locks;
      locks.emplace(Having(order, terms));
      return locks->LeaseFd("g0") >= 0;
    });
  }
  // Runs of a GPU visible to an observer without a ticket.
  std::vector<std::string> SharedWithAll(const std::string& gpu) {
    NodeLocks locks = Open();
    const NodeView view = Query(locks, {gpu});
    std::vector<std::string> runs;
    for (const SharedGpu& shared : view.shared)
      for (const SharingRun& run : shared.runs) runs.push_back(run.run);
    return runs;
  }
  // Returns the runs in a GPU's table.
  std::vector<std::string> Sharers(const std::string& gpu) {
    Result<ShareTable> table = ShareTable::Open(shares_, kLockHost, gpu);
    if (!table.ok()) return {};
    std::vector<std::string> runs;
    const Result<std::vector<SharingRun>> found = table->Query();
    EXPECT_TRUE(found.ok());
    for (const SharingRun& run : *found) runs.push_back(run.run);
    return runs;
  }
};

TEST_F(SharedLocksTest, TwoRunsHaveOneGpuAndAThirdWaits) {
  NodeLocks first = Having(1, Sharing());
  EXPECT_GE(first.LeaseFd("g0"), 0);
  NodeLocks second = Entered(2, Sharing());
  EXPECT_THAT(Query(second).held, IsEmpty());
  EXPECT_EQ(Take(second, {"g0"}), Outcome::kDone);
  ASSERT_TRUE(second.Settle().ok());
  EXPECT_THAT(Sharers("g0"), ElementsAre(LockTicket(1).run, LockTicket(2).run));
  NodeLocks third = Entered(3, Sharing());
  const NodeView view = Query(third);
  EXPECT_THAT(view.held, ElementsAre("g0"));
  EXPECT_THAT(view.full, ElementsAre(HasSubstr("2 runs share it")));
  ASSERT_THAT(view.tickets, SizeIs(2));
  for (const LeaseTicket& ticket : view.tickets) EXPECT_THAT(ticket.gpus, ElementsAre("g0"));
  EXPECT_EQ(Take(third, {"g0"}), Outcome::kRefused);
  first.Leave();
  EXPECT_THAT(Query(third).held, IsEmpty());
  EXPECT_EQ(Take(third, {"g0"}), Outcome::kDone);
  EXPECT_THAT(Sharers("g0"), testing::UnorderedElementsAre(LockTicket(2).run, LockTicket(3).run));
  second.Leave();
  third.Leave();
  EXPECT_THAT(Files(), IsEmpty());
  EXPECT_THAT(Sharers("g0"), IsEmpty());
}

TEST_F(SharedLocksTest, AsManyComeInAsAllOfThemAllow) {
  NodeLocks first = Having(1, Sharing(3));
  NodeLocks second = Having(2, Sharing(4));
  NodeLocks two = Entered(3, Sharing(2));
  EXPECT_EQ(Take(two, {"g0"}), Outcome::kRefused);
  two.Leave();
  NodeLocks third = Having(4, Sharing(4));
  NodeLocks fourth = Entered(5, Sharing(4));
  EXPECT_EQ(Take(fourth, {"g0"}), Outcome::kRefused);
}

TEST_F(SharedLocksTest, RunsThatShareAndRunsThatDoNotWaitForEachOther) {
  NodeLocks alone = Having(1, {});
  NodeLocks sharing = Entered(2, Sharing());
  EXPECT_THAT(Query(sharing).held, ElementsAre("g0"));
  EXPECT_EQ(Take(sharing, {"g0"}), Outcome::kRefused);
  alone.Leave();
  EXPECT_EQ(Take(sharing, {"g0"}), Outcome::kDone);
  ASSERT_TRUE(sharing.Settle().ok());
  NodeLocks other = Entered(3);
  EXPECT_THAT(Query(other).held, ElementsAre("g0"));
  EXPECT_EQ(Take(other, {"g0"}), Outcome::kRefused);
  // A later run does not overtake it, in spite of free room.
  NodeLocks later = Entered(4, Sharing());
  EXPECT_EQ(Take(later, {"g0"}), Outcome::kRefused);
  sharing.Leave();
  EXPECT_EQ(Take(other, {"g0"}), Outcome::kDone);
}

TEST_F(SharedLocksTest, WhoOnlyLooksSeesASharedGpuAsHeld) {
  NodeLocks sharing = Having(1, Sharing());
  NodeLocks looking = Open();
  EXPECT_THAT(Query(looking).held, ElementsAre("g0"));
}

TEST_F(SharedLocksTest, WhoOnlyLooksSeesWhoSharesAGpu) {
  NodeLocks first = Having(1, Sharing(4, 300), {"g0", "g1"});
  NodeLocks second = Having(2, Sharing(4));
  NodeLocks looking = Open();
  const std::vector<SharedGpu> shared = Query(looking).shared;
  ASSERT_THAT(shared, SizeIs(2));
  for (const SharedGpu& gpu : shared) EXPECT_EQ(gpu.host, kLockHost);
  EXPECT_EQ(shared[0].gpu, "g0");
  ASSERT_THAT(shared[0].runs, SizeIs(2));
  EXPECT_EQ(shared[0].runs[0].run, LockTicket(1).run);
  EXPECT_EQ(shared[0].runs[0].program, "train");
  EXPECT_EQ(shared[0].runs[0].terms.quota, 300U);
  EXPECT_EQ(shared[0].runs[1].run, LockTicket(2).run);
  EXPECT_EQ(shared[1].gpu, "g1");
  EXPECT_THAT(shared[1].runs, SizeIs(1));
  first.Leave();
  ASSERT_THAT(Query(looking).shared, SizeIs(1));
  EXPECT_THAT(Query(looking).shared[0].runs, SizeIs(1));
}

TEST_F(SharedLocksTest, ARunThatSharesSeesWhatItsChoiceDependsOn) {
  ShareTerms terms = Sharing(4, 300);
  terms.memory = std::uint64_t{2} << 30;
  terms.bottleneck = static_cast<std::uint8_t>(scheduling::Bottleneck::kMemory);
  const std::map<std::string, std::uint64_t> memory = {{"g0", std::uint64_t{16} << 30}};
  NodeLocks first = Open();
  ASSERT_TRUE(first.Enter(LockTicket(1), terms, memory).ok());
  ASSERT_EQ(Take(first, {"g0"}), Outcome::kDone);
  ASSERT_TRUE(first.Settle().ok());
  NodeLocks full = Having(2, Sharing(4, 900), {"g1"});
  NodeLocks waiting = Entered(3, Sharing(4, 200));
  const NodeView view = Query(waiting);
  EXPECT_THAT(view.held, ElementsAre("g1"));
  ASSERT_THAT(view.shared, SizeIs(1)) << "only that which it can have";
  EXPECT_EQ(view.shared[0].gpu, "g0");
  ASSERT_THAT(view.shared[0].runs, SizeIs(1));
  const SharingRun& run = view.shared[0].runs[0];
  EXPECT_EQ(run.terms.quota, 300U);
  EXPECT_EQ(run.terms.memory, terms.memory);
  EXPECT_EQ(scheduling::BottleneckOf(run.bottleneck), scheduling::Bottleneck::kMemory);
  EXPECT_EQ(run.run + run.user + run.program, "") << "messages are short";
  EXPECT_EQ(run.part_now + run.part_lately + run.used + run.waited + run.turns, 0U)
      << "it is told only when there is something new for it";
  NodeLocks alone = Entered(4);
  EXPECT_THAT(Query(alone).shared, IsEmpty());
}

TEST_F(SharedLocksTest, ATableThatSaysNothingKeepsNoOtherBack) {
  NodeLocks sharing = Having(1, Sharing(), {"g1"});
  const std::string table =
      Format("{}/cuspan-share-{}-g0-{}", shares_, kLockHost, static_cast<unsigned>(::geteuid()));
  ASSERT_EQ(::symlink("/etc/passwd", table.c_str()), 0);
  NodeLocks looking = Open();
  const NodeView view = Query(looking);
  ASSERT_THAT(view.shared, SizeIs(1));
  EXPECT_EQ(view.shared[0].gpu, "g1");
}

TEST_F(SharedLocksTest, QuotasThatCanNotBeKeptWait) {
  NodeLocks first = Having(1, Sharing(4, 600));
  NodeLocks second = Having(2, Sharing(4, 300));
  NodeLocks third = Entered(3, Sharing(4, 200));
  const NodeView view = Query(third);
  EXPECT_THAT(view.held, ElementsAre("g0"));
  EXPECT_THAT(view.full, ElementsAre(HasSubstr("%")));
  EXPECT_EQ(Take(third, {"g0"}), Outcome::kRefused);
  second.Leave();
  EXPECT_EQ(Take(third, {"g0"}), Outcome::kDone);
}

TEST_F(SharedLocksTest, AllOfItIsTakenOrNothing) {
  NodeLocks alone = Having(1, {}, {"g1"});
  NodeLocks sharing = Entered(2, Sharing());
  EXPECT_EQ(Take(sharing, {"g0", "g1"}), Outcome::kRefused);
  EXPECT_THAT(Sharers("g0"), IsEmpty());
  sharing.Leave();
  NodeLocks other = Entered(3);
  EXPECT_EQ(Take(other, {"g0"}), Outcome::kDone);
}

TEST_F(SharedLocksTest, WhatIsGivenBackHasRoomForAnother) {
  NodeLocks first = Having(1, Sharing());
  NodeLocks second = Entered(2, Sharing());
  EXPECT_EQ(Take(second, {"g0"}), Outcome::kDone);
  second.GiveBack();
  EXPECT_THAT(Sharers("g0"), ElementsAre(LockTicket(1).run));
  EXPECT_EQ(Take(second, {"g0"}), Outcome::kDone);
}

TEST_F(SharedLocksTest, ThePlaceOfAKilledRunIsFree) {
  const pid_t first = HoldingProcess(1, Sharing(2, 500));
  const pid_t second = HoldingProcess(2, Sharing(2, 500));
  {
    NodeLocks third = Entered(3, Sharing(2, 500));
    EXPECT_EQ(Take(third, {"g0"}), Outcome::kRefused);
    Kill(first);
    EXPECT_THAT(Query(third).held, IsEmpty());
    EXPECT_EQ(Take(third, {"g0"}), Outcome::kDone);
    EXPECT_THAT(Sharers("g0"), testing::UnorderedElementsAre(LockTicket(2).run, LockTicket(3).run));
    Kill(second);
    Query(third);
  }
  EXPECT_THAT(Files(), IsEmpty());
  NodeLocks alone = Entered(4);
  EXPECT_EQ(Take(alone, {"g0"}), Outcome::kDone);
}

TEST_F(SharedLocksTest, WhereAllWereKilledNothingIsLeft) {
  const pid_t first = HoldingProcess(1, Sharing());
  const pid_t second = HoldingProcess(2, Sharing());
  Kill(first);
  Kill(second);
  {
    NodeLocks sharing = Entered(3, Sharing());
    EXPECT_THAT(Query(sharing).held, IsEmpty());
    EXPECT_EQ(Take(sharing, {"g0"}), Outcome::kDone);
    EXPECT_THAT(Sharers("g0"), ElementsAre(LockTicket(3).run));
  }
  EXPECT_THAT(Files(), IsEmpty());
}

TEST_F(SharedLocksTest, AGpuIsNotFreeWhileAChildHasItsLock) {
  int hold[2];
  ASSERT_EQ(::pipe(hold), 0);
  // Case: a proxy has inherited the lock from its killed agent.
  const pid_t agent = Holder([&] {
    static std::optional<NodeLocks> locks;
    locks.emplace(Having(1, Sharing()));
    if (::fork() == 0) {
      ::close(hold[1]);
      char end = 0;
      [[maybe_unused]] const ssize_t got = ::read(hold[0], &end, 1);
      ::_exit(0);
    }
    ::close(hold[1]);
    return true;
  });
  Kill(agent);
  NodeLocks alone = Entered(2);
  EXPECT_EQ(Take(alone, {"g0"}), Outcome::kRefused);
  ::close(hold[1]);
  while (Take(alone, {"g0"}) != Outcome::kDone) ::sched_yield();
}

TEST_F(SharedLocksTest, AnotherUsersRunsAreWaitedFor) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to be two users";
  for (const std::string& folder : {folder_, shares_}) ASSERT_EQ(::chmod(folder.c_str(), 01777), 0);
  const pid_t other = Holder([&] {
    if (::setgid(65534) != 0 || ::setuid(65534) != 0) return false;
    static std::optional<NodeLocks> locks;
    locks.emplace(Having(1, Sharing(4)));
    return true;
  });
  NodeLocks sharing = Entered(2, Sharing(4));
  const NodeView view = Query(sharing);
  EXPECT_THAT(view.held, ElementsAre("g0"));
  ASSERT_EQ(view.tickets.size(), 1U);
  EXPECT_EQ(view.tickets[0].user, UserName(65534)) << "who waits is told who has it";
  EXPECT_EQ(Take(sharing, {"g0"}), Outcome::kRefused);
  Kill(other);
  EXPECT_EQ(Take(sharing, {"g0"}), Outcome::kDone);
}

// A folder made by an administrator for the members of a group.
TEST_F(SharedLocksTest, UsersOfACommonFolderShareByTime) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to be two users";
  ASSERT_EQ(::chmod(folder_.c_str(), 01777), 0);
  ASSERT_EQ(::chown(shares_.c_str(), 0, 65534), 0);
  ASSERT_EQ(::chmod(shares_.c_str(), 03770), 0);
  const auto as_another = [&](uid_t user, std::uint64_t order) {
    return Holder([&, user, order] {
      // Any umask must work.
      ::umask(0777);
      if (::setgid(65534) != 0 || ::setuid(user) != 0) return false;
      static std::optional<NodeLocks> locks;
      locks.emplace(Having(order, Sharing(4)));
      return locks->LeaseFd("g0") >= 0;
    });
  };
  const pid_t other = as_another(65534, 1);
  // Root may open files closed to others.
  Kill(as_another(65533, 6));
  {
    NodeLocks sharing = Entered(2, Sharing(4));
    EXPECT_THAT(Query(sharing).held, IsEmpty());
    EXPECT_EQ(Take(sharing, {"g0"}), Outcome::kDone);
    ASSERT_TRUE(sharing.Settle().ok());
    EXPECT_THAT(Sharers("g0"), ElementsAre(LockTicket(1).run, LockTicket(2).run));
    // Kernels of two users never run on a GPU at the same time.
    NodeLocks pairs = Entered(3, Pairs(3));
    EXPECT_THAT(Query(pairs).held, ElementsAre("g0"));
    EXPECT_EQ(Take(pairs, {"g0"}), Outcome::kRefused);
  }
  Kill(other);
  {
    NodeLocks pairs = Having(4, Pairs(3));
    EXPECT_THAT(Sharers("g0"), IsEmpty());
    NodeLocks sharing = Entered(5, Sharing(3));
    EXPECT_THAT(Query(sharing).held, ElementsAre("g0"));
    EXPECT_EQ(Take(sharing, {"g0"}), Outcome::kRefused);
    EXPECT_THAT(SharedWithAll("g0"), ElementsAre(LockTicket(4).run));
  }
  EXPECT_THAT(Files(), IsEmpty());
}

// Only a folder made by root for a group is common.
TEST_F(SharedLocksTest, NoOtherFolderIsCommon) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to be two users";
  ASSERT_EQ(::chmod(folder_.c_str(), 01777), 0);
  struct Folder {
    uid_t owner;
    mode_t mode;
  };
  for (const auto& [owner, mode] :
       {Folder{0, 03777}, Folder{0, 02770}, Folder{0, 01770}, Folder{65534, 03770}}) {
    ASSERT_EQ(::chown(shares_.c_str(), owner, 65534), 0);
    ASSERT_EQ(::chmod(shares_.c_str(), mode), 0);
    NodeLocks sharing = Having(1, Sharing());
    const std::string own =
        Format("{}/cuspan-share-{}-g0-{}", shares_, kLockHost, static_cast<unsigned>(::geteuid()));
    EXPECT_EQ(::access(own.c_str(), F_OK), 0) << owner << ' ' << std::oct << mode;
  }
}

// A table accessible to others is not accepted as the group's.
TEST_F(SharedLocksTest, ACommonTableThatOthersMayOpenIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to make a common folder";
  ASSERT_EQ(::chown(shares_.c_str(), 0, 65534), 0);
  ASSERT_EQ(::chmod(shares_.c_str(), 03770), 0);
  const std::string table = Format("{}/cuspan-share-{}-g0-all", shares_, kLockHost);
  const int file = ::open(table.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  ASSERT_EQ(::fchmod(file, 0666), 0);
  NodeLocks sharing = Entered(1, Sharing());
  Result<Outcome> taken = sharing.Take({"g0"});
  ASSERT_FALSE(taken.ok());
  EXPECT_THAT(taken.status().message(), HasSubstr(table));
  // A table of another group, made by a non-member.
  ASSERT_EQ(::fchmod(file, 0660), 0);
  ASSERT_EQ(::fchown(file, 0, 4242), 0);
  taken = sharing.Take({"g0"});
  EXPECT_FALSE(taken.ok());
  ::close(file);
}

TEST_F(SharedLocksTest, WhatLiesInPlaceOfATableIsSaid) {
  const std::string table =
      Format("{}/cuspan-share-{}-g0-{}", shares_, kLockHost, static_cast<unsigned>(::geteuid()));
  ASSERT_EQ(::symlink("/etc/passwd", table.c_str()), 0);
  NodeLocks sharing = Entered(1, Sharing());
  const Result<Outcome> taken = sharing.Take({"g0"});
  ASSERT_FALSE(taken.ok());
  EXPECT_THAT(taken.status().message(), HasSubstr(table));
  EXPECT_THAT(taken.status().message(), HasSubstr("CUSPAN_SHARE_FOLDER"));
  sharing.Leave();
  EXPECT_THAT(Files(), IsEmpty());
}

TEST_F(SharedLocksTest, AFolderForTablesThatIsNotThereIsSaid) {
  Result<NodeLocks> locks = NodeLocks::Open(kLockHost, folder_, "/no/such/folder", {});
  ASSERT_TRUE(locks.ok());
  ASSERT_TRUE(locks->Enter(LockTicket(1), Sharing()).ok());
  const Result<Outcome> taken = locks->Take({"g0"});
  ASSERT_FALSE(taken.ok());
  EXPECT_THAT(taken.status().message(), HasSubstr("/no/such/folder"));
}

TEST_F(SharedLocksTest, RunsThatRaceAreNeverTooManyAndLeaveNothing) {
  constexpr int kProcesses = 4;
  constexpr int kRounds = 25;
  // Used part of the GPU in halves. A run sharing it with one other uses one half.
  void* const memory = ::mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* const used = new (memory) std::atomic<int>(0);
  std::vector<pid_t> children;
  for (int i = 0; i < kProcesses; ++i) {
    children.push_back(::fork());
    if (children.back() != 0) continue;
    const bool alone = i == 0;
    const int part = alone ? 2 : 1;
    for (int round = 0; round < kRounds; ++round) {
      Result<NodeLocks> locks = NodeLocks::Open(kLockHost, folder_, shares_, {});
      if (!locks.ok()) ::_exit(1);
      const LeaseTicket ticket = LockTicket(static_cast<std::uint64_t>(round * kProcesses + i));
      while (*locks->Enter(ticket, alone ? ShareTerms{} : Sharing()) == Outcome::kBusy)
        ::sched_yield();
      for (;;) {
        const Result<Outcome> taken = locks->Take({"g0"});
        // On an overloaded machine, a process changing the table may look stopped.
        if (!taken.ok() && taken.status().code() != StatusCode::kUnavailable) ::_exit(2);
        if (taken.ok() && *taken == Outcome::kDone) break;
        ::sched_yield();
      }
      if (used->fetch_add(part) + part > 2) ::_exit(3);
      if (!locks->Settle().ok()) ::_exit(4);
      ::sched_yield();
      used->fetch_sub(part);
    }
    ::_exit(0);
  }
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  ::munmap(memory, sizeof(std::atomic<int>));
  EXPECT_THAT(Files(), IsEmpty());
  EXPECT_THAT(Sharers("g0"), IsEmpty());
}

}  // namespace
}  // namespace cuspan
