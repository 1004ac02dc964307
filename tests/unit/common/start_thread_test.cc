// Tests threads if the system allows no more.
#include "common/start_thread.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>
#include <utility>

namespace cuspan {
namespace {

TEST(StartThread, RunsWhatItIsGiven) {
  int run = 0;
  Result<std::thread> thread = StartThread("test", [&] { run = 1; });
  ASSERT_TRUE(thread.ok()) << thread.status().message();
  thread->join();
  EXPECT_EQ(run, 1);
}

// The process may allocate no more memory, so none for a stack.
TEST(StartThread, SaysWhatIsMissing) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const rlimit none{1 << 20, 1 << 20};
    ::setrlimit(RLIMIT_AS, &none);
    // Cached stacks of ended threads may still be available.
    for (int i = 0; i < 1000; ++i) {
      Result<std::thread> thread = StartThread("test", [] { ::pause(); });
      if (thread.ok()) {
        thread->detach();
        continue;
      }
      const bool right = thread.status().code() == StatusCode::kExhausted &&
                         thread.status().message().find("ulimit") != std::string::npos;
      ::_exit(right ? 0 : 1);
    }
    ::_exit(2);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace
}  // namespace cuspan
