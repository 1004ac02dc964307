#include "tests/unit/protocol/api/messages.h"

#include <array>
#include <type_traits>

#include "ops.gen.h"

namespace cuspan::testing_messages {
namespace {

template <typename T>
struct IsVector : std::false_type {};
template <typename T>
struct IsVector<std::vector<T>> : std::true_type {};

template <typename T>
struct IsArray : std::false_type {};
template <typename T, std::size_t N>
struct IsArray<std::array<T, N>> : std::true_type {};

template <typename T>
void Fill(T& value, RandomSource& random) {
  if constexpr (std::is_same_v<T, bool>) {
    value = random.Below(2) == 1;
  } else if constexpr (std::is_floating_point_v<T>) {
    value = static_cast<T>(random.Below(1U << 20)) / 16 - 1000;
  } else if constexpr (std::is_arithmetic_v<T>) {
    value = static_cast<T>(random());
  } else if constexpr (std::is_same_v<T, std::string>) {
    value.resize(random.Below(40));
    for (char& c : value) c = static_cast<char>(random());
  } else if constexpr (std::is_same_v<T, Bytes>) {
    std::vector<std::byte>& kept = random.Keep(random.Below(300));
    for (std::byte& b : kept) b = static_cast<std::byte>(random());
    value = kept;
  } else if constexpr (IsArray<T>::value) {
    for (auto& element : value) Fill(element, random);
  } else if constexpr (IsVector<T>::value) {
    value.resize(random.Below(6));
    for (auto& element : value) Fill(element, random);
  } else {
    T::VisitFields(value, [&random](auto& field) { Fill(field, random); });
  }
}

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
bool ViewsInside(const T& value, Bytes input) {
  bool inside = true;
  if constexpr (std::is_same_v<T, Bytes>) {
    inside = value.empty() || (value.data() >= input.data() &&
                               value.data() + value.size() <= input.data() + input.size());
  } else if constexpr (IsVector<T>::value) {
    for (const auto& element : value) inside = ViewsInside(element, input) && inside;
  } else if constexpr (requires { T::VisitFields(value, [](const auto&) {}); }) {
    T::VisitFields(value, [&](const auto& field) { inside = ViewsInside(field, input) && inside; });
  }
  return inside;
}

template <typename T>
class MessageOf : public Message {
 public:
  std::unique_ptr<Message> New() const override { return std::make_unique<MessageOf>(); }
  void Fill(RandomSource& random) override { testing_messages::Fill(value_, random); }
  std::size_t EncodedSize() const override { return cuspan::EncodedSize(value_); }
  bool EncodeInto(std::span<std::byte> bytes) const override {
    return cuspan::EncodeInto(bytes, value_);
  }
  bool DecodeFrom(Bytes bytes) override { return cuspan::DecodeFrom(bytes, value_); }
  std::string Described() const override {
    std::string text;
    Describe(value_, text);
    return text;
  }
  bool ViewsAreInside(Bytes input) const override { return ViewsInside(value_, input); }

 private:
  T value_;
};

}  // namespace

std::vector<std::byte> Message::Encoded() const {
  std::vector<std::byte> bytes(EncodedSize());
  if (!EncodeInto(bytes)) bytes.clear();
  return bytes;
}

void ParseAnything(const Frame& frame) {
  WithOp(frame.op(), [&frame]<typename T>() { static_cast<void>(ParseMessage<T>(frame)); });
}

void ForEachMessage(const std::function<void(const Message& type, const std::string& name)>& use) {
  for (unsigned number = 0; number < 65536; ++number) {
    WithOp(static_cast<Op>(number), [&use]<typename T>() {
      const std::string name(OpName(T::kOp));
      use(MessageOf<T>(), name);
      if constexpr (T::kClass == OpClass::kCall)
        use(MessageOf<typename T::Reply>(), name + "::Reply");
    });
  }
}

}  // namespace cuspan::testing_messages
