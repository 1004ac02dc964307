#include "proxy/softgpu/rt/printf.h"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>

namespace cuspan::softgpu {
namespace {

// Reads arguments stored one after another, each aligned to its size.
class ArgumentReader {
 public:
  explicit ArgumentReader(const void* buffer)
      : at_(reinterpret_cast<std::uintptr_t>(buffer)), start_(at_) {}

  template <typename T>
  T Next() {
    const std::uintptr_t offset = (at_ - start_ + sizeof(T) - 1) / sizeof(T) * sizeof(T);
    T value;
    std::memcpy(&value, reinterpret_cast<const void*>(start_ + offset), sizeof(T));
    at_ = start_ + offset + sizeof(T);
    ++count_;
    return value;
  }
  int count() const { return count_; }

 private:
  std::uintptr_t at_;
  const std::uintptr_t start_;
  int count_ = 0;
};

// One conversion: % flags width .precision length type.
struct Conversion {
  std::string text;  // Format for printf, with widths filled in and no length.
  std::string length;
  char type = '\0';
};

// Parses the conversion after a '%'. Returns the character after it, or null if the format ends
// within.
const char* ParseConversion(const char* at, ArgumentReader& arguments, Conversion* conversion) {
  conversion->text = "%";
  for (; *at != '\0' && std::strchr("-+ #0123456789.*", *at) != nullptr; ++at) {
    if (*at == '*') {
      conversion->text += std::to_string(arguments.Next<std::int32_t>());
    } else {
      conversion->text += *at;
    }
  }
  for (; *at != '\0' && std::strchr("hlLqjzt", *at) != nullptr; ++at) conversion->length += *at;
  if (*at == '\0') return nullptr;
  conversion->type = *at;
  return at + 1;
}

template <typename T>
void Print(const std::string& format, T value, std::string* out) {
  char small[128];
  const int length = std::snprintf(small, sizeof(small), format.c_str(), value);
  if (length < 0) return;
  if (static_cast<std::size_t>(length) < sizeof(small)) {
    out->append(small, static_cast<std::size_t>(length));
    return;
  }
  const std::size_t before = out->size();
  out->resize(before + static_cast<std::size_t>(length) + 1);
  std::snprintf(out->data() + before, static_cast<std::size_t>(length) + 1, format.c_str(), value);
  out->resize(before + static_cast<std::size_t>(length));
}

bool IsWide(const std::string& length) {
  return length == "l" || length == "ll" || length == "j" || length == "z" || length == "t" ||
         length == "q" || length == "L";
}

void PrintInteger(const Conversion& conversion, ArgumentReader& arguments, std::string* out) {
  const bool is_signed = conversion.type == 'd' || conversion.type == 'i';
  const std::string format = conversion.text + "ll" + conversion.type;
  long long value = 0;
  if (IsWide(conversion.length)) {
    value = arguments.Next<std::int64_t>();
  } else {
    const auto bits = arguments.Next<std::uint32_t>();
    if (conversion.length == "hh") {
      value = is_signed ? static_cast<std::int8_t>(bits) : static_cast<std::uint8_t>(bits);
    } else if (conversion.length == "h") {
      value = is_signed ? static_cast<std::int16_t>(bits) : static_cast<std::uint16_t>(bits);
    } else {
      value = is_signed ? static_cast<long long>(static_cast<std::int32_t>(bits)) : bits;
    }
  }
  Print(format, value, out);
}

void PrintConversion(const Conversion& conversion, ArgumentReader& arguments, std::string* out) {
  switch (conversion.type) {
    case '%':
      *out += '%';
      return;
    case 'd':
    case 'i':
    case 'u':
    case 'x':
    case 'X':
    case 'o':
      PrintInteger(conversion, arguments, out);
      return;
    case 'c':
      Print(conversion.text + 'c', arguments.Next<std::int32_t>(), out);
      return;
    case 'f':
    case 'F':
    case 'e':
    case 'E':
    case 'g':
    case 'G':
    case 'a':
    case 'A':
      Print(conversion.text + conversion.type, arguments.Next<double>(), out);
      return;
    case 'p':
      Print(conversion.text + 'p', arguments.Next<const void*>(), out);
      return;
    case 's': {
      const char* string = arguments.Next<const char*>();
      Print(conversion.text + 's', string == nullptr ? "(null)" : string, out);
      return;
    }
    case 'n':  // CUDA consumes the argument and does nothing.
      arguments.Next<const void*>();
      return;
    default:  // Unknown conversions are printed unchanged, as in CUDA.
      *out += conversion.text + conversion.length + conversion.type;
      return;
  }
}

}  // namespace

int FormatDevicePrintf(const char* format, const void* arguments, std::string* out) {
  if (format == nullptr) return -1;
  ArgumentReader reader(arguments);
  for (const char* at = format; *at != '\0';) {
    const char* percent = std::strchr(at, '%');
    if (percent == nullptr) {
      out->append(at);
      break;
    }
    out->append(at, percent);
    Conversion conversion;
    at = ParseConversion(percent + 1, reader, &conversion);
    if (at == nullptr) {
      out->append(percent);
      break;
    }
    PrintConversion(conversion, reader, out);
  }
  return reader.count();
}

}  // namespace cuspan::softgpu
