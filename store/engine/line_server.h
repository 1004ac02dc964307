// Threads that answer the requests of kernels for lines of files.
//
// A serving thread has a part of each mailbox's queues, and reads the lines (LineReads). It never
// calls the driver: a kernel that waits for a read must not wait for it.
//
// Without requests the threads sleep, except for the first one: it looks at all queues now and
// then, and wakes the others. It looks often after a request or a call of KernelsMayAsk, and seldom
// after a longer silence.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "common/mutex.h"
#include "common/status.h"
#include "common/task_threads.h"
#include "store/engine/extent_thread.h"
#include "store/engine/line_reads.h"
#include "store/engine/mailbox.h"
#include "store/engine/served_file.h"

namespace cuspan::store {

// Number of serving threads: CUSPAN_STORE_THREADS, or half of the cores, at most 8.
unsigned ServingThreadCount();

// Threads: any.
class LineServer {
 public:
  // At most `threads` serve. `longest_nap`: between two looks at silent queues.
  LineServer(unsigned threads, std::chrono::microseconds longest_nap);
  // Ends the threads; reads under way end before. Kernels that ask then wait for ever.
  ~LineServer();
  LineServer(const LineServer&) = delete;

  // Serves the requests of a mailbox for an array of this number. Both stay until Remove. The
  // threads start at the first call. kInvalid: the number is in use; kExhausted: the system allows
  // no threads.
  Status Add(Mailbox& mailbox, std::uint16_t array, ServedFile& file);
  // Returns once no thread uses the file, nor, with its last array, the mailbox. Waits for reads
  // under way.
  void Remove(Mailbox& mailbox, std::uint16_t array);

  // True while an array is served: kernels may wait for it.
  bool serves() const { return serves_.load(std::memory_order_relaxed); }
  // Kernels are launched: they may ask soon. Cheap.
  void KernelsMayAsk() {
    if (!serves()) return;
    called_.store(true);
    if (naps_.load()) EndNap();
  }

 private:
  // A mailbox to be served, with its files by array; null: none.
  struct Served {
    Mailbox* mailbox = nullptr;
    std::vector<ServedFile*> files;
  };
  using Table = std::vector<Served>;

  Status Start() CUSPAN_REQUIRES(mutex_);
  // Returns once all threads have the new table.
  void Publish(MutexLock& lock) CUSPAN_REQUIRES(mutex_);
  // Takes the table for a thread, which then uses nothing of the old one.
  std::uint64_t TakeTable(unsigned index, LineReads& reads, Table* table);

  void Loop(unsigned index);
  static std::vector<ServedFile*> FilesIn(const Table& table);
  std::unique_ptr<LineReads> MakeReads();
  bool Owns(unsigned index, std::uint32_t queue) const { return queue % running_ == index; }
  // Serves the thread's queues once. True if there was a request.
  bool ServeQueues(unsigned index, const Table& table, LineReads& reads);
  void Serve(const Served& served, const Mailbox::Request& request, LineReads& reads);
  // True if a queue of another thread than the first has a request.
  bool OthersAreAsked(const Table& table) const;
  void WakeOthers();
  // Sleeps until WakeOthers, a new table or the end.
  void Sleep(std::uint64_t version, std::uint64_t woken);
  // The first thread's pause. A long one ends with KernelsMayAsk, a new table or the end.
  void Nap(std::chrono::nanoseconds time, std::uint64_t version);
  void EndNap();

  const unsigned count_;
  const std::chrono::microseconds longest_nap_;
  TaskThreads readers_;  // Without io_uring.
  ExtentThread extents_;
  Mutex mutex_;
  std::condition_variable changed_;    // A new table, woken_, the end.
  std::condition_variable seen_;       // A thread has the new table.
  std::condition_variable nap_ended_;  // The first thread's.
  Table table_ CUSPAN_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_ CUSPAN_GUARDED_BY(mutex_);
  std::vector<std::uint64_t> versions_ CUSPAN_GUARDED_BY(mutex_);  // The threads' tables.
  std::atomic<unsigned> running_ = 0;                              // Threads.
  std::atomic<std::uint64_t> version_ = 0;                         // The version of table_.
  std::atomic<std::uint64_t> woken_ = 0;                           // Calls of WakeOthers.
  std::atomic<unsigned> sleepers_ = 0;
  std::atomic<bool> serves_ = false;
  std::atomic<bool> naps_ = false;    // The first thread, for long.
  std::atomic<bool> called_ = false;  // KernelsMayAsk, since the last look.
  std::atomic<bool> ending_ = false;
};

}  // namespace cuspan::store
