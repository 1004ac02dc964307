// Reads and writes of registered files.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>

#include "common/mutex.h"
#include "interpose/client/stream_target.h"
#include "interpose/cufile/handles.h"
#include "interpose/cufile/results.h"
#include "interpose/cufile/statistics.h"

namespace cuspan::cufile {

// A read or write as named by the program.
struct Request {
  Opcode opcode = kRead;
  const void* handle = nullptr;
  const void* base = nullptr;    // Memory of a device, or of the program,
  std::int64_t base_offset = 0;  // and the offset there.
  std::uint64_t bytes = 0;
  std::int64_t file_offset = 0;
};

// Counts an operation when it ends.
class Measurement {
 public:
  Measurement(Statistics* statistics, const Transferred& what,
              std::chrono::steady_clock::time_point begun)
      : statistics_(*statistics), what_(what), begun_(begun) {}
  void End(const Outcome& outcome) const;

 private:
  Statistics& statistics_;
  const Transferred what_;
  const std::chrono::steady_clock::time_point begun_;
};

// A request that was found valid.
class Operation {
 public:
  // Called with the outcome. Must neither block nor use or own a connection. Threads: any.
  using End = std::function<void(const Outcome&)>;

  // Checks the request and opens the file, if necessary. False: *outcome says why.
  bool Prepare(Session& session, const Request& request, Outcome* outcome);

  // True if the bytes are in the program's memory.
  bool on_host() const { return connection_ == nullptr; }
  const std::shared_ptr<ContextConnection>& connection() const { return connection_; }

  // Reads or writes memory of the program. May block.
  Outcome RunOnHost() const;
  // The same for memory of a device, in the order of `there`, which may be another device's stream.
  // `end` is called before the stream has passed it, if CUDA_SUCCESS is returned.
  CUresult Post(Session& session, const StreamTarget& there, End end) const;
  // The same in no order with other work.
  CUresult PostAnywhere(Session& session, End end) const;
  // The same. Waits.
  Outcome RunOnDevice(Session& session) const;
  // The same by this process's own read or write, and a copy.
  Outcome RunThroughHost(Session& session) const;
  // Measures it up to its end, also if it was not valid. The result owns nothing.
  Measurement Measure(Session& session, Transferred::Kind kind) const;
  // Either. Waits.
  Outcome Run(Session& session) const { return on_host() ? RunOnHost() : RunOnDevice(session); }

 private:
  // Posts it to a stream of its own device.
  CUresult PostTo(Session& session, const StreamTarget& there, End end) const;

  std::chrono::steady_clock::time_point begun_;
  Opcode opcode_ = kRead;
  std::shared_ptr<Handle> handle_;
  std::byte* memory_ = nullptr;
  std::uint64_t bytes_ = 0;
  std::uint64_t offset_ = 0;
  // Those of the memory's device; both are null for the program's memory.
  std::shared_ptr<ContextConnection> connection_;
  std::shared_ptr<const ProgramFile> file_;
};

// Prepare, Run and Measure.
Outcome Transfer(Session& session, const Request& request, Transferred::Kind kind);

}  // namespace cuspan::cufile
