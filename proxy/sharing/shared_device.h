// Sharing's view of a session: work to be held, let and marked, and memory to be moved to the host
// and back.
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

// Threads: the receiving thread, unless said otherwise.
class SharedDevice {
 public:
  virtual ~SharedDevice() = default;

  // Any thread: the receiving thread looks again at what it waits for.
  virtual void Wake() = 0;
  virtual bool traced() const = 0;
  // In words, with its name.
  virtual std::string Describe(CUresult result) const = 0;

  // --- Work

  virtual StreamQueues& queues() CUSPAN_REQUIRES(receiving_thread) = 0;
  // No op and no task of the worker begins from one to the other.
  virtual void HoldAll() CUSPAN_REQUIRES(receiving_thread) = 0;
  virtual void LetAll() CUSPAN_REQUIRES(receiving_thread) = 0;
  // Whether ops wait in the queues, or tasks for the worker.
  virtual bool HasWaiting() const CUSPAN_REQUIRES(receiving_thread) = 0;
  // Calls done(result, chunks) on another thread when all that was handed over in the stream so far
  // is complete. False where the driver marks nothing: the device is lost, or has no memory.
  virtual bool Mark(const std::shared_ptr<Stream>& stream, Answer done)
      CUSPAN_REQUIRES(receiving_thread) = 0;
  // The same for all that was handed over in any stream. Any op may follow.
  virtual void MarkAll(Answer done) CUSPAN_REQUIRES(receiving_thread) = 0;

  // --- Times of work

  // Notes the time in the stream; false with other work on the device, or without the device.
  virtual bool BeginTime(Stream& stream, PooledEvent* begin) CUSPAN_REQUIRES(receiving_thread) = 0;
  // Calls took(nanoseconds) on another thread when what follows `begin` in the stream is complete.
  virtual void EndTime(PooledEvent begin, const std::shared_ptr<Stream>& stream,
                       std::function<void(double)> took) CUSPAN_REQUIRES(receiving_thread) = 0;

  // --- Memory

  // From now on new memory can be moved to the host.
  virtual void MaySwap() = 0;
  // Where there is no room for memory, the worker asks await_room(bytes, refused) → try again.
  virtual void SetAwaitRoom(std::function<bool(std::uint64_t, unsigned)> await_room) = 0;
  // A task of the worker goes on only when one of RunFirst has done something (Worker::ServeFirst).
  virtual void ServeFirst(const std::function<bool()>& over) = 0;
  virtual void RunFirst(std::function<void()> task) = 0;
  // By the worker: so many bytes, or more, to the host, and all back. How many are there then.
  virtual CUresult SwapOut(std::uint64_t bytes) CUSPAN_REQUIRES(worker_thread) = 0;
  virtual CUresult SwapIn() CUSPAN_REQUIRES(worker_thread) = 0;
  virtual std::uint64_t swapped_bytes() const CUSPAN_REQUIRES(worker_thread) = 0;
};

}  // namespace cuspan::proxy
