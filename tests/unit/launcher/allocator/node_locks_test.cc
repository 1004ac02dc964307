// Node locks: between runs, after deaths, and in a folder with foreign files.
#include "launcher/allocator/node_locks.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "launcher/allocator/lease_sweeper.h"
#include "launcher/allocator/ticket.h"
#include "tests/unit/launcher/allocator/node_locks_fixture.h"

namespace cuspan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Outcome = NodeLocks::Outcome;

TEST_F(NodeLocksTest, ALeaseIsExclusiveAndShown) {
  NodeLocks first = Entered(1);
  EXPECT_EQ(Take(first, {"g0"}), Outcome::kDone);
  EXPECT_GE(first.LeaseFd("g0"), 0);
  EXPECT_EQ(first.LeaseFd("g1"), -1);
  ASSERT_TRUE(first.Settle().ok());
  NodeLocks second = Entered(2);
  EXPECT_EQ(Take(second, {"g0"}), Outcome::kRefused);
  EXPECT_EQ(Take(second, {"g1", "g0"}), Outcome::kRefused);
  const NodeView view = Query(second);
  EXPECT_THAT(view.held, ElementsAre("g0"));
  ASSERT_EQ(view.tickets.size(), 1U);
  EXPECT_EQ(view.tickets[0].run, LockTicket(1).run);
  EXPECT_EQ(view.tickets[0].user, UserName(::geteuid()));
  EXPECT_EQ(view.tickets[0].program, "train");
  EXPECT_FALSE(view.tickets[0].waiting);
  EXPECT_THAT(view.tickets[0].gpus, ElementsAre("g0"));
  first.Leave();
  EXPECT_EQ(Take(second, {"g1", "g0"}), Outcome::kDone);
  second.Leave();
  EXPECT_THAT(Files(), IsEmpty());
}

TEST_F(NodeLocksTest, TheEarlierRunIsServedFirst) {
  NodeLocks later = Entered(2);
  NodeLocks earlier = Entered(1);
  EXPECT_EQ(Take(later, {"g0"}), Outcome::kRefused);
  EXPECT_EQ(Take(earlier, {"g0"}), Outcome::kDone);
  // It still waits: after a refusal elsewhere it may retry here.
  EXPECT_EQ(Take(later, {"g1"}), Outcome::kRefused);
  ASSERT_TRUE(earlier.Settle().ok());
  EXPECT_EQ(Take(later, {"g1"}), Outcome::kDone);
}

TEST_F(NodeLocksTest, TheOrderIsCompleteByTheRunsNames) {
  LeaseTicket one = LockTicket(1), other = LockTicket(1);
  other.run = "ffffffffffffffff";
  NodeLocks first = Open(), second = Open();
  ASSERT_TRUE(second.Enter(other).ok());
  ASSERT_TRUE(first.Enter(one).ok());
  EXPECT_EQ(Take(second, {"g0"}), Outcome::kRefused);
  EXPECT_EQ(Take(first, {"g0"}), Outcome::kDone);
}

TEST_F(NodeLocksTest, WhatIsGivenBackIsFreeAndThePlaceKept) {
  NodeLocks first = Entered(1);
  NodeLocks second = Entered(2);
  EXPECT_EQ(Take(first, {"g0"}), Outcome::kDone);
  first.GiveBack();
  EXPECT_THAT(Query(second).held, IsEmpty());
  EXPECT_EQ(Take(second, {"g0"}), Outcome::kRefused);
  ASSERT_TRUE(first.Settle().ok());  // Without GPUs: it leaves the queue.
  EXPECT_THAT(Query(second).tickets, IsEmpty());
  EXPECT_EQ(Take(second, {"g0"}), Outcome::kDone);
}

TEST_F(NodeLocksTest, HostsOfOneFolderDoNotMeet) {
  NodeLocks first = Entered(1);
  EXPECT_EQ(Take(first, {"g0"}), Outcome::kDone);
  Result<NodeLocks> other = NodeLocks::Open("n1-b", folder_, shares_, {});
  ASSERT_TRUE(other.ok());
  ASSERT_TRUE(other->Enter(LockTicket(2)).ok());
  EXPECT_EQ(*other->Take({"g0"}), Outcome::kDone);
  EXPECT_THAT(Query(first).tickets, IsEmpty());
}

TEST_F(NodeLocksTest, AKilledRunHoldsNothingAndLeavesNothing) {
  const pid_t holder = Holder([&] {
    static NodeLocks locks = Open();
    return locks.Enter(LockTicket(1)).ok() && Take(locks, {"g0"}) == Outcome::kDone &&
           locks.Settle().ok();
  });
  const pid_t waiter = Holder([&] {
    static NodeLocks locks = Open();
    return locks.Enter(LockTicket(2)).ok();
  });
  {
    NodeLocks locks = Entered(3);
    EXPECT_EQ(Query(locks).tickets.size(), 2U);
    Kill(holder);
    NodeView view = Query(locks);
    EXPECT_THAT(view.held, IsEmpty());
    EXPECT_EQ(view.tickets.size(), 1U);
    EXPECT_EQ(Take(locks, {"g0"}), Outcome::kRefused);
    Kill(waiter);
    EXPECT_EQ(Take(locks, {"g0"}), Outcome::kDone);
  }
  EXPECT_THAT(Files(), IsEmpty());
}

TEST_F(NodeLocksTest, AGpuIsNotFreeWhileAChildHasItsLock) {
  int hold[2];
  ASSERT_EQ(::pipe(hold), 0);
  // Case: a proxy has inherited the lock from its killed agent.
  const pid_t agent = Holder([&] {
    static NodeLocks locks = Open();
    if (!locks.Enter(LockTicket(1)).ok() || Take(locks, {"g0"}) != Outcome::kDone) return false;
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
  NodeLocks locks = Entered(2);
  EXPECT_EQ(Take(locks, {"g0"}), Outcome::kRefused);
  ::close(hold[1]);
  while (Take(locks, {"g0"}) != Outcome::kDone) ::sched_yield();
}

TEST_F(NodeLocksTest, TheSweeperRemovesWhatAKilledAgentLeaves) {
  ASSERT_EQ(::setenv("CUSPAN_LEASE_FOLDER", folder_.c_str(), 1), 0);
  for (const bool killed : {false, true}) {
    const pid_t agent = Holder([&] {
      static std::optional<LeaseSweeper> sweeper;
      Result<LeaseSweeper> started = LeaseSweeper::Start(kLockHost);
      if (!started.ok()) return false;
      sweeper.emplace(std::move(*started));
      static NodeLocks locks = Open();
      if (!locks.Enter(LockTicket(killed ? 2 : 1)).ok() || Take(locks, {"g0"}) != Outcome::kDone)
        return false;
      if (!killed) sweeper.reset();  // Disables the sweeper, like a regular end.
      return true;
    });
    Kill(agent);
    // No limit but the test's own time-out.
    while (killed && !Files().empty()) ::usleep(1000);
    EXPECT_EQ(Files().empty(), killed);
  }
  ::unsetenv("CUSPAN_LEASE_FOLDER");
}

TEST_F(NodeLocksTest, RunsThatRaceNeverHaveOneGpuTogether) {
  // Each process increments a number in a file while holding the GPU. A lost increment proves a
  // lease granted twice.
  constexpr int kProcesses = 4;
  constexpr int kRounds = 25;
  const std::string counter = Path("counter");
  std::ofstream(counter) << 0;
  std::vector<pid_t> children;
  for (int i = 0; i < kProcesses; ++i) {
    children.push_back(::fork());
    if (children.back() != 0) continue;
    for (int round = 0; round < kRounds; ++round) {
      Result<NodeLocks> locks = NodeLocks::Open(kLockHost, folder_, shares_, {});
      if (!locks.ok()) ::_exit(1);
      const auto order = static_cast<std::uint64_t>(i * kRounds + round);
      while (*locks->Enter(LockTicket(order)) == Outcome::kBusy) ::sched_yield();
      for (;;) {
        const Result<Outcome> taken = locks->Take({"g0"});
        if (!taken.ok()) ::_exit(2);
        if (*taken == Outcome::kDone) break;
        ::sched_yield();
      }
      int count = 0;
      std::ifstream(counter) >> count;
      ::sched_yield();
      std::ofstream(counter) << count + 1;
    }
    ::_exit(0);
  }
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  int count = 0;
  std::ifstream(counter) >> count;
  EXPECT_EQ(count, kProcesses * kRounds);
  EXPECT_THAT(Files(), ElementsAre("counter"));
}

// --- Foreign files in the folder

TEST_F(NodeLocksTest, LinksAreNotFollowed) {
  const std::string victim = Path("victim");
  std::ofstream(victim) << "precious";
  NodeLocks locks = Entered(1);
  ASSERT_EQ(::symlink(victim.c_str(), Lease("g0").c_str()), 0);
  const Result<Outcome> taken = locks.Take({"g0"});
  ASSERT_FALSE(taken.ok());
  EXPECT_THAT(taken.status().message(), HasSubstr("symbolic link"));
  ASSERT_EQ(::link(victim.c_str(), Lease("g1").c_str()), 0);
  const Result<Outcome> linked = locks.Take({"g1"});
  ASSERT_FALSE(linked.ok());
  EXPECT_THAT(linked.status().message(), HasSubstr("other hard links"));
  NodeView view;
  EXPECT_FALSE(locks.Query({"g0"}, view).ok());
  std::string content;
  std::ifstream(victim) >> content;
  EXPECT_EQ(content, "precious");
}

TEST_F(NodeLocksTest, PipesAndFoldersAreRefused) {
  NodeLocks locks = Entered(1);
  ASSERT_EQ(::mkfifo(Lease("g0").c_str(), 0666), 0);
  ASSERT_EQ(::mkdir(Lease("g1").c_str(), 0777), 0);
  for (const char* gpu : {"g0", "g1"}) {
    const Result<Outcome> taken = locks.Take({gpu});
    ASSERT_FALSE(taken.ok());
    EXPECT_THAT(taken.status().message(), HasSubstr("not a regular file"));
  }
  // A pipe with the name of a ticket is ignored.
  ASSERT_EQ(::mkfifo(Path(TicketName([] {
                       LeaseTicket ticket = LockTicket(0);
                       ticket.host = kLockHost;
                       ticket.waiting = true;
                       return ticket;
                     }()))
                         .c_str(),
                     0666),
            0);
  EXPECT_EQ(Take(locks, {"g2"}), Outcome::kDone);
}

TEST_F(NodeLocksTest, TicketsMaySayAnything) {
  std::vector<UniqueFd> open;
  const std::string texts[] = {"",
                               std::string(100'000, 'x'),
                               std::string(3000, '\0'),
                               "cuspan 1\n",
                               "cuspan 1\nprogram \x1b[2J\x07"
                               "evil\nwanted 3\nend\n",
                               "cuspan 1\nprogram p\nwanted 99999999999\nend\n",
                               "cuspan 1\nprogram p\nwanted 1\ngpu ../../etc\nend\n",
                               "cuspan 1\nprogram p\nwanted 1\ngpu g0"};
  std::uint64_t order = 100;
  for (const std::string& text : texts) {
    LeaseTicket ticket = LockTicket(order++);
    ticket.host = kLockHost;
    ticket.waiting = true;
    std::ofstream(Path(TicketName(ticket))) << text;
    open.emplace_back(::open(Path(TicketName(ticket)).c_str(), O_RDONLY | O_CLOEXEC));
    ASSERT_EQ(::flock(open.back().get(), LOCK_EX), 0);
  }
  for (const char* name : {"cuspan-wait-n1-", "cuspan-wait-n1-zz", "cuspan-run-n1-0-0"})
    std::ofstream(Path(name)) << "cuspan 1\n";
  NodeLocks locks = Entered(1);
  const NodeView view = Query(locks);
  ASSERT_EQ(view.tickets.size(), std::size(texts));
  for (const LeaseTicket& ticket : view.tickets) {
    EXPECT_THAT(ticket.gpus, IsEmpty());
    for (const char c : ticket.program) EXPECT_TRUE(c >= 0x20 && c <= 0x7e);
  }
  EXPECT_EQ(view.tickets[4].program, "?[2J?evil");
  EXPECT_EQ(Take(locks, {"g0"}), Outcome::kDone);
}

TEST_F(NodeLocksTest, AnotherUsersFilesAreUsedAndLeft) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to be two users";
  ASSERT_EQ(::chmod(folder_.c_str(), 01777), 0);
  std::ofstream(Lease("g0")).close();
  ASSERT_EQ(::chmod(Lease("g0").c_str(), 0644), 0);
  std::ofstream(Lease("g1")).close();
  ASSERT_EQ(::chmod(Lease("g1").c_str(), 0600), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setgid(65534) != 0 || ::setuid(65534) != 0) ::_exit(1);
    Result<NodeLocks> locks = NodeLocks::Open(kLockHost, folder_, shares_, {});
    if (!locks.ok() || !locks->Enter(LockTicket(1)).ok()) ::_exit(2);
    const Result<Outcome> taken = locks->Take({"g0"});
    if (!taken.ok() || *taken != Outcome::kDone) ::_exit(3);
    NodeView view;
    if (!locks->Query({"g1"}, view).ok() || view.held != std::vector<std::string>{"g1"}) ::_exit(4);
    locks->Leave();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_TRUE(std::filesystem::exists(Lease("g0")));
  NodeLocks locks = Entered(2);
  EXPECT_EQ(Take(locks, {"g0", "g1"}), Outcome::kDone);
}

TEST_F(NodeLocksTest, AFolderWhereOthersCouldRemoveFilesIsRefused) {
  ASSERT_EQ(::chmod(folder_.c_str(), 0777), 0);
  const Result<NodeLocks> locks = NodeLocks::Open(kLockHost, folder_, shares_, {});
  ASSERT_FALSE(locks.ok());
  EXPECT_THAT(locks.status().message(), HasSubstr("not safe"));
  EXPECT_THAT(NodeLocks::Open(kLockHost, "/no/such/folder", shares_, {}).status().message(),
              HasSubstr("/no/such/folder"));
}

TEST_F(NodeLocksTest, AFullDiskIsSaidClearly) {
  // A file system of one page, in a mount namespace of this process.
  const pid_t child = ::fork();
  if (child == 0) {
    if (::unshare(CLONE_NEWNS) != 0 ||
        ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("none", folder_.c_str(), "tmpfs", 0, "size=4096,mode=1777") != 0)
      ::_exit(77);
    std::ofstream(Path("fill")) << std::string(4096, 'x');
    Result<NodeLocks> locks = NodeLocks::Open(kLockHost, folder_, shares_, {});
    if (!locks.ok()) ::_exit(1);
    const Result<Outcome> entered = locks->Enter(LockTicket(1));
    if (entered.ok() || entered.status().code() != StatusCode::kExhausted) ::_exit(2);
    if (entered.status().message().find("no space for GPU locks in " + folder_) ==
        std::string::npos)
      ::_exit(3);
    std::filesystem::remove(Path("fill"));
    if (!Files().empty()) ::_exit(5);
    const Result<Outcome> again = locks->Enter(LockTicket(1));
    ::_exit(again.ok() ? 0 : 4);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "no file system may be mounted here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(NodeLocksTest, TheLogHasEveryEventInOrder) {
  const std::string path = Path("log");
  ASSERT_EQ(::setenv("CUSPAN_LEASE_LOG", path.c_str(), 1), 0);
  {
    Result<NodeLocks> locks =
        NodeLocks::Open(kLockHost, folder_, shares_, LeaseLog::FromSettings());
    ASSERT_TRUE(locks.ok());
    ASSERT_TRUE(locks->Enter(LockTicket(1)).ok());
    EXPECT_EQ(Take(*locks, {"g0", "g1"}), Outcome::kDone);
    ASSERT_TRUE(locks->Settle().ok());
  }
  ::unsetenv("CUSPAN_LEASE_LOG");
  std::ifstream file(path);
  std::vector<std::string> events;
  std::string time, event, rest;
  while (file >> time >> event && std::getline(file, rest)) {
    const std::size_t gpu = rest.find(" gpu=");
    events.push_back(event + rest.substr(gpu, rest.find(' ', gpu + 1) - gpu));
    EXPECT_THAT(rest, HasSubstr(" host=n1 "));
    EXPECT_THAT(rest, HasSubstr(Format(" order=0000000000000001 run={} user={}", LockTicket(1).run,
                                       UserName(::geteuid()))));
  }
  EXPECT_THAT(events, ElementsAre("arrive gpu=-", "grant gpu=g0", "grant gpu=g1", "leave gpu=-",
                                  "release gpu=g0", "release gpu=g1"));
}

TEST(TicketName, SaysTheOrderAndTheRun) {
  LeaseTicket ticket = LockTicket(0x1234);
  ticket.host = "a-b.c";
  ticket.waiting = true;
  const std::string name = TicketName(ticket);
  EXPECT_EQ(name, "cuspan-wait-a-b.c-0000000000001234-000000000000b234");
  const auto parsed = ParseTicketName(name, "a-b.c", true);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->order, ticket.order);
  EXPECT_EQ(parsed->run, ticket.run);
  EXPECT_FALSE(ParseTicketName(name, "a-b.c", false));
  EXPECT_FALSE(ParseTicketName(name, "a", true));
  EXPECT_FALSE(ParseTicketName(name + "0", "a-b.c", true));
}

TEST(TicketText, ComesBackAsItWas) {
  LeaseTicket ticket = LockTicket(1, "a b");
  ticket.wanted = 3;
  ticket.gpus = {"g0", "0123-4"};
  LeaseTicket read;
  ReadTicketText(TicketText(ticket), read);
  EXPECT_EQ(read.program, "a b");
  EXPECT_EQ(read.wanted, 3U);
  EXPECT_EQ(read.gpus, ticket.gpus);
  EXPECT_EQ(read.job, "");
  ticket.job = "12";
  ReadTicketText(TicketText(ticket), read);
  EXPECT_EQ(read.job, "12");
  EXPECT_EQ(read.gpus, ticket.gpus);
  // An invalid job is not written, and not accepted when read.
  ticket.job = "1\n2";
  ReadTicketText(TicketText(ticket), read);
  EXPECT_EQ(read.job, "");
  LeaseTicket other;
  ReadTicketText("cuspan 1\nprogram a\nwanted 1\njob 1 2\nend\n", other);
  EXPECT_EQ(other.program, "");
}

TEST(HostForNames, HasNothingThatAPathReadsOtherwise) {
  EXPECT_EQ(HostForNames("../x y"), ".._x_y");
  EXPECT_EQ(HostForNames(""), "localhost");
  EXPECT_EQ(HostForNames(std::string(200, 'a')).size(), 64U);
}

TEST_F(NodeLocksTest, ATimeThatNoRunHasIsRefusedAndNotSeen) {
  const ArrivalTimes times{100, 1'000'000'000};
  Result<NodeLocks> own = NodeLocks::Open(kLockHost, folder_, shares_, {}, times);
  ASSERT_TRUE(own.ok());
  for (const std::uint64_t order : {std::uint64_t{99}, ~std::uint64_t{0} - 0xa000}) {
    EXPECT_FALSE(times.Allow(order));
    EXPECT_EQ(own->Enter(LockTicket(order)).status().code(), StatusCode::kInvalid);
    // A ticket of this kind made by another process is ignored.
    const NodeLocks made = Entered(order);
    EXPECT_TRUE(Query(*own).tickets.empty());
  }
  EXPECT_TRUE(times.Allow(100));
  const NodeLocks made = Entered(100);
  EXPECT_EQ(Query(*own).tickets.size(), 1U);
}

TEST_F(NodeLocksTest, ArrivalTimesOfThisHostAllowNow) {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  const std::uint64_t nanoseconds = static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000;
  const ArrivalTimes times = ArrivalTimes::OfThisHost();
  EXPECT_TRUE(times.Allow(nanoseconds));
  EXPECT_FALSE(times.Allow(1));
  EXPECT_FALSE(times.Allow(nanoseconds + 3'600'000'000'000));
}

}  // namespace
}  // namespace cuspan
