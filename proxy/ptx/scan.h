// Fast search for a few characters, 16 bytes at a time. Modules of tens of megabytes are indexed
// when they are loaded.
#pragma once

#include <emmintrin.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace cuspan::ptx {

// Returns all ones for each byte equal to `c`, zero for others.
inline __m128i Equal(__m128i text, char c) { return _mm_cmpeq_epi8(text, _mm_set1_epi8(c)); }

inline __m128i Load16(const char* text) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(text));
}

// Returns the offset of the first of { } " / in text[begin, end), or `end`.
inline std::size_t FindBraceOrQuote(std::string_view text, std::size_t begin, std::size_t end) {
  std::size_t i = begin;
  for (; i + 16 <= end; i += 16) {
    const __m128i block = Load16(text.data() + i);
    const __m128i hits = _mm_or_si128(_mm_or_si128(Equal(block, '{'), Equal(block, '}')),
                                      _mm_or_si128(Equal(block, '"'), Equal(block, '/')));
    const auto mask = static_cast<std::uint32_t>(_mm_movemask_epi8(hits));
    if (mask != 0) return i + static_cast<std::size_t>(std::countr_zero(mask));
  }
  for (; i < end; ++i) {
    const char c = text[i];
    if (c == '{' || c == '}' || c == '"' || c == '/') return i;
  }
  return end;
}

// Number of line breaks in `text`.
inline std::size_t CountLineBreaks(std::string_view text) {
  std::size_t count = 0;
  std::size_t i = 0;
  while (i + 16 <= text.size()) {
    // Each byte counts its own column; 255 rows cannot overflow it.
    __m128i columns = _mm_setzero_si128();
    for (int rows = 0; rows < 255 && i + 16 <= text.size(); ++rows, i += 16)
      columns = _mm_sub_epi8(columns, Equal(Load16(text.data() + i), '\n'));
    const __m128i sums = _mm_sad_epu8(columns, _mm_setzero_si128());
    count += static_cast<std::size_t>(_mm_cvtsi128_si64(sums)) +
             static_cast<std::size_t>(_mm_cvtsi128_si64(_mm_unpackhi_epi64(sums, sums)));
  }
  for (; i < text.size(); ++i) count += text[i] == '\n';
  return count;
}

}  // namespace cuspan::ptx
