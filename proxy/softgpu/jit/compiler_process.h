// One compilation in a process of its own: it can be ended, it has a limit, and it does not
// hold up the threads that execute kernels. LLVM can not be stopped on a thread.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <string>

#include "common/status.h"
#include "common/unique_fd.h"
#include "proxy/softgpu/jit/build_code.h"

namespace cuspan::softgpu::jit {

// What is to be compiled.
struct CompilerTask {
  std::shared_ptr<const std::string> ptx;  // The whole text of the module.
  std::string kernel;
  CodeForm form;
  std::chrono::seconds limit{};  // Of its processor time.
};

// The side that asks. One thread starts and waits, any thread may Kill in between.
class CompilerProcess {
 public:
  // Starts `program`, which must be the executable of this build that calls CompilerMain. It ends
  // with the calling thread. kUnavailable when it cannot be started.
  static Result<CompilerProcess> Start(const std::string& program, const CompilerTask& task);
  CompilerProcess(CompilerProcess&&) = default;
  // Kills and waits.
  ~CompilerProcess();

  void Kill();
  // Waits for its end; called once. kExhausted when it took more than the limit, kInternal when it
  // was killed, kUnavailable when it can do nothing (it is of another build, or no compiler at
  // all), else what BuildCode says, without `or_thread`.
  Result<KernelCode> Wait();

 private:
  CompilerProcess(const CompilerTask& task, UniqueFd process, UniqueFd answer)
      : what_(task.kernel),
        limit_(task.limit),
        process_(std::move(process)),
        answer_(std::move(answer)) {}

  std::string what_;
  std::chrono::seconds limit_;
  UniqueFd process_;
  UniqueFd answer_;
  bool waited_ = false;
};

// The other side: main() of the program. The status of the process.
int CompilerMain(int argument_count, char** arguments);

}  // namespace cuspan::softgpu::jit
