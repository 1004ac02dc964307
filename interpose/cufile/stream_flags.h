// Streams registered with cuFile, and the threads of operations in streams.
#pragma once

#include <cuda.h>

#include <unordered_map>

#include "common/mutex.h"
#include "interpose/client/files.h"

namespace cuspan::cufile {

// Threads: any. A table of the session.
class StreamFlagTable {
 public:
  // The stream's flags (StreamFlags); 0 if it is not registered. A destroyed stream keeps its
  // entry: its handle is never used again.
  unsigned Of(CUstream stream) const;
  // False if it is registered already.
  bool Add(CUstream stream, unsigned flags);
  // False if it is not registered.
  bool Remove(CUstream stream);

  // Starts both threads at the first call. False if the system allows no further thread.
  bool Start() { return arguments_.Start() && host_bytes_.Start(); }
  // Reads and writes variables of the program, in pages that may have to be fetched first. Its
  // tasks must not wait for anything else.
  FileThread& arguments() { return arguments_; }
  // Reads and writes files for memory of the program.
  FileThread& host_bytes() { return host_bytes_; }

 private:
  mutable Mutex mutex_;
  std::unordered_map<CUstream, unsigned> flags_ CUSPAN_GUARDED_BY(mutex_);
  FileThread arguments_;
  FileThread host_bytes_;
};

}  // namespace cuspan::cufile
