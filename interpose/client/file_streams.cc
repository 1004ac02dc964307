#include "interpose/client/file_streams.h"

#include <algorithm>

#include "interpose/client/base/handles.h"

namespace cuspan {

CUresult FileStreams::Take(ContextConnection& connection, std::uint64_t* stream) {
  {
    const MutexLock lock(mutex_);
    if (const auto known = streams_.find(connection.number()); known != streams_.end()) {
      std::vector<Stream>& streams = known->second;
      const auto chosen = std::min_element(
          streams.begin(), streams.end(),
          [](const Stream& one, const Stream& other) { return one.operations < other.operations; });
      if (chosen->operations == 0 || streams.size() >= kMaxStreams) {
        ++chosen->operations;
        *stream = chosen->handle;
        return CUDA_SUCCESS;
      }
    }
  }
  // A post may wait for the receiving thread, and that one for the mutex.
  StreamCreate create;
  create.stream = NextHandle();
  create.flags = CU_STREAM_NON_BLOCKING;
  if (const CUresult result = connection.Post(create); result != CUDA_SUCCESS) return result;
  const MutexLock lock(mutex_);
  // After the context's end, Forget may be over.
  if (const CUresult ended = connection.fault(); ended != CUDA_SUCCESS) {
    streams_.erase(connection.number());
    return ended;
  }
  streams_[connection.number()].push_back({create.stream, 1});
  *stream = create.stream;
  return CUDA_SUCCESS;
}

void FileStreams::Return(std::uint64_t connection, std::uint64_t stream) {
  const MutexLock lock(mutex_);
  const auto known = streams_.find(connection);
  if (known == streams_.end()) return;
  for (Stream& one : known->second)
    if (one.handle == stream) --one.operations;
}

void FileStreams::Forget(const ContextConnection& ended) {
  const MutexLock lock(mutex_);
  streams_.erase(ended.number());
}

}  // namespace cuspan
