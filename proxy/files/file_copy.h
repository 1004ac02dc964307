// A copy between a file and the device.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "protocol/api/file_status.h"
#include "proxy/bulk/transfers.h"
#include "proxy/files/file_table.h"
#include "proxy/streams/roles.h"

namespace cuspan::proxy {

struct FileCopy {
  enum class Way { kRead, kWrite };  // From the file to the device, and back.

  FileCopy(Way way, std::shared_ptr<OpenFile> file, std::uint64_t number,
           std::shared_ptr<Stream> stream, std::uint64_t address, std::uint64_t offset,
           std::uint64_t bytes, std::shared_ptr<Transfer> by_client, bool may_use_counterpart,
           std::shared_ptr<TransferState> status)
      : way(way),
        file(std::move(file)),
        number(number),
        stream(std::move(stream)),
        address(address),
        offset(offset),
        bytes(bytes),
        by_client(std::move(by_client)),
        may_use_counterpart(may_use_counterpart),
        status(std::move(status)) {}

  const Way way;
  const std::shared_ptr<OpenFile> file;
  const std::uint64_t number;  // The file's.
  const std::shared_ptr<Stream> stream;
  const std::uint64_t address;
  const std::uint64_t offset;
  const std::uint64_t bytes;
  // Null if this process has the file, or without bytes.
  const std::shared_ptr<Transfer> by_client;
  const bool may_use_counterpart;  // If the file has a proven one.
  const std::shared_ptr<TransferState> status;

  // Bytes given to file threads or to the device so far, and pieces of them under way.
  std::uint64_t begun CUSPAN_GUARDED_BY(receiving_thread) = 0;
  std::uint64_t pieces CUSPAN_GUARDED_BY(receiving_thread) = 0;
  // Bytes until the first one not copied, and the reason: an errno or the driver's result.
  std::uint64_t end CUSPAN_GUARDED_BY(receiving_thread) = bytes;
  int error CUSPAN_GUARDED_BY(receiving_thread) = 0;
  CUresult result CUSPAN_GUARDED_BY(receiving_thread) = CUDA_SUCCESS;
  // Read in place of the client's file; null if the copy is not, or not any more.
  std::shared_ptr<Counterpart> counterpart CUSPAN_GUARDED_BY(receiving_thread);
  // The client has been asked to do its part.
  bool client_asked CUSPAN_GUARDED_BY(receiving_thread) = false;
  bool over CUSPAN_GUARDED_BY(receiving_thread) =
      false;  // Its outcome was sent, or it was dropped.
  // The client's part has ended; its last chunks may arrive later.
  std::optional<FileDone> client_done CUSPAN_GUARDED_BY(receiving_thread);
  // Set if the copy must not begin: its outcome.
  std::optional<FileStatus> refusal CUSPAN_GUARDED_BY(receiving_thread);

  FileStatus outcome() const CUSPAN_REQUIRES(receiving_thread) {
    if (result == CUDA_SUCCESS) return FileStatus::System(end, error);
    return {static_cast<std::int64_t>(end), FileResult::kDevice, result};
  }
};

}  // namespace cuspan::proxy
