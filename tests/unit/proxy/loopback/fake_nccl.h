// NCCL for proxies of tests: a shared library with NCCL's functions. It records its calls, and
// moves no data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "protocol/nccl/nccl.h"

namespace cuspan::proxy {

// A call of NCCL's function `function` by a proxy. Members without a meaning for it are 0.
struct NcclCall {
  std::string function;
  int size = 0;  // Size of its communicator, or of the one to be created.
  int rank = 0;
  std::uint64_t group = 0;  // Equal for calls between ncclGroupStart and ncclGroupEnd; 0 outside.
  const void* send = nullptr;
  const void* receive = nullptr;
  std::size_t count = 0;
  int type = 0;
  int operation = 0;
  int peer = 0;  // Or root.
  const void* stream = nullptr;
  int color = 0, key = 0;
  std::vector<int> excluded = {};  // Ranks left out by ncclCommShrink.
  int factor = 0, residence = 0;   // ncclRedOpCreatePreMulSum; the first bytes of the factor.
  bool configured = false;         // False if the configuration was null.
  nccl::Config config = {};        // Members beyond the size given have their default.
};

// The library, one for the process. The result of a function is kSuccess, unless the arguments name
// no operation of the communicator. Ranks of a split wait for each other; other calls do not.
// Threads: any.
class FakeNccl {
 public:
  static FakeNccl& Instance();
  // File of the library.
  static std::string Path();
  static constexpr int kVersion = nccl::VersionCode(2, 28, 3);

  // Forgets recorded calls, refusals, holds and failures.
  void Reset();
  // Makes the function return `result`, with this text of ncclGetLastError. kSuccess restores it.
  void Refuse(const std::string& function, int result, const std::string& problem = "");
  // Until Let, calls of the function wait. Calls for nonblocking communicators return kInProgress
  // instead, and the communicator's state is kInProgress.
  void Hold(const std::string& function);
  void Let(const std::string& function);
  // Makes ncclCommGetAsyncError report `result` for all communicators, as after a network error.
  void Fail(int result);

  // Returns calls of this function, in order; of all functions if it is empty.
  std::vector<NcclCall> Calls(const std::string& function = "") const;
  // Waits until the function has been called `count` times; false after a time-out.
  bool WaitForCalls(const std::string& function, std::size_t count = 1) const;
  // Waits until this number of communicators exists; false after a time-out.
  bool WaitForCommunicators(std::size_t count) const;

  struct State;
  State& state() { return *state_; }

 private:
  FakeNccl();
  State* const state_;  // Never destroyed.
};

}  // namespace cuspan::proxy
