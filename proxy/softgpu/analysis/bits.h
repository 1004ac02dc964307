// Set of small numbers: registers, or positions in a schedule.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace cuspan::softgpu::analysis {

class Bits {
 public:
  Bits() = default;
  explicit Bits(std::size_t size) : words_((size + 63) / 64, 0) {}

  bool Has(std::size_t i) const { return (words_[i / 64] >> (i % 64) & 1) != 0; }
  void Add(std::size_t i) { words_[i / 64] |= std::uint64_t{1} << (i % 64); }
  void Remove(std::size_t i) { words_[i / 64] &= ~(std::uint64_t{1} << (i % 64)); }
  bool empty() const {
    for (auto word : words_)
      if (word != 0) return false;
    return true;
  }

  // Adds the elements >= `least` of `other`; returns true if the set changed.
  bool AddAll(const Bits& other, std::size_t least = 0) {
    bool changed = false;
    for (std::size_t w = least / 64; w < words_.size(); ++w) {
      std::uint64_t more = other.words_[w];
      if (w == least / 64) more &= ~std::uint64_t{0} << (least % 64);
      changed = changed || (more & ~words_[w]) != 0;
      words_[w] |= more;
    }
    return changed;
  }
  void RemoveAll(const Bits& other) {
    for (std::size_t w = 0; w < words_.size(); ++w) words_[w] &= ~other.words_[w];
  }
  void KeepOnly(const Bits& other) {
    for (std::size_t w = 0; w < words_.size(); ++w) words_[w] &= other.words_[w];
  }
  void Clear() { words_.assign(words_.size(), 0); }
  void AddEverything() { words_.assign(words_.size(), ~std::uint64_t{0}); }

  // Calls `visit(i)` for each element, smallest first.
  template <typename Visit>
  void ForEach(Visit visit) const {
    for (std::size_t w = 0; w < words_.size(); ++w)
      for (std::uint64_t rest = words_[w]; rest != 0; rest &= rest - 1)
        visit(static_cast<std::uint32_t>(w * 64 + static_cast<unsigned>(std::countr_zero(rest))));
  }

  friend bool operator==(const Bits&, const Bits&) = default;

 private:
  std::vector<std::uint64_t> words_;
};

}  // namespace cuspan::softgpu::analysis
