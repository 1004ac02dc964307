#include "protocol/fatbin/fatbin.h"

#include <cstddef>
#include <cstring>
#include <string>

namespace cuspan::fatbin {
namespace {

struct ContainerHeader {
  std::uint32_t magic;
  std::uint16_t version;
  std::uint16_t header_bytes;
  std::uint64_t payload_bytes;
};
static_assert(sizeof(ContainerHeader) == 16);

struct EntryHeader {
  std::uint16_t kind;
  std::uint16_t unknown_2;
  std::uint32_t header_bytes;
  std::uint64_t payload_bytes;
  std::uint32_t compressed_bytes;
  std::uint32_t options_at;
  std::uint16_t minor;
  std::uint16_t major;
  std::uint32_t architecture;
  std::uint32_t name_at;
  std::uint32_t name_bytes;
  std::uint64_t flags;
  std::uint64_t unknown_48;
  std::uint64_t uncompressed_bytes;
};
static_assert(sizeof(EntryHeader) == 64);

struct WrapperHeader {
  std::uint32_t magic;
  std::uint32_t version;
  const void* container;
  const void* const* objects;
};
static_assert(sizeof(WrapperHeader) == 24);

// Far above the number of objects in any link; stops at a damaged wrapper.
constexpr std::size_t kMaxObjects = 1 << 20;

// Structures are copied out: the bytes may be unaligned.
template <typename T>
T Load(const void* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

Status CheckHeader(const ContainerHeader& header) {
  if (header.magic != kContainerMagic) {
    return Status::Invalid("not a fat binary: it starts with {:#010x} instead of {:#010x}",
                           header.magic, kContainerMagic);
  }
  if (header.version != 1) {
    return Status::Unsupported("fat binary of version {}: only version 1 is known", header.version);
  }
  if (header.header_bytes < sizeof(ContainerHeader)) {
    return Status::Invalid("damaged fat binary: its header claims {} bytes, less than {}",
                           header.header_bytes, sizeof(ContainerHeader));
  }
  if (header.payload_bytes > UINT64_MAX - header.header_bytes) {
    return Status::Invalid("damaged fat binary: it claims {} bytes of entries",
                           header.payload_bytes);
  }
  return Status::Ok();
}

// The string at `at` in an entry's header; empty if outside the header.
std::string_view HeaderString(std::span<const std::uint8_t> header, std::uint64_t at,
                              std::uint64_t bytes) {
  if (at < sizeof(EntryHeader) || at > header.size() || bytes > header.size() - at) return {};
  std::string_view text(reinterpret_cast<const char*>(header.data() + at), bytes);
  return text.substr(0, text.find('\0'));
}

std::string_view OptionsOf(std::span<const std::uint8_t> header, std::uint64_t at) {
  if (at < sizeof(EntryHeader) || at > header.size() || header.size() - at < 8) return {};
  return HeaderString(header, Load<std::uint32_t>(header.data() + at),
                      Load<std::uint32_t>(header.data() + at + 4));
}

Compression CompressionOf(const EntryHeader& header) {
  if (header.flags & kFlagEncoded) return Compression::kUnknown;
  if (header.flags & kFlagZstd) return Compression::kZstd;
  if (header.flags & kFlagLz4) return Compression::kLz4;
  return header.compressed_bytes == 0 ? Compression::kNone : Compression::kUnknown;
}

// Reads the entry at offset `at` of `container`; *bytes is set to its length.
Result<Entry> ReadEntry(std::span<const std::uint8_t> container, std::uint64_t at,
                        std::uint64_t* bytes) {
  const std::span<const std::uint8_t> rest = container.subspan(at);
  if (rest.size() < sizeof(EntryHeader)) {
    return Status::Invalid("damaged fat binary: {} bytes at offset {} are too few for an entry",
                           rest.size(), at);
  }
  const auto header = Load<EntryHeader>(rest.data());
  if (header.header_bytes < sizeof(EntryHeader) || header.header_bytes > rest.size()) {
    return Status::Invalid("damaged fat binary: the entry at offset {} has a header of {} bytes",
                           at, header.header_bytes);
  }
  if (header.payload_bytes > rest.size() - header.header_bytes) {
    return Status::Invalid(
        "damaged fat binary: the entry at offset {} claims {} bytes where {} are left", at,
        header.payload_bytes, rest.size() - header.header_bytes);
  }
  if (header.compressed_bytes > header.payload_bytes) {
    return Status::Invalid(
        "damaged fat binary: the entry at offset {} has {} compressed bytes in {}", at,
        header.compressed_bytes, header.payload_bytes);
  }
  *bytes = header.header_bytes + header.payload_bytes;

  Entry entry;
  entry.kind = static_cast<Kind>(header.kind);
  entry.architecture = header.architecture;
  entry.version = header.major * 10u + header.minor;
  entry.flags = header.flags;
  entry.compression = CompressionOf(header);
  entry.payload =
      rest.subspan(header.header_bytes,
                   header.compressed_bytes != 0 ? header.compressed_bytes : header.payload_bytes);
  entry.uncompressed_bytes =
      entry.compression == Compression::kNone ? entry.payload.size() : header.uncompressed_bytes;
  entry.name = HeaderString(rest.first(header.header_bytes), header.name_at, header.name_bytes);
  entry.options = OptionsOf(rest.first(header.header_bytes), header.options_at);
  return entry;
}

}  // namespace

bool IsWrapper(const void* data) { return Load<std::uint32_t>(data) == kWrapperMagic; }
bool IsContainer(const void* data) { return Load<std::uint32_t>(data) == kContainerMagic; }

Result<Wrapper> ReadWrapper(const void* wrapper, CanRead can_read) {
  if (wrapper == nullptr) return Status::Invalid("not a fat binary: the pointer is null");
  if (!can_read(wrapper, sizeof(WrapperHeader)))
    return Status::Invalid("damaged fat-binary wrapper: it is truncated");
  if (!IsWrapper(wrapper)) {
    return Status::Invalid("not a fat-binary wrapper: it starts with {:#010x} instead of {:#010x}",
                           Load<std::uint32_t>(wrapper), kWrapperMagic);
  }
  const auto header = Load<WrapperHeader>(wrapper);
  if (header.version != 1 && header.version != 2) {
    return Status::Unsupported("fat-binary wrapper of version {}: versions 1 and 2 are known",
                               header.version);
  }
  if (header.container == nullptr) {
    return Status::Invalid("damaged fat-binary wrapper: it points to no container");
  }
  Wrapper result{header.version, header.container, {}};
  if (header.version == 2 && header.objects != nullptr) {
    for (const void* const* object = header.objects;; ++object) {
      if (!can_read(object, sizeof *object))
        return Status::Invalid("damaged fat-binary wrapper: its list of objects has no end");
      if (*object == nullptr) break;
      if (result.objects.size() == kMaxObjects) {
        return Status::Invalid("damaged fat-binary wrapper: more than {} objects", kMaxObjects);
      }
      result.objects.push_back(*object);
    }
  }
  return result;
}

Result<std::uint64_t> ContainerBytes(const void* container, CanRead can_read) {
  if (container == nullptr) return Status::Invalid("not a fat binary: the pointer is null");
  if (!can_read(container, sizeof(ContainerHeader)))
    return Status::Invalid("fat binary cut short: its header is not there");
  const auto header = Load<ContainerHeader>(container);
  CUSPAN_RETURN_IF_ERROR(CheckHeader(header));
  const std::uint64_t bytes = header.header_bytes + header.payload_bytes;
  if (!can_read(container, bytes))
    return Status::Invalid("fat binary cut short: not all of its {} bytes are there", bytes);
  return bytes;
}

std::vector<std::byte> WithObjects(std::span<const std::byte> linked,
                                   std::span<const std::span<const std::byte>> objects) {
  std::vector<std::byte> out(linked.begin(), linked.end());
  const auto append = [&out](const void* bytes, std::size_t count) {
    const auto* const from = static_cast<const std::byte*>(bytes);
    out.insert(out.end(), from, from + count);
  };
  for (const std::span<const std::byte> object : objects) {
    EntryHeader header{};
    header.kind = static_cast<std::uint16_t>(Kind::kObject);
    header.unknown_2 = 0x0101;  // The value found in all entries.
    header.header_bytes = sizeof header;
    header.payload_bytes = object.size();
    append(&header, sizeof header);
    append(object.data(), object.size());
  }
  auto header = Load<ContainerHeader>(out.data());
  header.payload_bytes = out.size() - header.header_bytes;
  std::memcpy(out.data(), &header, sizeof header);
  return out;
}

Result<Container> ReadContainer(std::span<const std::uint8_t> bytes) {
  if (bytes.size() < sizeof(ContainerHeader)) {
    return Status::Invalid("not a fat binary: {} bytes are too few for its header", bytes.size());
  }
  const auto header = Load<ContainerHeader>(bytes.data());
  CUSPAN_RETURN_IF_ERROR(CheckHeader(header));
  Container container{header.header_bytes + header.payload_bytes, {}};
  if (container.bytes > bytes.size()) {
    return Status::Invalid("fat binary cut short: it claims {} bytes where {} are there",
                           container.bytes, bytes.size());
  }
  const std::span<const std::uint8_t> whole = bytes.first(container.bytes);
  for (std::uint64_t at = header.header_bytes; at < whole.size();) {
    std::uint64_t length = 0;
    CUSPAN_ASSIGN_OR_RETURN(Entry entry, ReadEntry(whole, at, &length));
    container.entries.push_back(entry);
    at += length;
  }
  return container;
}

void HideObjects(std::span<std::byte> container) {
  const std::span<const std::uint8_t> bytes(reinterpret_cast<const std::uint8_t*>(container.data()),
                                            container.size());
  if (!ReadContainer(bytes).ok()) return;
  auto header = Load<ContainerHeader>(container.data());
  std::uint64_t at = header.header_bytes;
  const std::uint64_t end = at + header.payload_bytes;
  while (at < end) {
    std::uint64_t length = 0;
    const Result<Entry> entry = ReadEntry(bytes.first(end), at, &length);
    if (!entry.ok() || entry->kind == Kind::kObject) break;
    at += length;
  }
  header.payload_bytes = at - header.header_bytes;
  std::memcpy(container.data(), &header, sizeof header);
}

}  // namespace cuspan::fatbin
