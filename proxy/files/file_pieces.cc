#include "proxy/files/file_pieces.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "common/log.h"
#include "common/trace.h"

namespace cuspan::proxy {
namespace {

// Up to this size, the receiving thread itself looks into the page cache: waking a file thread and
// being woken takes longer.
constexpr std::uint64_t kMaxCached = 64 * 1024;

}  // namespace

bool FilePieces::Prepare() {
  if (const Status started = threads_->Start(); !started.ok()) {
    LogInfo("files are read by the program's node: {}", started.message());
    return false;
  }
  return buffers_.Allocate(driver_);
}

bool FilePieces::Begin(const std::shared_ptr<FileCopy>& copy) {
  if (BeginCached(*copy)) return true;
  waiting_.push_back(copy);
  UseFreeBuffers();
  return false;
}

bool FilePieces::BeginCached(FileCopy& copy) {
  // Asking for the state of a counterpart may block.
  if (copy.way != FileCopy::Way::kRead || copy.counterpart != nullptr || copy.bytes > kMaxCached ||
      !waiting_.empty())
    return false;
  std::byte* const buffer = buffers_.Acquire();
  if (buffer == nullptr) return false;
  if (!copy.file->own->ReadCached({buffer, copy.bytes}, copy.offset)) {
    buffers_.Return(buffer);
    return false;
  }
  copy.begun = copy.bytes;
  if ((copy.result = ToDevice(copy, 0, copy.bytes, buffer)) != CUDA_SUCCESS) copy.end = 0;
  return true;
}

void FilePieces::UseFreeBuffers() {
  while (!waiting_.empty()) {
    // It may have ended early, or been dropped.
    if (waiting_.front()->begun >= waiting_.front()->end) {
      waiting_.pop_front();
      continue;
    }
    std::byte* buffer = buffers_.Acquire();
    if (buffer == nullptr) {
      // Looks once more after the announcement: one may have come back before it.
      wants_buffers_.store(true);
      buffer = buffers_.Acquire();
      if (buffer == nullptr) return;
    }
    const std::shared_ptr<FileCopy> copy = std::move(waiting_.front());
    waiting_.pop_front();
    BeginPiece(copy, buffer);
    waiting_.push_back(copy);
  }
  wants_buffers_.store(false);
}

void FilePieces::BeginPiece(const std::shared_ptr<FileCopy>& copy, std::byte* buffer) {
  Piece piece{copy, copy->counterpart, copy->begun, 0, buffer, {}, CUDA_SUCCESS};
  // Pieces end at multiples of the buffers' size in the file: only the first and last parts of
  // files without page cache may need alignment.
  const std::uint64_t to_boundary =
      FileBuffers::kBytes - (copy->offset + piece.offset) % FileBuffers::kBytes;
  piece.bytes = std::min(to_boundary, copy->end - piece.offset);
  copy->begun += piece.bytes;
  ++copy->pieces;
  if (copy->way == FileCopy::Way::kRead) return RunPiece(std::move(piece));
  const auto count = static_cast<std::uint32_t>(piece.bytes);
  const std::uint64_t offset = piece.offset;
  {
    const MutexLock lock(mutex_);
    leaving_.emplace(buffer, std::move(piece));
  }
  const CUresult result = staged_.FromDevice(
      RunAt(copy->address, copy->bytes), {copy->status->id, offset, count, TraceKind::kFromDevice},
      buffer, *copy->stream,
      [this, buffer](CUresult reached, std::uint64_t) { Left(buffer, reached); });
  if (result != CUDA_SUCCESS) Left(buffer, faults_.Check(result));
}

void FilePieces::Left(std::byte* buffer, CUresult result) {
  Piece piece;
  {
    const MutexLock lock(mutex_);
    piece = std::move(leaving_.extract(buffer).mapped());
  }
  if (result == CUDA_SUCCESS) return RunPiece(std::move(piece));
  piece.result = result;
  Hand(std::move(piece));
}

void FilePieces::RunPiece(Piece piece) {
  threads_->Run([this, piece = std::move(piece)]() mutable {
    const FileBytes& file =
        piece.counterpart != nullptr ? piece.counterpart->bytes() : *piece.copy->file->own;
    const std::uint64_t at = piece.copy->offset + piece.offset;
    const bool reads = piece.copy->way == FileCopy::Way::kRead;
    const TraceSpan span;
    piece.outcome = reads ? file.Read({piece.buffer, piece.bytes}, at)
                          : file.Write({piece.buffer, piece.bytes}, at);
    // Later changes do not matter to this piece.
    if (piece.counterpart != nullptr && !piece.counterpart->Unchanged())
      piece.outcome = {0, ESTALE};
    span.Done(reads ? TraceKind::kFileRead : TraceKind::kFileWrite, 0, piece.copy->status->id,
              piece.offset, piece.outcome.bytes);
    Hand(std::move(piece));
  });
}

void FilePieces::Hand(Piece piece) {
  {
    const MutexLock lock(mutex_);
    ended_.push_back(std::move(piece));
  }
  Wake();
}

void FilePieces::ReturnBuffer(std::byte* buffer) {
  buffers_.Return(buffer);
  if (wants_buffers_.load()) Wake();
}

void FilePieces::Wake() {
  work_.fetch_add(1, std::memory_order_release);
  bell_.Ring();
}

std::vector<std::shared_ptr<FileCopy>> FilePieces::GoOn() {
  seen_ = work_.load(std::memory_order_acquire);
  std::vector<Piece> pieces;
  {
    const MutexLock lock(mutex_);
    pieces.swap(ended_);
  }
  std::vector<std::shared_ptr<FileCopy>> ended;
  for (const Piece& piece : pieces) {
    EndPiece(piece);
    const FileCopy& copy = *piece.copy;
    if (!copy.over && copy.pieces == 0 && copy.begun >= copy.end) ended.push_back(piece.copy);
  }
  UseFreeBuffers();
  return ended;
}

void FilePieces::EndPiece(const Piece& piece) {
  FileCopy& copy = *piece.copy;
  --copy.pieces;
  CUresult result = piece.result;
  if (copy.way == FileCopy::Way::kRead && piece.outcome.bytes != 0 && !copy.over)
    result = ToDevice(copy, piece.offset, piece.outcome.bytes, piece.buffer);
  else
    buffers_.Return(piece.buffer);
  const std::uint64_t done = result == CUDA_SUCCESS ? piece.outcome.bytes : 0;
  if (done < piece.bytes && piece.offset + done < copy.end) {
    copy.end = piece.offset + done;
    copy.error = piece.outcome.error;
    copy.result = result;
  }
}

CUresult FilePieces::ToDevice(const FileCopy& copy, std::uint64_t offset, std::uint64_t bytes,
                              std::byte* buffer) {
  const CUresult result = staged_.ToDevice(
      RunAt(copy.address, copy.bytes),
      {copy.status->id, offset, static_cast<std::uint32_t>(bytes), TraceKind::kToDevice}, buffer,
      *copy.stream, [this, buffer](CUresult, std::uint64_t) { ReturnBuffer(buffer); });
  if (result != CUDA_SUCCESS) buffers_.Return(buffer);
  return faults_.Check(result);
}

}  // namespace cuspan::proxy
