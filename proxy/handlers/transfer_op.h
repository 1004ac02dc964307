// Bytes of the client for the device, or the other way round, when a stream has come to them.
#pragma once

#include <memory>
#include <utility>

#include "proxy/handlers/located_box.h"
#include "proxy/session/device_session.h"

namespace cuspan::proxy {

struct TransferOp : StreamOp {
  TransferOp(DeviceSession& session, std::shared_ptr<Transfer> transfer)
      : session(&session), transfer(std::move(transfer)) {}
  // The transfer has failed then.
  bool Refused() CUSPAN_REQUIRES(receiving_thread) {
    CUresult result = transfer->stream->broken;
    if (transfer->bytes != 0 && !MayTouch(*session, transfer->box))
      result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS) return false;
    session->bulk().transfers().Fail(*transfer, result);
    return true;
  }
  void Drop() CUSPAN_REQUIRES(receiving_thread) override {
    session->bulk().transfers().Fail(*transfer, session->faults().lost());
  }

  DeviceSession* session;
  std::shared_ptr<Transfer> transfer;
};

struct TransferToDevice final : TransferOp {
  using TransferOp::TransferOp;
  SubmitResult Submit() CUSPAN_REQUIRES(receiving_thread) override {
    return Refused() ? SubmitResult::kSubmitted
                     : session->bulk().transfers().BeginToDevice(*transfer);
  }
};

struct TransferFromDevice final : TransferOp {
  using TransferOp::TransferOp;
  SubmitResult Submit() CUSPAN_REQUIRES(receiving_thread) override {
    return Refused() ? SubmitResult::kSubmitted
                     : session->bulk().transfers().BeginFromDevice(transfer);
  }
};

}  // namespace cuspan::proxy
