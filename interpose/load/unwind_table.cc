#include "interpose/load/unwind_table.h"

namespace cuspan::load {
namespace {

// Storage format of a value (DW_EH_PE_…): the lower half of the byte.
constexpr std::uint8_t kForm = 0x0f;
constexpr std::uint8_t kUnsigned4 = 0x03;
constexpr std::uint8_t kSigned4FromTable = 0x3b;

// Bytes of a value in an encoding. 0: variable or unknown.
std::size_t EncodedSize(std::uint8_t encoding) {
  switch (encoding & kForm) {
    case 0x02:
    case 0x0a:
      return 2;
    case kUnsigned4:
    case 0x0b:
      return 4;
    case 0x00:
    case 0x04:
    case 0x0c:
      return 8;
    default:
      return 0;
  }
}

// Start of a function and address of its description, both relative to the table's start.
struct Row {
  std::int32_t start;
  std::int32_t description;
};

// Size of addresses in descriptions with this common part ("CIE"). 0 if its format is not
// understood.
std::size_t AddressSize(const ElfImage& image, std::uint64_t common) {
  const Bytes bytes = image.BytesFrom(common);
  std::uint64_t at = 8;  // After the length and the zero marking a CIE.
  std::uint8_t version = 0;
  if (!bytes.Read(at++, &version) || version != 1) return 0;
  const std::uint64_t augmentation = at;
  std::uint8_t byte = 1;
  while (byte != 0) {
    if (!bytes.Read(at++, &byte)) return 0;
  }
  // Two numbers of variable length, one byte for the register of the return address, and another
  // number.
  for (int number = 0; number < 4; ++number) {
    do {
      if (!bytes.Read(at++, &byte)) return 0;
    } while (number != 2 && (byte & 0x80) != 0);
  }
  if (bytes.data[augmentation] != 'z') return 8;
  for (std::uint64_t letter = augmentation + 1; bytes.data[letter] != 0; ++letter) {
    switch (bytes.data[letter]) {
      case 'R':
        return bytes.Read(at, &byte) ? EncodedSize(byte) : 0;
      case 'L':
        ++at;
        break;
      case 'P':
        if (!bytes.Read(at, &byte) || EncodedSize(byte) == 0) return 0;
        at += 1 + EncodedSize(byte);
        break;
      default:
        return 0;
    }
  }
  return 8;
}

}  // namespace

bool UnwindTable::Parse(const ElfImage& image) {
  *this = UnwindTable();
  for (std::size_t i = 0; i < image.segment_count(); ++i) {
    const Elf64_Phdr segment = image.Segment(i);
    if (segment.p_type != PT_GNU_EH_FRAME) continue;
    if (!image.file().Holds(segment.p_offset, segment.p_filesz)) return false;
    const Bytes table = image.file().Part(segment.p_offset, segment.p_filesz);
    constexpr std::size_t kFormats = 4;  // The version, and three storage formats.
    std::uint8_t format[kFormats];
    for (std::size_t k = 0; k < kFormats; ++k) {
      if (!table.Read(k, &format[k])) return false;
    }
    std::uint32_t rows = 0;
    const std::size_t before = kFormats + EncodedSize(format[1]);
    if (format[0] != 1 || before == kFormats || format[2] != kUnsigned4 ||
        format[3] != kSigned4FromTable || !table.Read(before, &rows) ||
        !table.Holds(before + sizeof(rows), std::uint64_t{rows} * sizeof(Row))) {
      return false;
    }
    image_ = &image;
    base_ = segment.p_vaddr;
    rows_ = table.Part(before + sizeof(rows), std::uint64_t{rows} * sizeof(Row));
    count_ = rows;
    return true;
  }
  return false;
}

std::uint64_t UnwindTable::Start(std::size_t index) const {
  Row row{};
  rows_.Read(index * sizeof(row), &row);
  return base_ + static_cast<std::uint64_t>(std::int64_t{row.start});
}

std::uint64_t UnwindTable::Size(std::size_t index) const {
  Row row{};
  rows_.Read(index * sizeof(row), &row);
  const std::uint64_t at = base_ + static_cast<std::uint64_t>(std::int64_t{row.description});
  const Bytes description = image_->BytesFrom(at);
  std::uint32_t head[2];  // Its length, and the distance of the common part before this word.
  if (!description.Read(0, &head) || head[0] == 0 || head[0] == 0xffffffff || head[1] == 0)
    return 0;
  const std::size_t width = AddressSize(*image_, at + sizeof(head[0]) - head[1]);
  // The function's address, followed by its size in the same width.
  std::uint64_t size = 0;
  std::uint32_t narrow = 0;
  if (width == 8 && description.Read(sizeof(head) + width, &size)) return size;
  if (width == 4 && description.Read(sizeof(head) + width, &narrow)) return narrow;
  return 0;
}

Bytes UnwindTable::Code(std::size_t index) const {
  const Bytes code = image_->BytesFrom(Start(index));
  const std::uint64_t size = Size(index);
  return size <= code.size ? code.Part(0, size) : Bytes{};
}

std::size_t UnwindTable::LastUpTo(std::uint64_t address) const {
  std::size_t low = 0;
  std::size_t high = count_;
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    if (Start(middle) <= address) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low == 0 ? kNowhere : low - 1;
}

std::size_t UnwindTable::At(std::uint64_t address) const {
  const std::size_t index = LastUpTo(address);
  return index != kNowhere && Start(index) == address ? index : kNowhere;
}

}  // namespace cuspan::load
