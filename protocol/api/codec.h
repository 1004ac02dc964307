// Wire format of values: little-endian, packed, lengths before contents.
//
// The format depends on the type, not on the op: Codec<T> for scalars, strings, views, arrays,
// lists, and any struct with VisitFields. Decoding reads every byte of its input at most once,
// because a sender can still change shared memory. It checks every length against the rest of the
// input.
#pragma once

#include <cstring>
#include <type_traits>

#include "protocol/api/types.h"

namespace cuspan {

// Writes into a buffer of fixed size. After an overflow ok() is false and nothing more is written.
class Encoder {
 public:
  explicit Encoder(std::span<std::byte> out) : out_(out) {}
  void Raw(const void* data, std::size_t bytes) {
    if (bytes > out_.size() - used_) {
      ok_ = false;
      return;
    }
    if (bytes != 0) std::memcpy(out_.data() + used_, data, bytes);
    used_ += bytes;
  }
  bool ok() const { return ok_; }
  std::size_t used() const { return used_; }

 private:
  std::span<std::byte> out_;
  std::size_t used_ = 0;
  bool ok_ = true;
};

// Reads from untrusted bytes. After a read past the end ok() is false and every value is zero.
class Decoder {
 public:
  explicit Decoder(Bytes in) : in_(in) {}
  void Raw(void* data, std::size_t bytes) {
    const Bytes view = View(bytes);
    if (bytes == 0) return;
    if (ok_)
      std::memcpy(data, view.data(), bytes);
    else
      std::memset(data, 0, bytes);
  }
  Bytes View(std::size_t bytes) {
    if (!ok_ || bytes > in_.size() - used_) {
      ok_ = false;
      return {};
    }
    const Bytes view = in_.subspan(used_, bytes);
    used_ += bytes;
    return view;
  }
  std::size_t left() const { return in_.size() - used_; }
  void Fail() { ok_ = false; }
  bool ok() const { return ok_; }
  // True if the whole input was read without errors.
  bool Done() const { return ok_ && left() == 0; }

 private:
  Bytes in_;
  std::size_t used_ = 0;
  bool ok_ = true;
};

template <typename T>
struct Codec {
  static std::size_t Size(const T& value) {
    if constexpr (std::is_arithmetic_v<T>) {
      return sizeof(T);
    } else {
      std::size_t bytes = 0;
      T::VisitFields(value, [&bytes](const auto& field) {
        bytes += Codec<std::remove_cvref_t<decltype(field)>>::Size(field);
      });
      return bytes;
    }
  }
  static void Encode(Encoder& out, const T& value) {
    if constexpr (std::is_arithmetic_v<T>) {
      out.Raw(&value, sizeof value);
    } else {
      T::VisitFields(value, [&out](const auto& field) {
        Codec<std::remove_cvref_t<decltype(field)>>::Encode(out, field);
      });
    }
  }
  static void Decode(Decoder& in, T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      std::uint8_t byte = 0;
      in.Raw(&byte, sizeof byte);
      if (byte > 1) in.Fail();
      value = byte == 1;
    } else if constexpr (std::is_arithmetic_v<T>) {
      in.Raw(&value, sizeof value);
    } else {
      T::VisitFields(value, [&in](auto& field) {
        Codec<std::remove_cvref_t<decltype(field)>>::Decode(in, field);
      });
    }
  }
};

template <>
struct Codec<Bytes> {
  static std::size_t Size(Bytes value) { return sizeof(std::uint32_t) + value.size(); }
  static void Encode(Encoder& out, Bytes value) {
    Codec<std::uint32_t>::Encode(out, static_cast<std::uint32_t>(value.size()));
    out.Raw(value.data(), value.size());
  }
  static void Decode(Decoder& in, Bytes& value) {
    std::uint32_t bytes = 0;
    Codec<std::uint32_t>::Decode(in, bytes);
    value = in.View(bytes);
  }
};

template <>
struct Codec<std::string> {
  static std::size_t Size(const std::string& value) { return sizeof(std::uint32_t) + value.size(); }
  static void Encode(Encoder& out, const std::string& value) {
    Codec<Bytes>::Encode(out, std::as_bytes(std::span(value)));
  }
  static void Decode(Decoder& in, std::string& value) {
    Bytes view;
    Codec<Bytes>::Decode(in, view);
    value.assign(reinterpret_cast<const char*>(view.data()), view.size());
  }
};

template <typename T, std::size_t N>
struct Codec<std::array<T, N>> {
  static std::size_t Size(const std::array<T, N>&) { return sizeof(T) * N; }
  static void Encode(Encoder& out, const std::array<T, N>& value) {
    out.Raw(value.data(), sizeof(T) * N);
  }
  static void Decode(Decoder& in, std::array<T, N>& value) { in.Raw(value.data(), sizeof(T) * N); }
};

template <typename T>
struct Codec<std::vector<T>> {
  static std::size_t Size(const std::vector<T>& value) {
    std::size_t bytes = sizeof(std::uint32_t);
    for (const T& element : value) bytes += Codec<T>::Size(element);
    return bytes;
  }
  static void Encode(Encoder& out, const std::vector<T>& value) {
    Codec<std::uint32_t>::Encode(out, static_cast<std::uint32_t>(value.size()));
    for (const T& element : value) Codec<T>::Encode(out, element);
  }
  static void Decode(Decoder& in, std::vector<T>& value) {
    std::uint32_t count = 0;
    Codec<std::uint32_t>::Decode(in, count);
    value.clear();
    // Every element takes at least one byte: a count beyond the input is malformed, and must not
    // cause an allocation.
    if (count > in.left()) in.Fail();
    for (std::uint32_t i = 0; i < count && in.ok(); ++i) Codec<T>::Decode(in, value.emplace_back());
  }
};

template <typename T>
std::size_t EncodedSize(const T& value) {
  return Codec<T>::Size(value);
}

// Encodes into `out`; false if it does not fit.
template <typename T>
bool EncodeInto(std::span<std::byte> out, const T& value) {
  Encoder encoder(out);
  Codec<T>::Encode(encoder, value);
  return encoder.ok();
}

// Decodes exactly all of `in`; false if bytes are missing, left over or malformed.
template <typename T>
bool DecodeFrom(Bytes in, T& value) {
  Decoder decoder(in);
  Codec<T>::Decode(decoder, value);
  return decoder.Done();
}

}  // namespace cuspan
