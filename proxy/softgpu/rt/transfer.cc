#include "proxy/softgpu/rt/transfer.h"

#include "common/format.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace cuspan::softgpu {
namespace {

// Large enough that handing one to a worker costs nothing beside it.
constexpr std::size_t kPieceBytes = std::size_t{4} << 20;

std::uint64_t Pieces(std::size_t bytes) { return (bytes + kPieceBytes - 1) / kPieceBytes; }

struct CopyPiece {
  void* target;
  const void* source;
  std::size_t bytes;
};

struct FillPiece {
  void* target;
  std::uint32_t value;
  std::uint32_t width;
  std::size_t count;
};

void CopyMain(void* argument) {
  const auto* piece = static_cast<const CopyPiece*>(argument);
  std::memcpy(piece->target, piece->source, piece->bytes);
}

void FillMain(void* argument) {
  const auto* piece = static_cast<const FillPiece*>(argument);
  switch (piece->width) {
    case 1:
      std::memset(piece->target, static_cast<int>(piece->value & 0xff), piece->count);
      return;
    case 2:
      std::fill_n(static_cast<std::uint16_t*>(piece->target), piece->count,
                  static_cast<std::uint16_t>(piece->value));
      return;
    default:
      std::fill_n(static_cast<std::uint32_t*>(piece->target), piece->count, piece->value);
  }
}

void RaiseFault(const Fault& fault, const char* what, ErrorSink& errors) {
  if (fault.signal == 0) {
    errors.Raise(CUDA_ERROR_OUT_OF_MEMORY,
                 Format("{}: the host has no memory for a stack", what));
    return;
  }
  errors.Raise(CUDA_ERROR_ILLEGAL_ADDRESS,
               Format("{}: access to an address that is not mapped ({})", what,
                           static_cast<const void*>(fault.address)));
}

std::uint8_t* Offset(void* base, std::size_t bytes) {
  return static_cast<std::uint8_t*>(base) + bytes;
}

}  // namespace

CopyTask::CopyTask(void* target, const void* source, std::size_t bytes, int priority,
                   std::shared_ptr<ErrorSink> errors)
    : Task(Pieces(bytes), 1, priority, false),
      target_(target),
      source_(source),
      bytes_(bytes),
      errors_(std::move(errors)) {}

CopyTask::CopyTask(void* target, std::vector<std::uint8_t> bytes, int priority,
                   std::shared_ptr<ErrorSink> errors)
    : Task(Pieces(bytes.size()), 1, priority, false),
      target_(target),
      own_(std::move(bytes)),
      source_(own_.data()),
      bytes_(own_.size()),
      errors_(std::move(errors)) {}

Resident* CopyTask::Start(Worker& worker, std::uint64_t unit) {
  const std::size_t begin = unit * kPieceBytes;
  CopyPiece piece{Offset(target_, begin), static_cast<const std::uint8_t*>(source_) + begin,
                  std::min(kPieceBytes, bytes_ - begin)};
  if (!worker.RunGuarded(&CopyMain, &piece)) {
    RaiseFault(worker.guard().fault(), "copy", *errors_);
  }
  return nullptr;
}

FillTask::FillTask(void* target, std::uint32_t value, std::uint32_t width, std::size_t count,
                   int priority, std::shared_ptr<ErrorSink> errors)
    : Task(Pieces(count * width), 1, priority, false),
      target_(target),
      value_(value),
      width_(width),
      count_(count),
      errors_(std::move(errors)) {}

Resident* FillTask::Start(Worker& worker, std::uint64_t unit) {
  const std::size_t begin = unit * kPieceBytes;
  FillPiece piece{Offset(target_, begin), value_, width_,
                  std::min(kPieceBytes, count_ * width_ - begin) / width_};
  if (!worker.RunGuarded(&FillMain, &piece)) RaiseFault(worker.guard().fault(), "fill", *errors_);
  return nullptr;
}

}  // namespace cuspan::softgpu
