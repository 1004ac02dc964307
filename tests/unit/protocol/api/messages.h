// Every message of the op table, filled with random values and compared field
// by field, without the help of the codecs under test.
#pragma once

#include <cstring>
#include <deque>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "ops.gen.h"
#include "protocol/api/codec.h"

namespace cuspan::testing_messages {

template <typename T>
struct IsVector : std::false_type {};
template <typename T>
struct IsVector<std::vector<T>> : std::true_type {};

template <typename T>
struct IsArray : std::false_type {};
template <typename T, std::size_t N>
struct IsArray<std::array<T, N>> : std::true_type {};

// Fills fields with random values. Keeps the bytes that `Bytes` fields point at.
class RandomFiller {
 public:
  explicit RandomFiller(std::uint64_t seed) : random_(seed) {}

  template <typename T>
  void operator()(T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      value = Below(2) == 1;
    } else if constexpr (std::is_floating_point_v<T>) {
      value = static_cast<T>(Below(1U << 20)) / 16 - 1000;
    } else if constexpr (std::is_arithmetic_v<T>) {
      value = static_cast<T>(random_());
    } else if constexpr (std::is_same_v<T, std::string>) {
      value.resize(Below(40));
      for (char& c : value) c = static_cast<char>(random_());
    } else if constexpr (std::is_same_v<T, Bytes>) {
      std::vector<std::byte>& kept = bytes_.emplace_back(Below(300));
      for (std::byte& b : kept) b = static_cast<std::byte>(random_());
      value = kept;
    } else if constexpr (IsArray<T>::value) {
      for (auto& element : value) (*this)(element);
    } else if constexpr (IsVector<T>::value) {
      value.resize(Below(6));
      for (auto& element : value) (*this)(element);
    } else {
      T::VisitFields(value, *this);
    }
  }

 private:
  std::size_t Below(std::size_t limit) { return random_() % limit; }

  std::mt19937_64 random_;
  std::deque<std::vector<std::byte>> bytes_;
};

// Appends to `text` what tells two values apart.
template <typename T>
void Describe(const T& value, std::string& text) {
  if constexpr (std::is_arithmetic_v<T>) {
    text += std::to_string(value) + ";";
  } else if constexpr (std::is_same_v<T, std::string>) {
    text += "'" + value + "';";
  } else if constexpr (std::is_same_v<T, Bytes>) {
    text += "<" + std::string(reinterpret_cast<const char*>(value.data()), value.size()) + ">;";
  } else if constexpr (IsArray<T>::value || IsVector<T>::value) {
    text += "[";
    for (const auto& element : value) Describe(element, text);
    text += "];";
  } else {
    text += "{";
    T::VisitFields(value, [&text](const auto& field) { Describe(field, text); });
    text += "};";
  }
}

template <typename T>
std::string Described(const T& value) {
  std::string text;
  Describe(value, text);
  return text;
}

// Calls use.template operator()<T>(name) for each message of the table and each reply.
template <typename Use>
void ForEachMessage(Use&& use) {
  for (unsigned number = 0; number < 65536; ++number) {
    WithOp(static_cast<Op>(number), [&]<typename T>() {
      use.template operator()<T>(std::string(OpName(T::kOp)));
      if constexpr (T::kClass == OpClass::kCall)
        use.template operator()<typename T::Reply>(std::string(OpName(T::kOp)) + "::Reply");
    });
  }
}

template <typename T>
std::vector<std::byte> Encoded(const T& value) {
  std::vector<std::byte> bytes(EncodedSize(value));
  if (!EncodeInto(std::span(bytes), value)) bytes.clear();
  return bytes;
}

}  // namespace cuspan::testing_messages
