// One compilation in a process of its own. It can be killed, has a time limit, and does not block
// threads executing kernels. LLVM cannot be stopped on a thread.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <string>

#include "common/status.h"
#include "common/unique_fd.h"
#include "proxy/softgpu/jit/build_code.h"

namespace cuspan::softgpu::jit {

// Request for a compilation.
struct CompilerTask {
  std::shared_ptr<const std::string> ptx;  // Whole text of the module.
  std::string kernel;
  CodeForm form;
  std::chrono::seconds limit{};  // Processor time.
};

// Requesting side. Threads: one starts and waits; any thread may call Kill in between.
class CompilerProcess {
 public:
  // Starts `program`, the executable of this build calling CompilerMain. It ends with the calling
  // thread. Returns kUnavailable if it cannot be started.
  static Result<CompilerProcess> Start(const std::string& program, const CompilerTask& task);
  CompilerProcess(CompilerProcess&&) = default;
  // Kills the process and waits for its end.
  ~CompilerProcess();

  void Kill();
  // Waits for the end of the process; called once. Returns kExhausted if the limit was exceeded,
  // kInternal if it was killed, and kUnavailable if it cannot compile (another build, or not a
  // compiler). Otherwise returns the result of BuildCode without `or_thread`.
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

// Compiling side: main() of the program. Returns the exit status.
int CompilerMain(int argument_count, char** arguments);

}  // namespace cuspan::softgpu::jit
