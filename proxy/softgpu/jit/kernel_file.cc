#include "proxy/softgpu/jit/kernel_file.h"

#include <cstring>
#include <type_traits>

namespace cuspan::softgpu::jit {
namespace {

// New members must be written and read below.
static_assert(sizeof(KernelInfo) == sizeof(std::string) + sizeof(std::vector<KernelParameter>) + 32,
              "KernelInfo has changed: keep WriteInfo and ReadInfo complete");
static_assert(sizeof(KernelCode) == sizeof(std::string) + 8,
              "KernelCode has changed: keep WriteCode and ReadCode complete");

class Writer {
 public:
  template <typename T>
  void Add(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void AddText(std::string_view text) {
    Add(static_cast<std::uint64_t>(text.size()));
    bytes_.append(text);
  }
  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Reads the output of Writer; after the first failure, every read fails.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}

  template <typename T>
  bool Take(T* value) {
    if (rest_.size() < sizeof *value) return Fail();
    std::memcpy(value, rest_.data(), sizeof *value);
    rest_.remove_prefix(sizeof *value);
    return true;
  }
  bool ReadFlag(bool* value) {
    std::uint8_t byte = 0;
    if (!Take(&byte) || byte > 1) return Fail();
    *value = byte != 0;
    return true;
  }
  bool ReadText(std::string_view* text) {
    std::uint64_t size = 0;
    if (!Take(&size) || size > rest_.size()) return Fail();
    *text = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return true;
  }
  std::size_t left() const { return rest_.size(); }

 private:
  bool Fail() {
    rest_ = {};
    return false;
  }
  std::string_view rest_;
};

}  // namespace

std::string WriteInfo(const KernelInfo& info) {
  Writer writer;
  writer.AddText(info.name);
  writer.Add(static_cast<std::uint64_t>(info.parameters.size()));
  for (const KernelParameter& parameter : info.parameters) writer.Add(parameter);
  writer.Add(info.parameter_bytes);
  writer.Add(info.static_shared_bytes);
  writer.Add(info.local_bytes);
  writer.Add(info.max_threads);
  writer.Add(info.required_ntid);
  writer.Add(std::uint8_t{info.needs_fibers});
  writer.Add(std::uint8_t{info.prints});
  writer.Add(std::uint8_t{info.uses_heap});
  return writer.Take();
}

std::optional<KernelInfo> ReadInfo(std::string_view bytes, std::string_view name) {
  Reader reader(bytes);
  std::string_view stored;
  std::uint64_t parameters = 0;
  if (!reader.ReadText(&stored) || stored != name || !reader.Take(&parameters) ||
      parameters > reader.left() / sizeof(KernelParameter)) {
    return std::nullopt;
  }
  KernelInfo info;
  info.name = name;
  info.parameters.resize(parameters);
  for (KernelParameter& parameter : info.parameters) reader.Take(&parameter);
  const bool whole = reader.Take(&info.parameter_bytes) && reader.Take(&info.static_shared_bytes) &&
                     reader.Take(&info.local_bytes) && reader.Take(&info.max_threads) &&
                     reader.Take(&info.required_ntid) && reader.ReadFlag(&info.needs_fibers) &&
                     reader.ReadFlag(&info.prints) && reader.ReadFlag(&info.uses_heap);
  if (!whole || reader.left() != 0) return std::nullopt;
  return info;
}

std::string WriteCode(const KernelCode& code) {
  Writer writer;
  writer.Add(std::uint8_t{code.needs_fibers});
  writer.Add(std::uint8_t{code.warps});
  writer.Add(code.frame_bytes);
  writer.AddText(code.object);
  return writer.Take();
}

std::optional<KernelCode> ReadCode(std::string_view bytes) {
  Reader reader(bytes);
  KernelCode code;
  std::string_view object;
  if (!reader.ReadFlag(&code.needs_fibers) || !reader.ReadFlag(&code.warps) ||
      !reader.Take(&code.frame_bytes) || !reader.ReadText(&object) || reader.left() != 0) {
    return std::nullopt;
  }
  code.object = object;
  return code;
}

}  // namespace cuspan::softgpu::jit
