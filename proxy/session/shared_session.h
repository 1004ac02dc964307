// What sharing does with a session.
#pragma once

#include "proxy/gpu/swap_copies.h"
#include "proxy/sharing/shared_device.h"

namespace cuspan::proxy {

class DeviceSession;

class SharedSession final : public SharedDevice {
 public:
  // The session outlives it.
  explicit SharedSession(DeviceSession& session);

  void Wake() override;
  bool traced() const override;
  std::string Describe(CUresult result) const override;
  StreamQueues& queues() override;
  void HoldAll() override;
  void LetAll() override;
  bool HasWaiting() const override;
  bool Mark(const std::shared_ptr<Stream>& stream, Answer done) override;
  void MarkAll(Answer done) override;
  bool BeginTime(Stream& stream, PooledEvent* begin) override;
  void EndTime(PooledEvent begin, const std::shared_ptr<Stream>& stream,
               std::function<void(double)> took) override;
  void MaySwap() override;
  void SetAwaitRoom(std::function<bool(std::uint64_t, unsigned)> await_room) override;
  void ServeFirst(const std::function<bool()>& over) override;
  void RunFirst(std::function<void()> task) override;
  CUresult SwapOut(std::uint64_t bytes) override;
  CUresult SwapIn() override;
  std::uint64_t swapped_bytes() const override;

 private:
  DeviceSession& session_;
  SwapCopies copies_;  // The worker's.
};

}  // namespace cuspan::proxy
