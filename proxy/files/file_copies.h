// Copies between files and the device, in stream order.
//
// A copy holds its stream, and begins when the device has completed the stream's earlier work: a
// kernel of it may wait for the host, which may write the file first, or wait for another copy. If
// this process has the file, FilePieces does the work. Otherwise the client reads the file and
// sends its bytes, or receives and writes them, as an open-ended transfer (proxy/bulk/transfers.h).
// If the file has a counterpart here, the client allows reading it, and is asked for the bytes only
// if this fails. In all cases the copy's outcome is sent to the client as a chunk, before the
// stream continues.
//
// Threads: the receiving thread, unless noted otherwise.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "common/mutex.h"
#include "protocol/channel/channel.h"
#include "proxy/bulk/transfers.h"
#include "proxy/files/file_copy.h"
#include "proxy/files/file_pieces.h"
#include "proxy/streams/roles.h"

namespace cuspan::proxy {

class FileCopies {
 public:
  // All references outlive it, except for the completer and the timeline: no calls after their end.
  FileCopies(const Driver& driver, Channel& channel, Faults& faults, StreamQueues& queues,
             EventPool& events, Completer& completer, Timeline& timeline, Transfers& transfers,
             std::shared_ptr<TaskThreads> threads);

  FilePieces& pieces() { return pieces_; }

  // Registers a received copy. kInvalid, as a violation of the protocol: a transfer's number is in
  // use.
  Status Announce(const std::shared_ptr<FileCopy>& copy) CUSPAN_REQUIRES(receiving_thread);
  // The copy holds its stream. It begins after Reached with the returned number.
  std::uint64_t Await(std::shared_ptr<FileCopy> copy) CUSPAN_REQUIRES(receiving_thread);
  // The device has completed the work before the copy, or `result` is a failure. Threads: any.
  void Reached(std::uint64_t awaited, CUresult result);
  // The device is lost.
  void Drop(FileCopy& copy) CUSPAN_REQUIRES(receiving_thread);
  // The client has ended its part. kInvalid unless it was asked to.
  Status OnClientDone(const FileDone& done) CUSPAN_REQUIRES(receiving_thread);
  // A chunk of this transfer was received.
  void OnChunk(std::uint64_t transfer) CUSPAN_REQUIRES(receiving_thread);

  // True if copies may continue. Cheap; for Bell::Wait.
  bool MayGoOn() const CUSPAN_REQUIRES(receiving_thread) {
    return reached_count_.load(std::memory_order_acquire) != seen_ || pieces_.MayGoOn();
  }
  void GoOn() CUSPAN_REQUIRES(receiving_thread);

 private:
  using ByClient = std::unordered_map<std::uint64_t, std::shared_ptr<FileCopy>>;

  void Begin(const std::shared_ptr<FileCopy>& copy) CUSPAN_REQUIRES(receiving_thread);
  void BeginByClient(FileCopy& copy) CUSPAN_REQUIRES(receiving_thread);
  // Asks the client for the bytes, unless it allows reading the counterpart.
  void AskClient(FileCopy& copy) CUSPAN_REQUIRES(receiving_thread);
  void BeginCounterpart(std::shared_ptr<FileCopy> copy) CUSPAN_REQUIRES(receiving_thread);
  // The copy and its file have none any more.
  void DropCounterpart(FileCopy& copy, const char* reason) CUSPAN_REQUIRES(receiving_thread);
  // Ends a copy of FilePieces. If the counterpart could not be read, the client does its part.
  void EndOfPieces(FileCopy& copy) CUSPAN_REQUIRES(receiving_thread);
  // Ends a copy that must not begin.
  void Refuse(FileCopy& copy) CUSPAN_REQUIRES(receiving_thread);
  // Ends it if the client has ended its part and all chunks have arrived.
  void EndByClient(ByClient::iterator found) CUSPAN_REQUIRES(receiving_thread);
  // Sends the outcome, and lets the stream continue.
  void End(FileCopy& copy, const FileStatus& status) CUSPAN_REQUIRES(receiving_thread);

  Channel& channel_;
  Faults& faults_;
  StreamQueues& queues_;
  Completer& completer_;
  Transfers& transfers_;
  FilePieces pieces_;
  // Copies by the client, by the number of their transfer.
  ByClient by_client_ CUSPAN_GUARDED_BY(receiving_thread);
  // Completions of a stream must not own a copy: the copy owns the stream.
  std::map<std::uint64_t, std::shared_ptr<FileCopy>> awaited_ CUSPAN_GUARDED_BY(receiving_thread);
  std::uint64_t last_awaited_ CUSPAN_GUARDED_BY(receiving_thread) = 0;
  struct ReachedCopy {
    std::uint64_t awaited;
    CUresult result;
  };
  Mutex mutex_;
  std::vector<ReachedCopy> reached_ CUSPAN_GUARDED_BY(mutex_);
  std::atomic<std::uint64_t> reached_count_ = 0;  // Counts calls of Reached.
  std::uint64_t seen_ CUSPAN_GUARDED_BY(receiving_thread) = 0;
};

}  // namespace cuspan::proxy
