// Options of the driver's compiler and linker, from the client to the driver, and the values
// returned in them.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <vector>

#include "common/status.h"
#include "structs.gen.h"

namespace cuspan::proxy {

// Arrays of options in the driver's format. The driver writes into them and into the logs while it
// uses them; a link state does so until its end. Threads: one at a time.
class JitArguments {
 public:
  JitArguments() = default;
  // kInvalid for options without a numeric value, and for more options than allowed.
  static Result<JitArguments> Of(const JitRequest& request);
  JitArguments(JitArguments&&) = default;  // Does not move the arrays.
  JitArguments& operator=(JitArguments&&) = default;

  unsigned count() const { return static_cast<unsigned>(names_.size()); }
  CUjit_option* names() { return names_.data(); }
  void** values() { return values_.data(); }

  // Returns the values and logs written by the driver so far.
  JitAnswer Answer() const;

 private:
  struct Log {
    std::vector<char> text;       // Unwritten bytes are 0. Empty: no log requested.
    std::size_t bytes_value = 0;  // Index of its size in values_.
  };
  void Add(CUjit_option name, std::uint64_t value);
  void AddLog(Log* log, std::uint32_t room, CUjit_option buffer, CUjit_option bytes);

  std::vector<CUjit_option> names_;
  std::vector<void*> values_;
  std::vector<void*> given_;  // Original values, before driver calls.
  Log info_, error_;
};

}  // namespace cuspan::proxy
