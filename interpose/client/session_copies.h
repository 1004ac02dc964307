// What copies of runs (copy.cc) and of boxes (copy_box.cc) share: the way that
// bytes take, whatever op moves them at the proxy.
#pragma once

#include <memory>
#include <utility>

#include "interpose/client/session.h"

namespace cuspan {

template <typename Use>
CUresult Session::OnDevice(const StreamTarget& target, const std::shared_ptr<Link>& link,
                           Use&& op) {
  if (link == target.link) return op(target);
  StreamTarget there{link, 0};
  CUresult result = link->OwnStream(&there.stream);
  if (result == CUDA_SUCCESS) result = Order(target, there);
  if (result == CUDA_SUCCESS) result = op(there);
  if (result == CUDA_SUCCESS) result = Order(there, target);
  return result;
}

template <typename Op>
CUresult Session::CopyByItself(const std::shared_ptr<Link>& copier, const Sides& sides,
                               bool asynchronous, const StreamTarget& target, Op& op) {
  if (!asynchronous && sides.to != sides.from) {
    for (const auto& link : {sides.to, sides.from})
      if (const CUresult result = link->Synchronize(DeviceSynchronize{}); result != CUDA_SUCCESS)
        return result;
  }
  const CUresult result = OnDevice(target, copier, [&](const StreamTarget& there) {
    op.stream = there.stream;
    return there.link->Post(op);
  });
  if (result != CUDA_SUCCESS || asynchronous || sides.to == sides.from) return result;
  return SynchronizeStream(target);
}

template <typename Op>
CUresult Session::SendBytes(const StreamTarget& there, Op& op, const std::byte* source,
                            std::uint64_t bytes, const HostRows& rows, bool later) {
  Transfers& transfers = there.link->transfers();
  op.stream = there.stream;
  op.transfer = transfers.BeginOutgoing();
  if (const CUresult result = there.link->Post(op); result != CUDA_SUCCESS) {
    transfers.Forget(op.transfer);
    return result;
  }
  if (later) {
    transfers.SendLater(op.transfer, source, bytes, rows);
    return CUDA_SUCCESS;
  }
  there.link->Watch([&] { return transfers.MaySend(op.transfer); });
  const CUresult result = transfers.Send(op.transfer, source, bytes, rows);
  return result != CUDA_SUCCESS ? result : there.link->TakePostedFailure();
}

template <typename Op>
CUresult Session::ReceiveBytes(const StreamTarget& there, Op& op, std::byte* destination,
                               std::uint64_t bytes, const HostRows& rows, bool later) {
  Transfers& transfers = there.link->transfers();
  auto incoming = std::make_shared<Incoming>();
  incoming->destination = destination;
  incoming->bytes = bytes;
  incoming->rows = rows;
  op.stream = there.stream;
  op.transfer = transfers.BeginIncoming(incoming);
  if (const CUresult result = there.link->Post(op); result != CUDA_SUCCESS) {
    transfers.Forget(op.transfer);
    return result;
  }
  if (later) return CUDA_SUCCESS;
  there.link->Watch([&] { return incoming->complete.load(std::memory_order_acquire); });
  const CUresult result = transfers.WaitComplete(*incoming);
  return result != CUDA_SUCCESS ? result : there.link->TakePostedFailure();
}

}  // namespace cuspan
