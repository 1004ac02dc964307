// Copies between the device and files of this process, in pieces: its own files, or counterparts of
// the client's. File threads read them into page-locked buffers, and the receiving thread submits
// their copies to the device. Writes take the same way back. Pieces of several copies alternate.
//
// Threads: the receiving thread, unless noted otherwise.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "common/file_bytes.h"
#include "common/mutex.h"
#include "common/task_threads.h"
#include "protocol/channel/bell.h"
#include "proxy/bulk/staged_copies.h"
#include "proxy/files/file_buffers.h"
#include "proxy/files/file_copy.h"
#include "proxy/streams/faults.h"
#include "proxy/streams/roles.h"

namespace cuspan::proxy {

class FilePieces {
 public:
  // All references outlive it, except for the completer and the timeline: no calls after their end.
  // `bell` wakes the receiving thread.
  FilePieces(const Driver& driver, Bell& bell, Faults& faults, EventPool& events,
             Completer& completer, Timeline& timeline, std::shared_ptr<TaskThreads> threads)
      : driver_(driver),
        bell_(bell),
        faults_(faults),
        staged_(driver, events, completer, timeline),
        threads_(std::move(threads)) {}

  TaskThreads& threads() { return *threads_; }

  // Makes buffers and threads at the first call. False if they can not be had. Threads: one at a
  // time, with the device's context; it may take milliseconds.
  bool Prepare();

  // Begins a copy. True if it has ended already: the page cache had a small one.
  bool Begin(const std::shared_ptr<FileCopy>& copy) CUSPAN_REQUIRES(receiving_thread);
  // True if copies may continue. Cheap; for Bell::Wait.
  bool MayGoOn() const CUSPAN_REQUIRES(receiving_thread) {
    return work_.load(std::memory_order_acquire) != seen_;
  }
  // Continues them. Returns those that have ended: all their work is submitted to the device.
  std::vector<std::shared_ptr<FileCopy>> GoOn() CUSPAN_REQUIRES(receiving_thread);

 private:
  // Part of a copy, in a buffer.
  struct Piece {
    std::shared_ptr<FileCopy> copy;
    std::shared_ptr<Counterpart> counterpart;  // The copy's.
    std::uint64_t offset = 0;                  // Offset in the copy.
    std::uint64_t bytes = 0;
    std::byte* buffer = nullptr;
    FileOutcome outcome;
    CUresult result = CUDA_SUCCESS;
  };

  bool BeginCached(FileCopy& copy) CUSPAN_REQUIRES(receiving_thread);
  // Gives free buffers to the copies under way, by turns.
  void UseFreeBuffers() CUSPAN_REQUIRES(receiving_thread);
  // Begins the copy's next piece in `buffer`.
  void BeginPiece(const std::shared_ptr<FileCopy>& copy, std::byte* buffer)
      CUSPAN_REQUIRES(receiving_thread);
  // A piece has been read, or written, or has failed.
  void EndPiece(const Piece& piece) CUSPAN_REQUIRES(receiving_thread);
  // Copies bytes of a buffer to the device, and returns the buffer then.
  CUresult ToDevice(const FileCopy& copy, std::uint64_t offset, std::uint64_t bytes,
                    std::byte* buffer) CUSPAN_REQUIRES(receiving_thread);

  // --- Threads: any

  // The device has filled the buffer, or failed.
  void Left(std::byte* buffer, CUresult result);
  // Runs the piece's system calls on a file thread.
  void RunPiece(Piece piece);
  // Gives an ended piece to the receiving thread.
  void Hand(Piece piece);
  void ReturnBuffer(std::byte* buffer);
  void Wake();

  const Driver& driver_;
  Bell& bell_;
  Faults& faults_;
  StagedCopies staged_;
  FileBuffers buffers_;
  // Copies with bytes that are not begun, in the order of their turns.
  std::deque<std::shared_ptr<FileCopy>> waiting_ CUSPAN_GUARDED_BY(receiving_thread);
  std::atomic<bool> wants_buffers_ = false;
  std::atomic<std::uint64_t> work_ = 0;  // Counts reasons to go on.
  std::uint64_t seen_ CUSPAN_GUARDED_BY(receiving_thread) = 0;
  Mutex mutex_;
  std::vector<Piece> ended_ CUSPAN_GUARDED_BY(mutex_);
  // Pieces of writes on their way from the device, by buffer. Completions of a stream must not own
  // a copy: the copy owns the stream.
  std::unordered_map<std::byte*, Piece> leaving_ CUSPAN_GUARDED_BY(mutex_);
  const std::shared_ptr<TaskThreads> threads_;
};

}  // namespace cuspan::proxy
