// Where the functions of a file begin and end, told by the tables that stacks are unwound with
// (.eh_frame_hdr and .eh_frame; Linux Standard Base, Core 5.0, 10.6). These are loaded with the
// code, so a stripped file has them, too.
//
// Plain values on an ElfImage, every offset checked: no allocation, no C library (see elf_image.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "interpose/load/elf_image.h"

namespace cuspan::load {

class UnwindTable {
 public:
  // False when `image`, which must outlive this, has no such tables or none of a usual form.
  bool Parse(const ElfImage& image);

  // Functions are numbered by ascending address.
  std::size_t count() const { return count_; }
  // Where function `index`, which must be below count(), begins.
  std::uint64_t Start(std::size_t index) const;
  // Its size in bytes; 0 when it can not be told.
  std::uint64_t Size(std::size_t index) const;
  // Its code in the file; empty when it can not be told or lies outside.
  Bytes Code(std::size_t index) const;
  // The last function that begins at or before `address`, or kNowhere.
  std::size_t LastUpTo(std::uint64_t address) const;
  // The function that begins there, or kNowhere.
  std::size_t At(std::uint64_t address) const;

 private:
  const ElfImage* image_ = nullptr;
  std::uint64_t base_ = 0;  // What the rows count from.
  Bytes rows_;
  std::size_t count_ = 0;
};

}  // namespace cuspan::load
