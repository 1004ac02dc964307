// One interface to every message of the op table. Messages are filled with random values and
// compared by field, without the codecs under test.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "protocol/api/codec.h"
#include "protocol/wire/frame.h"

namespace cuspan::testing_messages {

// Random numbers, and storage for fields of type Bytes.
class RandomSource {
 public:
  explicit RandomSource(std::uint64_t seed) : random_(seed) {}
  std::uint64_t operator()() { return random_(); }
  std::size_t Below(std::size_t limit) { return random_() % limit; }
  // Valid as long as this object.
  std::vector<std::byte>& Keep(std::size_t bytes) { return bytes_.emplace_back(bytes); }

 private:
  std::mt19937_64 random_;
  std::deque<std::vector<std::byte>> bytes_;
};

// A value of one message type.
class Message {
 public:
  virtual ~Message() = default;
  // Creates a message of this type with default values.
  virtual std::unique_ptr<Message> New() const = 0;
  virtual void Fill(RandomSource& random) = 0;
  virtual std::size_t EncodedSize() const = 0;
  virtual bool EncodeInto(std::span<std::byte> bytes) const = 0;
  virtual bool DecodeFrom(Bytes bytes) = 0;
  // The value as text, for comparisons.
  virtual std::string Described() const = 0;
  // True if each field of type Bytes is empty or inside `input`.
  virtual bool ViewsAreInside(Bytes input) const = 0;

  // Empty on failure.
  std::vector<std::byte> Encoded() const;
};

// Calls ParseMessage for the message of the frame's op, if any, and ignores the result.
void ParseAnything(const Frame& frame);

// Calls `use` for each message of the table and each reply.
void ForEachMessage(const std::function<void(const Message& type, const std::string& name)>& use);

template <typename T>
std::vector<std::byte> Encoded(const T& value) {
  std::vector<std::byte> bytes(EncodedSize(value));
  if (!EncodeInto(std::span(bytes), value)) bytes.clear();
  return bytes;
}

}  // namespace cuspan::testing_messages
