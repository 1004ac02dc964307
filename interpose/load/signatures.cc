#include "interpose/load/signatures.h"

// Generated, see generate_signatures.py.
extern "C" {
extern const cuspan::load::Release cuspan_cudart_releases[];
extern const std::size_t cuspan_cudart_releases_count;
}

namespace cuspan::load {
namespace {

constexpr std::size_t kWindow = 32;  // Bytes of an anchor.
constexpr std::size_t kStep = 16;    // Its alignment, and that of the runtime's code.

// hash_of in generate_signatures.py.
std::uint64_t Hash(const std::uint8_t* data, std::size_t size) {
  std::uint64_t result = size;
  for (std::size_t at = 0; at < size; at += 8) {
    std::uint64_t word = 0;
    if (size - at >= 8) {
      __builtin_memcpy(&word, data + at, 8);
    } else {
      for (std::size_t i = 0; i < size - at; ++i) word |= std::uint64_t{data[at + i]} << (8 * i);
    }
    result = (result ^ word) * 0x9E3779B97F4A7C15u;
    result ^= result >> 29;
  }
  return result;
}

// True when all functions of `release` are in `segment`, whose bytes are `code`, when
// the runtime begins `start` bytes into it.
bool Matches(const Release& release, Bytes code, std::uint64_t start) {
  for (std::size_t i = 0; i < release.count; ++i) {
    const Signature& row = release.rows[i];
    if (!code.Holds(start + row.offset, row.room)) return false;
    const Bytes function = code.Part(start + row.offset, row.room);
    if (!function.Holds(row.run, row.run_length)) return false;
    const std::uint64_t hash = Hash(function.data + row.run, row.run_length);
    if (static_cast<std::uint32_t>(hash) != row.hash) return false;
  }
  return release.count != 0;
}

void Fill(const Release& release, std::uint64_t start, TargetList* out) {
  for (std::size_t i = 0; i < release.count && i < TargetList::kCapacity; ++i) {
    const Signature& row = release.rows[i];
    const std::uint64_t address = start + row.offset;
    out->targets[out->count++] = {address, row.size, address + row.room, row.export_index};
  }
}

}  // namespace

ReleaseTable KnownReleases() { return {cuspan_cudart_releases, cuspan_cudart_releases_count}; }

bool FindBySignatures(const ElfImage& image, const ReleaseTable& releases, TargetList* out) {
  out->count = 0;
  for (std::size_t s = 0; s < image.segment_count(); ++s) {
    const Elf64_Phdr segment = image.Segment(s);
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0) continue;
    if (!image.file().Holds(segment.p_offset, segment.p_filesz)) continue;
    const Bytes code = image.file().Part(segment.p_offset, segment.p_filesz);
    const std::uint64_t first = (kStep - segment.p_vaddr % kStep) % kStep;
    for (std::uint64_t at = first; code.Holds(at, kWindow); at += kStep) {
      const std::uint64_t hash = Hash(code.data + at, kWindow);
      for (std::size_t r = 0; r < releases.count; ++r) {
        const Release& release = releases.entries[r];
        if (release.anchor_hash != hash || at < release.anchor) continue;
        if (!Matches(release, code, at - release.anchor)) continue;
        Fill(release, segment.p_vaddr + at - release.anchor, out);
        return true;
      }
    }
  }
  return false;
}

}  // namespace cuspan::load
