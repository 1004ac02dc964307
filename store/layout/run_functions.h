// Functions of libcuspan.so for libcuspan-store.so.0 in a run: files of the GPUs' nodes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "include/cuspan/file.h"

namespace cuspan::store {

// Bytes of a file in memory of the GPU's node, page-locked.
struct ResidentBytes {
  std::uint64_t address = 0;  // Address in kernels; aligned to pages.
  std::uint64_t bytes = 0;    // Readable up to the next multiple of 16.
  bool copied = false;        // A copy; otherwise the file's own pages.
};

// An array whose lines are read when kernels ask for them.
struct WantedService {
  std::uint64_t mailbox = 0;          // Number of the mailbox, made at its first use.
  std::uint32_t multiprocessors = 0;  // Those of the device.
  std::uint32_t line_shift = 0;       // Lines have 2^line_shift bytes.
  std::uint32_t array = 0;            // Number of the array there.
};
// Addresses in kernels of the mailbox's parts; their sizes are those of PlanMailbox.
struct ServedPlaces {
  std::uint64_t asked = 0;
  std::uint64_t answered = 0;
  std::uint64_t places = 0;
};
struct ServedCounts {
  std::uint64_t reads = 0;     // Lines answered with bytes.
  std::uint64_t bytes = 0;     // Bytes of the file read for them.
  std::uint64_t resident = 0;  // Bytes of the file that are page-locked.
  bool copied = false;         // These are a copy.
};

// All functions return one of CUSPAN_FILE_…; cuspanFileLastMessage explains it. Threads: any.
struct RunFunctions {
  decltype(&::cuspanFileOpenFd) open_fd = nullptr;
  decltype(&::cuspanFileOpen) open = nullptr;
  decltype(&::cuspanFileRead) read = nullptr;
  decltype(&::cuspanFileWrite) write = nullptr;
  decltype(&::cuspanFileClose) close = nullptr;
  decltype(&::cuspanFileLastMessage) last_message = nullptr;

  // Size of an open file.
  int (*size)(cuspanFile_t file, std::uint64_t* bytes) = nullptr;
  // Copies bytes at `offset` into the program's memory; fewer at the end of the file.
  int (*peek)(cuspanFile_t file, std::uint64_t offset, void* to, std::size_t bytes,
              std::size_t* got) = nullptr;
  // Page-locks the file's bytes on the GPU's node until the file is closed. NOT_SUPPORTED: that
  // node has not the file.
  int (*hold)(cuspanFile_t file, ResidentBytes* resident) = nullptr;
  // Serves the file's lines to kernels until it is closed. NOT_SUPPORTED: the GPU's node has not
  // the file.
  int (*serve)(cuspanFile_t file, const WantedService* wanted, ServedPlaces* places) = nullptr;
  int (*count_served)(cuspanFile_t file, ServedCounts* counts) = nullptr;
  // INVALID_FILE: the file has changed since it was opened.
  int (*check)(cuspanFile_t file) = nullptr;
};

// Name of the function of libcuspan.so that returns a `const RunFunctions*`.
inline constexpr const char* kRunFunctions = "cuspan_store_run_functions_1";

}  // namespace cuspan::store
