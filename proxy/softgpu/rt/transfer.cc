#include "proxy/softgpu/rt/transfer.h"

#include "common/format.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

namespace cuspan::softgpu {
namespace {

// Large enough to make handing a piece to a worker negligible.
constexpr std::size_t kPieceBytes = std::size_t{4} << 20;

std::uint64_t Pieces(std::size_t bytes) { return (bytes + kPieceBytes - 1) / kPieceBytes; }

struct CopyPiece {
  void* target;
  const void* source;
  std::size_t bytes;
};

void CopyMain(void* argument) {
  const auto* piece = static_cast<const CopyPiece*>(argument);
  std::memcpy(piece->target, piece->source, piece->bytes);
}

void FillRow(const Fill& fill, std::uint64_t row) {
  void* const target = reinterpret_cast<void*>(fill.target + row * fill.pitch);
  switch (fill.width) {
    case 1:
      std::memset(target, static_cast<int>(fill.value & 0xff), fill.count);
      return;
    case 2:
      std::fill_n(static_cast<std::uint16_t*>(target), fill.count,
                  static_cast<std::uint16_t>(fill.value));
      return;
    default:
      std::fill_n(static_cast<std::uint32_t*>(target), fill.count, fill.value);
  }
}

void FillMain(void* argument) {
  const Fill& piece = *static_cast<const Fill*>(argument);
  for (std::size_t row = 0; row < piece.rows; ++row) FillRow(piece, row);
}

struct BoxPiece {
  const BoxSide* target;
  const BoxSide* source;
  std::size_t width, height;
  std::size_t first, last;  // Rows, counted across all slices.
};

std::size_t RowsInPiece(std::size_t width) { return std::max<std::size_t>(1, kPieceBytes / width); }

std::uint64_t PiecesOfRows(std::size_t rows, std::size_t width) {
  return (rows + RowsInPiece(width) - 1) / RowsInPiece(width);
}

void BoxMain(void* argument) {
  const auto* piece = static_cast<const BoxPiece*>(argument);
  const auto row = [&](const BoxSide& side, std::size_t index) {
    return side.base + index / piece->height * side.slice_bytes +
           index % piece->height * side.row_bytes;
  };
  for (std::size_t i = piece->first; i < piece->last; ++i)
    std::memcpy(row(*piece->target, i), row(*piece->source, i), piece->width);
}

void RaiseFault(const Fault& fault, const char* what, ErrorSink& errors) {
  if (fault.signal == 0) {
    errors.Raise(CUDA_ERROR_OUT_OF_MEMORY, Format("{}: the host has no memory for a stack", what));
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
                   std::shared_ptr<ErrorSink> errors, Pace* pace)
    : Task(Pieces(bytes), 1, priority, false),
      target_(target),
      source_(source),
      bytes_(bytes),
      errors_(std::move(errors)),
      pace_(pace) {}

CopyTask::CopyTask(void* target, std::vector<std::uint8_t> bytes, int priority,
                   std::shared_ptr<ErrorSink> errors, Pace* pace)
    : Task(Pieces(bytes.size()), 1, priority, false),
      target_(target),
      own_(std::move(bytes)),
      source_(own_.data()),
      bytes_(own_.size()),
      errors_(std::move(errors)),
      pace_(pace) {}

Resident* CopyTask::Start(Worker& worker, std::uint64_t unit) {
  const std::size_t begin = unit * kPieceBytes;
  CopyPiece piece{Offset(target_, begin), static_cast<const std::uint8_t*>(source_) + begin,
                  std::min(kPieceBytes, bytes_ - begin)};
  const auto done =
      pace_ == nullptr ? std::chrono::steady_clock::time_point() : pace_->Reserve(piece.bytes);
  if (!worker.RunGuarded(&CopyMain, &piece)) {
    RaiseFault(worker.guard().fault(), "copy", *errors_);
  }
  if (pace_ != nullptr) std::this_thread::sleep_until(done);
  return nullptr;
}

// One row is divided into pieces; several rows into pieces of whole rows.
FillTask::FillTask(const Fill& fill, int priority, std::shared_ptr<ErrorSink> errors)
    : Task(fill.rows == 1 ? Pieces(fill.count * fill.width)
                          : PiecesOfRows(fill.rows, fill.count * fill.width),
           1, priority, false),
      fill_(fill),
      errors_(std::move(errors)) {}

Resident* FillTask::Start(Worker& worker, std::uint64_t unit) {
  Fill piece = fill_;
  const std::size_t row_bytes = fill_.count * fill_.width;
  if (fill_.rows == 1) {
    const std::size_t begin = unit * kPieceBytes;
    piece.target += begin;
    piece.count = std::min(kPieceBytes, row_bytes - begin) / fill_.width;
  } else {
    const std::size_t begin = unit * RowsInPiece(row_bytes);
    piece.target += begin * fill_.pitch;
    piece.rows = std::min(RowsInPiece(row_bytes), fill_.rows - begin);
  }
  if (!worker.RunGuarded(&FillMain, &piece)) RaiseFault(worker.guard().fault(), "fill", *errors_);
  return nullptr;
}

BoxCopyTask::BoxCopyTask(const BoxSide& target, const BoxSide& source, std::size_t width,
                         std::size_t height, std::size_t depth, int priority,
                         std::shared_ptr<ErrorSink> errors, std::shared_ptr<const void> keep)
    : Task(PiecesOfRows(height * depth, width), 1, priority, false),
      target_(target),
      source_(source),
      width_(width),
      height_(height),
      rows_(height * depth),
      errors_(std::move(errors)),
      keep_(std::move(keep)) {}

Resident* BoxCopyTask::Start(Worker& worker, std::uint64_t unit) {
  const std::size_t rows = RowsInPiece(width_);
  BoxPiece piece{&target_, &source_,    width_,
                 height_,  unit * rows, std::min((unit + 1) * rows, rows_)};
  if (!worker.RunGuarded(&BoxMain, &piece)) RaiseFault(worker.guard().fault(), "copy", *errors_);
  return nullptr;
}

}  // namespace cuspan::softgpu
