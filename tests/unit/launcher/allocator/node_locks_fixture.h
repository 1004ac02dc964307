// Node locks of several runs, in folders of the test.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "launcher/allocator/node_locks.h"
#include "launcher/allocator/ticket.h"

namespace cuspan {

inline const std::string kLockHost = "n1";

inline LeaseTicket LockTicket(std::uint64_t order, const std::string& program = "train") {
  LeaseTicket ticket;
  ticket.order = order;
  ticket.run = Format("{:016x}", order + 0xa000);
  ticket.program = program;
  ticket.wanted = 1;
  return ticket;
}

class NodeLocksTest : public testing::Test {
 protected:
  using Outcome = NodeLocks::Outcome;

  void SetUp() override {
    folder_ = NewFolder("node-locks-XXXXXX");
    shares_ = NewFolder("node-shares-XXXXXX");
  }
  void TearDown() override {
    for (const std::string& folder : {folder_, shares_}) std::filesystem::remove_all(folder);
  }
  static std::string NewFolder(const std::string& pattern) {
    std::string folder = (std::filesystem::temp_directory_path() / pattern).string();
    EXPECT_NE(::mkdtemp(folder.data()), nullptr);
    return folder;
  }

  NodeLocks Open() {
    Result<NodeLocks> locks = NodeLocks::Open(kLockHost, folder_, shares_, {});
    EXPECT_TRUE(locks.ok()) << locks.status().message();
    return std::move(*locks);
  }
  NodeLocks Entered(std::uint64_t order, const ShareTerms& terms = {}) {
    NodeLocks locks = Open();
    const Result<Outcome> entered = locks.Enter(LockTicket(order), terms);
    EXPECT_TRUE(entered.ok()) << entered.status().message();
    EXPECT_EQ(*entered, Outcome::kDone);
    return locks;
  }
  NodeView Query(NodeLocks& locks, const std::vector<std::string>& gpus = {"g0", "g1"}) {
    NodeView view;
    const Result<Outcome> looked = locks.Query(gpus, view);
    EXPECT_TRUE(looked.ok()) << looked.status().message();
    EXPECT_EQ(*looked, Outcome::kDone);
    return view;
  }
  Outcome Take(NodeLocks& locks, const std::vector<std::string>& gpus) {
    const Result<Outcome> taken = locks.Take(gpus);
    EXPECT_TRUE(taken.ok()) << taken.status().message();
    return *taken;
  }
  std::vector<std::string> Files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_))
      names.push_back(entry.path().filename());
    return names;
  }
  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  std::string Lease(const std::string& gpu) const { return Path(LeasePrefix(kLockHost) + gpu); }

  // Runs `work` in a separate process. Returns its id once `work` is done. The process then waits
  // to be killed.
  pid_t Holder(const std::function<bool()>& work) {
    int ready[2];
    EXPECT_EQ(::pipe(ready), 0);
    const pid_t pid = ::fork();
    if (pid == 0) {
      const char worked = work() ? 1 : 0;
      [[maybe_unused]] const ssize_t told = ::write(ready[1], &worked, 1);
      for (;;) ::pause();
    }
    char worked = 0;
    EXPECT_EQ(::read(ready[0], &worked, 1), 1);
    EXPECT_EQ(worked, 1);
    ::close(ready[0]);
    ::close(ready[1]);
    return pid;
  }
  static void Kill(pid_t pid) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }

  std::string folder_;
  std::string shares_;  // Tables of shared GPUs.
};

}  // namespace cuspan
