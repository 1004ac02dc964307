// Start and end of a file's functions, from the tables for stack unwinding (.eh_frame_hdr and
// .eh_frame; Linux Standard Base, Core 5.0, 10.6). These are loaded with the code, so stripped
// files have them, too.
//
// Plain values on an ElfImage, with every offset checked. No allocation, no C library (see
// elf_image.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "interpose/load/elf_image.h"

namespace cuspan::load {

class UnwindTable {
 public:
  // False if `image` has no tables of this kind, or none in a usual format. `image` must outlive
  // this object.
  bool Parse(const ElfImage& image);

  // Functions are numbered by ascending address.
  std::size_t count() const { return count_; }
  // Start of function `index`, below count().
  std::uint64_t Start(std::size_t index) const;
  // Its size in bytes. 0 if unknown.
  std::uint64_t Size(std::size_t index) const;
  // Its code in the file. Empty if it is unknown or outside the file.
  Bytes Code(std::size_t index) const;
  // Last function beginning at or before `address`, or kNowhere.
  std::size_t LastUpTo(std::uint64_t address) const;
  // Function beginning at `address`, or kNowhere.
  std::size_t At(std::uint64_t address) const;

 private:
  const ElfImage* image_ = nullptr;
  std::uint64_t base_ = 0;  // Base of the addresses in rows.
  Bytes rows_;
  std::size_t count_ = 0;
};

}  // namespace cuspan::load
