// Transfers between client and device, as ops of a stream.
#pragma once

#include <memory>
#include <utility>

#include "proxy/handlers/located_box.h"
#include "proxy/session/device_session.h"

namespace cuspan::proxy {

struct TransferOp : StreamOp {
  TransferOp(DeviceSession& session, std::shared_ptr<Transfer> transfer)
      : session(&session), transfer(std::move(transfer)) {}
  // True if the transfer is invalid; it has then been failed.
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
