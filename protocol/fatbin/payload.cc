#include "protocol/fatbin/payload.h"

#include <lz4.h>
#include <zstd.h>

#include <algorithm>
#include <climits>
#include <utility>

namespace cuspan::fatbin {
namespace {

// Maximum compression ratio of LZ4 (a run's length grows by 255 per byte).
constexpr std::uint64_t kLz4MostRatio = 255;

// True if the compressed bytes can have the claimed size; checked before allocating it.
bool SizeIsPlausible(const Entry& entry) {
  if (entry.compression == Compression::kLz4) {
    return entry.uncompressed_bytes / kLz4MostRatio <= entry.payload.size();
  }
  return ZSTD_getFrameContentSize(entry.payload.data(), entry.payload.size()) ==
         entry.uncompressed_bytes;
}

// Decompresses into `image` of the claimed size.
Status Inflate(const Entry& entry, std::uint8_t* image) {
  if (entry.compression == Compression::kZstd) {
    const std::size_t made = ZSTD_decompress(image, entry.uncompressed_bytes, entry.payload.data(),
                                             entry.payload.size());
    if (ZSTD_isError(made)) {
      return Status::Invalid("damaged fat binary: zstd reports '{}'", ZSTD_getErrorName(made));
    }
    if (made == entry.uncompressed_bytes) return Status::Ok();
    return Status::Invalid("damaged fat binary: {} bytes decompressed where {} were announced",
                           made, entry.uncompressed_bytes);
  }
  if (entry.payload.size() > INT_MAX || entry.uncompressed_bytes > INT_MAX) {
    return Status::Invalid("damaged fat binary: an LZ4 image of {} bytes is too large for LZ4",
                           entry.uncompressed_bytes);
  }
  const int made = LZ4_decompress_safe(
      reinterpret_cast<const char*>(entry.payload.data()), reinterpret_cast<char*>(image),
      static_cast<int>(entry.payload.size()), static_cast<int>(entry.uncompressed_bytes));
  if (made < 0 || static_cast<std::uint64_t>(made) != entry.uncompressed_bytes) {
    return Status::Invalid("damaged fat binary: LZ4 made {} bytes where {} were announced", made,
                           entry.uncompressed_bytes);
  }
  return Status::Ok();
}

}  // namespace

Result<std::vector<std::uint8_t>> DecodePayload(const Entry& entry, std::uint64_t most_bytes) {
  if (entry.compression == Compression::kUnknown) {
    return Status::Unsupported(
        "the fat binary's image for sm_{} has an unknown compression (flags {:#x})",
        entry.architecture, entry.flags);
  }
  if (entry.uncompressed_bytes > most_bytes) {
    return Status::Exhausted("the fat binary's image for sm_{} has {} bytes; the limit is {}",
                             entry.architecture, entry.uncompressed_bytes, most_bytes);
  }
  if (entry.compression == Compression::kNone) {
    return std::vector<std::uint8_t>(entry.payload.begin(), entry.payload.end());
  }
  if (!SizeIsPlausible(entry)) {
    return Status::Invalid("damaged fat binary: {} bytes cannot decompress to the {} announced",
                           entry.payload.size(), entry.uncompressed_bytes);
  }
  std::vector<std::uint8_t> image(entry.uncompressed_bytes);
  CUSPAN_RETURN_IF_ERROR(Inflate(entry, image.data()));
  return image;
}

Result<std::string> DecodePtx(const Entry& entry, std::uint64_t most_bytes) {
  if (entry.kind != Kind::kPtx) {
    return Status::Invalid("the fat binary's entry for sm_{} holds no PTX", entry.architecture);
  }
  CUSPAN_ASSIGN_OR_RETURN(std::vector<std::uint8_t> image, DecodePayload(entry, most_bytes));
  const auto end = std::find(image.begin(), image.end(), std::uint8_t{0});
  return std::string(image.begin(), end);
}

}  // namespace cuspan::fatbin
