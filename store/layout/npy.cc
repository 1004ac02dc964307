#include "store/layout/npy.h"

#include <charconv>
#include <optional>
#include <string_view>

namespace cuspan::store {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

// Reads the header's text, a literal of a Python dictionary, from the left.
class Literal {
 public:
  explicit Literal(std::string_view text) : text_(text) {}

  // Skips spaces and `token`. False, and nothing is skipped, if something else comes.
  bool Accept(std::string_view token) {
    SkipSpaces();
    if (!text_.starts_with(token)) return false;
    text_.remove_prefix(token.size());
    return true;
  }
  // A string in single or double quotes, without escapes.
  std::optional<std::string_view> String() {
    SkipSpaces();
    if (text_.empty() || (text_[0] != '\'' && text_[0] != '"')) return std::nullopt;
    const std::size_t end = text_.find(text_[0], 1);
    if (end == text_.npos) return std::nullopt;
    const std::string_view string = text_.substr(1, end - 1);
    text_.remove_prefix(end + 1);
    return string;
  }
  std::optional<std::uint64_t> Number() {
    SkipSpaces();
    std::uint64_t number = 0;
    const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), number);
    if (error != std::errc()) return std::nullopt;
    text_.remove_prefix(static_cast<std::size_t>(end - text_.data()));
    Accept("L");  // Python 2 writes it.
    return number;
  }

 private:
  void SkipSpaces() {
    const std::size_t first = text_.find_first_not_of(" \t\n");
    text_.remove_prefix(first == text_.npos ? text_.size() : first);
  }

  std::string_view text_;
};

struct Header {
  std::optional<std::string_view> elements;
  std::optional<bool> fortran;
  std::optional<ArrayShape> shape;
};

Status NoHeader() { return Status::Invalid("the file has no header of NumPy's format .npy"); }

Result<ArrayShape> ParseShape(Literal& text) {
  ArrayShape shape;
  shape.count = 1;
  shape.dimensions = 0;
  if (!text.Accept("(")) return NoHeader();
  for (bool more = true; !text.Accept(")");) {
    const std::optional<std::uint64_t> size = more ? text.Number() : std::nullopt;
    if (!size) return NoHeader();
    more = text.Accept(",");
    if (shape.dimensions == CUSPAN_MAX_DIMENSIONS)
      return Status::Unsupported("the file's array has more than {} dimensions: reshape it",
                                 CUSPAN_MAX_DIMENSIONS);
    shape.sizes[shape.dimensions++] = *size;
    if (__builtin_mul_overflow(shape.count, *size, &shape.count)) return NoHeader();
  }
  // A scalar has no dimension.
  if (shape.dimensions == 0) shape.dimensions = 1;
  return shape;
}

Result<Header> ParseHeader(Literal text) {
  Header header;
  if (!text.Accept("{")) return NoHeader();
  while (!text.Accept("}")) {
    const std::optional<std::string_view> key = text.String();
    if (!key || !text.Accept(":")) return NoHeader();
    if (*key == "descr") {
      if (text.Accept("["))
        return Status::Unsupported("the file's elements are structures: save their fields apart");
      header.elements = text.String();
      if (!header.elements) return NoHeader();
    } else if (*key == "fortran_order") {
      if (text.Accept("True"))
        header.fortran = true;
      else if (text.Accept("False"))
        header.fortran = false;
      else
        return NoHeader();
    } else if (*key == "shape") {
      CUSPAN_ASSIGN_OR_RETURN(header.shape, ParseShape(text));
    } else {
      return NoHeader();
    }
    text.Accept(",");
  }
  if (!header.elements || !header.fortran || !header.shape) return NoHeader();
  return header;
}

// `elements`: NumPy's description: order of bytes, kind, size.
Status CheckElements(std::string_view elements, const Element& wanted) {
  if (elements.size() < 2) return NoHeader();
  const char kind = elements[1];
  // Only these have their size in bytes there.
  if (std::string_view("uifcbVS").find(kind) == std::string_view::npos)
    return Status::Unsupported("the file's elements are '{}': no numbers", elements);
  std::uint32_t bytes = 0;
  const char* const end = elements.data() + elements.size();
  if (std::from_chars(elements.data() + 2, end, bytes).ptr != end) return NoHeader();
  if (elements[0] == '>' && bytes > 1)
    return Status::Unsupported(
        "the file's elements '{}' have the most significant byte first: save them as '<{}'",
        elements, elements.substr(1));
  if (bytes != wanted.bytes || (wanted.kind != 0 && kind != wanted.kind))
    return Status::Invalid("the file's elements are '{}', those of the array '<{}{}'", elements,
                           wanted.kind == 0 ? kind : wanted.kind, wanted.bytes);
  return Status::Ok();
}

}  // namespace

Result<ArrayShape> ShapeOfNpy(std::span<const std::byte> start, const Element& wanted) {
  const std::string_view text(reinterpret_cast<const char*>(start.data()), start.size());
  const auto byte = [&](std::size_t at) {
    return static_cast<std::size_t>(static_cast<unsigned char>(text[at]));
  };
  if (text.size() < 12 || !text.starts_with(kMagic)) return NoHeader();
  const std::size_t major = byte(6);
  if (major < 1 || major > 3) return NoHeader();
  const std::size_t begin = major == 1 ? 10 : 12;
  std::size_t length = byte(8) | byte(9) << 8;
  if (major > 1) length |= byte(10) << 16 | byte(11) << 24;
  if (begin + length > text.size()) return NoHeader();
  CUSPAN_ASSIGN_OR_RETURN(Header header, ParseHeader(Literal(text.substr(begin, length))));
  CUSPAN_RETURN_IF_ERROR(CheckElements(*header.elements, wanted));
  if (*header.fortran && header.shape->dimensions > 1)
    return Status::Unsupported("the file's array is in Fortran's order: save it in C's order");
  header.shape->start = begin + length;
  return *header.shape;
}

}  // namespace cuspan::store
