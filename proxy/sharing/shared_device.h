// Interface of a session for sharing: holding, releasing and tracking work, and swapping memory.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "proxy/gpu/events.h"
#include "proxy/streams/completion.h"
#include "proxy/streams/queues.h"
#include "proxy/streams/roles.h"
#include "proxy/streams/stream.h"

namespace cuspan::proxy {

// Threads: the receiving thread, unless noted otherwise.
class SharedDevice {
 public:
  virtual ~SharedDevice() = default;

  // Wakes the receiving thread to check its conditions again. Threads: any.
  virtual void Wake() = 0;
  virtual bool traced() const = 0;
  // Text of a result, with its name.
  virtual std::string Describe(CUresult result) const = 0;

  // --- Work

  virtual StreamQueues& queues() CUSPAN_REQUIRES(receiving_thread) = 0;
  // Between these calls no op and no task of the worker begins.
  virtual void HoldAll() CUSPAN_REQUIRES(receiving_thread) = 0;
  virtual void LetAll() CUSPAN_REQUIRES(receiving_thread) = 0;
  // True if ops wait in the queues, or tasks for the worker.
  virtual bool HasWaiting() const CUSPAN_REQUIRES(receiving_thread) = 0;
  // Calls done(result, chunks) on another thread after completion of all work submitted to the
  // stream so far. False if the driver can not record an event: the device is lost, or out of
  // memory.
  virtual bool Mark(const std::shared_ptr<Stream>& stream, Answer done)
      CUSPAN_REQUIRES(receiving_thread) = 0;
  // The same for work submitted to any stream. Any op may follow.
  virtual void MarkAll(Answer done) CUSPAN_REQUIRES(receiving_thread) = 0;

  // --- Measuring work

  // Records the time in the stream. False if other work is on the device, or it is lost.
  virtual bool BeginTime(Stream& stream, PooledEvent* begin) CUSPAN_REQUIRES(receiving_thread) = 0;
  // Calls took(nanoseconds) on another thread after completion of the work following `begin` in the
  // stream.
  virtual void EndTime(PooledEvent begin, const std::shared_ptr<Stream>& stream,
                       std::function<void(double)> took) CUSPAN_REQUIRES(receiving_thread) = 0;

  // --- Memory

  // From now on new memory can be swapped.
  virtual void MaySwap() = 0;
  // Sets the worker's callback for missing memory: await_room(bytes, refused) returns true to try
  // again.
  virtual void SetAwaitRoom(std::function<bool(std::uint64_t, unsigned)> await_room) = 0;
  // Suspends a task of the worker until a RunFirst task has changed the result of `over`
  // (Worker::ServeFirst).
  virtual void ServeFirst(const std::function<bool()>& over) = 0;
  virtual void RunFirst(std::function<void()> task) = 0;
  // Swaps out at least `bytes`; swaps in all. swapped_bytes: bytes on the host. Threads: the
  // worker.
  virtual CUresult SwapOut(std::uint64_t bytes) CUSPAN_REQUIRES(worker_thread) = 0;
  virtual CUresult SwapIn() CUSPAN_REQUIRES(worker_thread) = 0;
  virtual std::uint64_t swapped_bytes() const CUSPAN_REQUIRES(worker_thread) = 0;
};

}  // namespace cuspan::proxy
