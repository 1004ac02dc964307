// A set of a block's units, one bit each: threads, with a word for each warp, or warps, all in the
// first word. Adding and removing take a few instructions for any size.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace cuspan::softgpu {

class UnitSet {
 public:
  bool empty() const { return used_ == 0; }
  bool Has(std::uint32_t unit) const { return (words_[unit / 32] >> unit % 32 & 1) != 0; }
  std::uint32_t word(std::uint32_t index) const { return words_[index]; }

  void Add(std::uint32_t unit) { AddWord(unit / 32, 1u << unit % 32); }
  // Adds unit 32·index + i for each set bit i of `units`, a value other than 0.
  void AddWord(std::uint32_t index, std::uint32_t units) {
    words_[index] |= units;
    used_ |= 1u << index;
  }
  void AddAll(const UnitSet& other) {
    other.ForEachWord([this](std::uint32_t index, std::uint32_t units) { AddWord(index, units); });
  }

  // Removes and returns one, from word `near` if possible. The set must not be empty.
  std::uint32_t Acquire(std::uint32_t near) {
    if (words_[near] == 0) near = static_cast<std::uint32_t>(std::countr_zero(used_));
    const std::uint32_t units = words_[near];
    words_[near] = units & (units - 1);
    if (words_[near] == 0) used_ &= ~(1u << near);
    return near * 32 + static_cast<std::uint32_t>(std::countr_zero(units));
  }

  // Removes and returns one chosen by `random`. The set must not be empty.
  std::uint32_t AcquireAny(std::uint32_t random) {
    const auto choose = [](std::uint32_t bits, std::uint32_t which) {
      for (which %= static_cast<std::uint32_t>(std::popcount(bits)); which != 0; --which)
        bits &= bits - 1;
      return static_cast<std::uint32_t>(std::countr_zero(bits));
    };
    const std::uint32_t index = choose(used_, random & 0xffff);
    const std::uint32_t bit = choose(words_[index], random >> 16);
    words_[index] &= ~(1u << bit);
    if (words_[index] == 0) used_ &= ~(1u << index);
    return index * 32 + bit;
  }

  void Clear() {
    for (; used_ != 0; used_ &= used_ - 1)
      words_[static_cast<unsigned>(std::countr_zero(used_))] = 0;
  }

  // Calls `visit(index, units)` for each nonzero word.
  template <typename Visit>
  void ForEachWord(Visit visit) const {
    for (std::uint32_t left = used_; left != 0; left &= left - 1) {
      const auto index = static_cast<std::uint32_t>(std::countr_zero(left));
      visit(index, words_[index]);
    }
  }
  // Calls `visit(unit)` for each unit.
  template <typename Visit>
  void ForEach(Visit visit) const {
    ForEachWord([&](std::uint32_t index, std::uint32_t units) {
      for (; units != 0; units &= units - 1)
        visit(index * 32 + static_cast<std::uint32_t>(std::countr_zero(units)));
    });
  }

 private:
  std::uint32_t used_ = 0;  // Nonzero words, one bit each.
  std::array<std::uint32_t, 32> words_{};
};

}  // namespace cuspan::softgpu
