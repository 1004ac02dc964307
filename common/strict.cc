#include "common/strict.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <future>
#include <string_view>
#include <thread>

#include "common/log.h"
#include "common/settings.h"
#include "common/start_thread.h"

namespace cuspan {
namespace {

// A thread of the program may hold the lock of a FILE while it waits for its user.
constexpr std::chrono::seconds kFlushLimit{1};

void FlushProgramsOutput() {
  // Never destroyed: the flushing thread may still use it when the process ends.
  auto* const flushed = new std::promise<void>;
  const std::future<void> done = flushed->get_future();
  Result<std::thread> thread = StartThread("cuspan-flush", [flushed] {
    std::fflush(nullptr);
    flushed->set_value();
  });
  if (!thread.ok())
    return LogWarn("output of the program may be lost: {}", thread.status().message());
  thread->detach();
  done.wait_for(kFlushLimit);
}

}  // namespace

void EndIfStrict() {
  if (SettingText(settings::kStrict) != std::string_view("on")) return;
  LogError("CUSPAN_STRICT is on: the program ends here");
  FlushProgramsOutput();
  ::_exit(kStrictExitStatus);
}

}  // namespace cuspan
