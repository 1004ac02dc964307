// `cuspan support`: which functions of the CUDA runtime and the CUDA driver are supported.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "common/status.h"

namespace cuspan {

enum class Support : unsigned char { kYes, kPartly, kNo };

struct SupportEntry {
  const char* name;
  Support support;
  const char* missing;  // Of a function that is supported partly.
};

// By name; made by generate_support.py.
extern const SupportEntry kSupportTable[];
extern const std::size_t kSupportTableSize;

struct SupportOptions {
  std::vector<std::string> names;  // Only these; empty: all.
  bool json = false;
};

// Prints the table. The exit status: 1 when a name is a function of neither.
int ShowSupport(const SupportOptions& options);

}  // namespace cuspan
