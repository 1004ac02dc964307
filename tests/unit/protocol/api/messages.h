// Every message of the op table behind one interface, filled with random values and compared field
// by field, without the help of the codecs under test.
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

// Random numbers, and the bytes that fields of type Bytes point at.
class RandomSource {
 public:
  explicit RandomSource(std::uint64_t seed) : random_(seed) {}
  std::uint64_t operator()() { return random_(); }
  std::size_t Below(std::size_t limit) { return random_() % limit; }
  // Stays as long as this does.
  std::vector<std::byte>& Keep(std::size_t bytes) { return bytes_.emplace_back(bytes); }

 private:
  std::mt19937_64 random_;
  std::deque<std::vector<std::byte>> bytes_;
};

// A value of one message type.
class Message {
 public:
  virtual ~Message() = default;
  // Another one of this type, with its default value.
  virtual std::unique_ptr<Message> New() const = 0;
  virtual void Fill(RandomSource& random) = 0;
  virtual std::size_t EncodedSize() const = 0;
  virtual bool EncodeInto(std::span<std::byte> bytes) const = 0;
  virtual bool DecodeFrom(Bytes bytes) = 0;
  // What tells two values apart.
  virtual std::string Described() const = 0;
  // Whether each field of type Bytes is empty or lies inside `input`.
  virtual bool ViewsAreInside(Bytes input) const = 0;

  // Empty when that fails.
  std::vector<std::byte> Encoded() const;
};

// Has ParseMessage take a frame for a message of its own op, if it has one, and forgets the result.
void ParseAnything(const Frame& frame);

// For each message of the table and each reply, by name.
void ForEachMessage(const std::function<void(const Message& type, const std::string& name)>& use);

template <typename T>
std::vector<std::byte> Encoded(const T& value) {
  std::vector<std::byte> bytes(EncodedSize(value));
  if (!EncodeInto(std::span(bytes), value)) bytes.clear();
  return bytes;
}

}  // namespace cuspan::testing_messages
