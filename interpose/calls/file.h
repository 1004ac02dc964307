// Meaning of calls about files on the GPU's node, for all faces.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "protocol/api/file_status.h"
#include "store/layout/run_functions.h"

namespace cuspan {

// Result of a call about files.
struct [[nodiscard]] FileCallResult {
  FileResult result = FileResult::kSuccess;
  int error = 0;        // An errno or a CUresult: see FileResult.
  std::string problem;  // Description with the next step; empty after success.
};

// Opens the program's file for a device, by a descriptor. *file: a handle.
FileCallResult OpenProgramFile(int fd, int device, std::uint64_t* file);
// The same by its path. If the device is on another node, and the run has a --file-root for the
// path, it is a file of that node. `access`: bits of FileAccess.
FileCallResult OpenNamedFile(const char* path, std::uint32_t access, int device,
                             std::uint64_t* file);
FileCallResult CloseFile(std::uint64_t file);

// Functions for arrays (cuspan/store.h): the size of a file; its bytes at an offset, fewer at its
// end; and page-locked memory of the GPU's node with all of it, until it is closed.
FileCallResult SizeOfFile(std::uint64_t file, std::uint64_t* bytes);
FileCallResult PeekFile(std::uint64_t file, std::uint64_t offset, std::span<std::byte> to,
                        std::size_t* got);
struct HeldFile {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  bool copied = false;
};
FileCallResult HoldFile(std::uint64_t file, HeldFile* held);
// Serves its lines to kernels, until it is closed. kNotSupported: the GPU's node has not the file.
FileCallResult ServeFile(std::uint64_t file, const store::WantedService& wanted,
                         store::ServedPlaces* places);
FileCallResult CountServed(std::uint64_t file, store::ServedCounts* counts);
// kInvalidFile if it has changed since the last SizeOfFile, here or on the GPU's node.
FileCallResult CheckFile(std::uint64_t file);

// A read or write as named by the program.
struct FileCall {
  std::uint64_t file = 0;
  const void* memory = nullptr;  // Device memory of the file's device.
  std::size_t bytes = 0;
  std::int64_t offset = 0;
  CUstream stream = nullptr;
  FileStatus* status = nullptr;  // Gets the outcome in stream order.
};
FileCallResult ReadFile(const FileCall& call);
FileCallResult WriteFile(const FileCall& call);

}  // namespace cuspan
