// The options of the driver's compiler and linker: from a client to the driver, and what the driver
// returns by them.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <vector>

#include "common/status.h"
#include "structs.gen.h"

namespace cuspan::proxy {

// The arrays that the driver takes. It writes into them and into the logs until it is done with
// what they were given to: a link state keeps them to its end. One thread at a time.
class JitArguments {
 public:
  JitArguments() = default;
  // kInvalid for an option whose value is no number, and for more options than a client may send.
  static Result<JitArguments> Of(const JitRequest& request);
  JitArguments(JitArguments&&) = default;  // The arrays stay where they are.
  JitArguments& operator=(JitArguments&&) = default;

  unsigned count() const { return static_cast<unsigned>(names_.size()); }
  CUjit_option* names() { return names_.data(); }
  void** values() { return values_.data(); }

  // What the driver has written so far.
  JitAnswer Answer() const;

 private:
  struct Log {
    std::vector<char> text;       // Zeros where the driver has written nothing. Empty: none wanted.
    std::size_t bytes_value = 0;  // Where its size stands in values_.
  };
  void Add(CUjit_option name, std::uint64_t value);
  void AddLog(Log* log, std::uint32_t room, CUjit_option buffer, CUjit_option bytes);

  std::vector<CUjit_option> names_;
  std::vector<void*> values_;
  std::vector<void*> given_;  // The values before the driver had them.
  Log info_, error_;
};

}  // namespace cuspan::proxy
