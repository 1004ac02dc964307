// Interface to a session for sharing its GPU.
#pragma once

#include "proxy/gpu/swap_copies.h"
#include "proxy/sharing/shared_device.h"
#include "proxy/streams/roles.h"

namespace cuspan::proxy {

class DeviceSession;

class SharedSession final : public SharedDevice {
 public:
  // The session outlives it.
  explicit SharedSession(DeviceSession& session);

  void Wake() override;
  bool traced() const override;
  std::string Describe(CUresult result) const override;
  StreamQueues& queues() CUSPAN_REQUIRES(receiving_thread) override;
  void HoldAll() CUSPAN_REQUIRES(receiving_thread) override;
  void LetAll() CUSPAN_REQUIRES(receiving_thread) override;
  bool HasWaiting() const CUSPAN_REQUIRES(receiving_thread) override;
  bool Mark(const std::shared_ptr<Stream>& stream, Answer done)
      CUSPAN_REQUIRES(receiving_thread) override;
  void MarkAll(Answer done) CUSPAN_REQUIRES(receiving_thread) override;
  bool BeginTime(Stream& stream, PooledEvent* begin) CUSPAN_REQUIRES(receiving_thread) override;
  void EndTime(PooledEvent begin, const std::shared_ptr<Stream>& stream,
               std::function<void(double)> took) CUSPAN_REQUIRES(receiving_thread) override;
  void MaySwap() override;
  void SetAwaitRoom(std::function<bool(std::uint64_t, unsigned)> await_room) override;
  void ServeFirst(const std::function<bool()>& over) override;
  void RunFirst(std::function<void()> task) override;
  CUresult SwapOut(std::uint64_t bytes) CUSPAN_REQUIRES(worker_thread) override;
  CUresult SwapIn() CUSPAN_REQUIRES(worker_thread) override;
  std::uint64_t swapped_bytes() const CUSPAN_REQUIRES(worker_thread) override;

 private:
  DeviceSession& session_;
  SwapCopies copies_;  // Owner: the worker.
};

}  // namespace cuspan::proxy
