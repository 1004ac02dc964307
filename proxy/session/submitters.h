// Submits launches of a program with several threads on several threads, too.
//
// A launch takes the driver 3.4 µs in one thread, and 2.2, 1.6 and 1.25 µs with 2, 4 and 8 threads
// calling it at the same time; with a wait for each launch 9, 5.2, 3.0 and 2.25 µs (measured on an
// H200, driver 580). A single receiving thread would be slower than the program's own threads.
//
// Launches of one program thread are submitted by the receiving thread: handing them over would add
// a hop between two cores. While launches of several program threads arrive by turns, each goes to
// a submitter, with the mark behind it. The submitter polls the stream and writes the mark itself:
// for a mark written by the device, it would have to call the driver once more. All delegated work
// of a stream is with one submitter at a time. The receiving thread awaits it before it adds
// another op of the stream (DeviceSession::FindStream), or handles a frame with effects on more
// than a stream (server.cc).
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "proxy/gpu/device.h"
#include "proxy/session/session_streams.h"
#include "proxy/session/submitter.h"
#include "proxy/streams/roles.h"

namespace cuspan::proxy {

struct SubmitterThreads {
  // Useful on this machine: none without cores for them beside the program's threads.
  static SubmitterThreads ForThisMachine();

  unsigned most = 0;  // Started when needed.
  // Time without work after which a thread sleeps, and gets none until it is awake again. The
  // default is longer than most pauses of programs launching all the time.
  std::chrono::microseconds poll_time{200};
};

// Threads: the receiving thread.
class Submitters {
 public:
  // All references outlive it.
  Submitters(const Device& device, const Driver& driver, Faults& faults, SessionStreams& streams,
             SubmitterThreads threads);

  // Counts a launch of this program thread. True if others launch at the same time.
  bool SeveralThreads(std::uint32_t thread) CUSPAN_REQUIRES(receiving_thread);

  // Submits the launch, with at most DelegatedLaunch::kMaxArgumentBytes, on another thread. Nothing
  // happens, and the result is false, if there is no thread for it, or the launch has to wait. If
  // that thread also writes the mark behind the launch, `mark` is reset.
  bool Delegate(const std::shared_ptr<Stream>& stream, const Origin& origin, const KernelCall& call,
                std::optional<ClientMark>& mark) CUSPAN_REQUIRES(receiving_thread);
  // The same for a mark behind the stream's work, if that was delegated.
  bool Delegate(const std::shared_ptr<Stream>& stream, const ClientMark& mark)
      CUSPAN_REQUIRES(receiving_thread);

  // Returns once the driver has the delegated work of `stream`, or for the legacy stream, of all.
  void Await(Stream& stream) CUSPAN_REQUIRES(receiving_thread);
  void AwaitAll() CUSPAN_REQUIRES(receiving_thread);

 private:
  // The submitter for the stream's next op, or null.
  Submitter* Choose(const Stream& stream) CUSPAN_REQUIRES(receiving_thread);
  // True if the stream's next op has nothing to wait for, and nothing waits for all streams' ops:
  // it would ask the driver for the end of work not submitted yet.
  bool NothingBefore(const Stream& stream) const CUSPAN_REQUIRES(receiving_thread);

  const Device& device_;
  const Driver& driver_;
  Faults& faults_;
  SessionStreams& streams_;
  // The maximum is lowered if the system allows no more.
  SubmitterThreads threads_ CUSPAN_GUARDED_BY(receiving_thread);
  std::uint32_t last_thread_ CUSPAN_GUARDED_BY(receiving_thread) = 0;
  // Launches since the thread changed.
  unsigned of_last_thread_ CUSPAN_GUARDED_BY(receiving_thread);
  std::vector<std::unique_ptr<Submitter>> submitters_ CUSPAN_GUARDED_BY(receiving_thread);
};

}  // namespace cuspan::proxy
