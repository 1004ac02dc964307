#include "proxy/softgpu/rt/matrix.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>

namespace cuspan::softgpu {
namespace {

constexpr unsigned kLanes = 32;
constexpr unsigned kMaxSide = 32;    // Maximum of m and n.
constexpr unsigned kMaxDepth = 256;  // Maximum of k.

float FromHalf(std::uint32_t half) {
  // After the shift, the exponent is off by 127 - 15. A product corrects this, for subnormal
  // numbers too.
  const std::uint32_t magnitude = (half & 0x7fff) << 13;
  std::uint32_t bits = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112F);
  if ((half & 0x7c00) == 0x7c00) bits = magnitude | 0x7f800000;
  return std::bit_cast<float>(bits | (half & 0x8000) << 16);
}

std::uint32_t ToHalf(double value) {
  return std::bit_cast<std::uint16_t>(static_cast<_Float16>(value));
}

// OCP 8-bit Floating Point Specification: e4m3 has no infinities, e5m2 is the upper half of f16.
float FromE4m3(std::uint32_t byte) {
  const std::uint32_t magnitude = byte & 0x7f;
  if (magnitude == 0x7f) return std::numeric_limits<float>::quiet_NaN();
  const float value = std::bit_cast<float>(magnitude << 20) * 0x1p120F;
  return (byte & 0x80) != 0 ? -value : value;
}

double DecodeFloat(MatrixType type, std::uint32_t bits) {
  switch (type) {
    case MatrixType::kF16:
      return FromHalf(bits);
    case MatrixType::kBf16:
      return std::bit_cast<float>(bits << 16);
    case MatrixType::kTf32:  // The lower bits of the register are ignored.
      return std::bit_cast<float>(bits & 0xffffe000);
    case MatrixType::kE4m3:
      return FromE4m3(bits);
    case MatrixType::kE5m2:
      return FromHalf(bits << 8);
    default:
      return std::bit_cast<float>(bits);
  }
}

std::int32_t DecodeInteger(MatrixType type, std::uint32_t bits) {
  switch (type) {
    case MatrixType::kS8:
      return static_cast<std::int8_t>(bits);
    case MatrixType::kS4:
      return static_cast<std::int8_t>(bits << 4) >> 4;
    default:
      return static_cast<std::int32_t>(bits);
  }
}

bool IsInteger(MatrixType type) { return type >= MatrixType::kS8; }

unsigned FragmentWords(MatrixType type, unsigned elements) {
  return std::max(elements / kLanes * BitsOf(type) / 32, 1U);
}

struct Cell {
  unsigned row, column;
};

// Returns the position of element `i` of a lane's fragment. A and B consist of 32-bit registers
// (64-bit for f64) of `per` elements. The lane's quad gives the row of A or the column of B. Its
// index in the quad selects the consecutive elements along k.
Cell CellOfA(const MatrixOperation& op, unsigned lane, unsigned i) {
  if (op.kind == MatrixKind::kMultiplyWmma) {
    const unsigned index = lane * (op.m * op.k / kLanes) + i;
    return {index / op.k, index % op.k};
  }
  const unsigned per = std::max(32 / BitsOf(op.a), 1U);
  const unsigned reg = i / per;
  const unsigned halves = op.m / 8;  // Registers follow the rows first.
  return {lane / 4 + 8 * (reg % halves), reg / halves * 4 * per + lane % 4 * per + i % per};
}

Cell CellOfB(const MatrixOperation& op, unsigned lane, unsigned i) {
  if (op.kind == MatrixKind::kMultiplyWmma) {
    const unsigned index = lane * (op.n * op.k / kLanes) + i;
    return {index % op.k, index / op.k};
  }
  const unsigned per = std::max(32 / BitsOf(op.b), 1U);
  return {i / per * 4 * per + lane % 4 * per + i % per, lane / 4};
}

Cell CellOfC(const MatrixOperation& op, unsigned lane, unsigned i) {
  if (op.kind == MatrixKind::kMultiplyWmma) {
    const unsigned index = lane * (op.m * op.n / kLanes) + i;
    return {index / op.n, index % op.n};
  }
  return {lane / 4 + 8 * (i / 2), lane % 4 * 2 + i % 2};
}

// Returns the bits of element `i` of the fragment in the registers at `words`.
std::uint64_t ElementBits(MatrixType type, const std::uint32_t* words, unsigned lane, unsigned i) {
  const unsigned bits = BitsOf(type);
  if (bits == 64)
    return words[2 * i * kLanes + lane] | std::uint64_t{words[(2 * i + 1) * kLanes + lane]} << 32;
  const unsigned per = 32 / bits;
  const std::uint32_t word = words[i / per * kLanes + lane];
  return bits == 32 ? word : word >> (i % per * bits) & ((1U << bits) - 1);
}

void SetElement(MatrixType type, std::uint32_t* words, unsigned lane, unsigned i,
                std::uint64_t value) {
  const unsigned bits = BitsOf(type);
  if (bits == 64) {
    words[2 * i * kLanes + lane] = static_cast<std::uint32_t>(value);
    words[(2 * i + 1) * kLanes + lane] = static_cast<std::uint32_t>(value >> 32);
  } else if (bits == 32) {
    words[i * kLanes + lane] = static_cast<std::uint32_t>(value);
  } else {  // f16
    std::uint32_t& word = words[i / 2 * kLanes + lane];
    const unsigned shift = i % 2 * 16;
    word = (word & ~(0xffffU << shift)) | static_cast<std::uint32_t>(value) << shift;
  }
}

// Tiles as plain matrices; B is stored by columns.
template <typename T>
struct Tiles {
  T a[kMaxSide][kMaxDepth];
  T b[kMaxSide][kMaxDepth];
  T c[kMaxSide][kMaxSide];
};

template <typename T>
T Decode(MatrixType type, std::uint64_t bits) {
  if constexpr (std::is_integral_v<T>) {
    return DecodeInteger(type, static_cast<std::uint32_t>(bits));
  } else {
    if (type == MatrixType::kF64) return std::bit_cast<double>(bits);
    return DecodeFloat(type, static_cast<std::uint32_t>(bits));
  }
}

std::uint64_t EncodeFloat(MatrixType type, double value) {
  switch (type) {
    case MatrixType::kF16:
      return ToHalf(value);
    case MatrixType::kF64:
      return std::bit_cast<std::uint64_t>(value);
    default:
      return std::bit_cast<std::uint32_t>(static_cast<float>(value));
  }
}

// Computes one element of D. Products of the narrow formats are exact in f64, and their sum is
// rounded once. This is at least as exact as the hardware.
double Dot(const MatrixOperation& op, const double* row, const double* column, double c) {
  double sum = c;
  if (op.a == MatrixType::kF64) {
    for (unsigned i = 0; i < op.k; ++i) sum = std::fma(row[i], column[i], sum);
    return sum;
  }
  for (unsigned i = 0; i < op.k; ++i) sum += row[i] * column[i];
  return sum;
}

std::int64_t Dot(const MatrixOperation& op, const std::int32_t* row, const std::int32_t* column,
                 std::int32_t c) {
  std::int64_t sum = c;
  if (op.a == MatrixType::kB1) {
    for (unsigned i = 0; i < op.k; ++i)
      sum += op.bits_and ? row[i] & column[i] : row[i] ^ column[i];
    return sum;
  }
  for (unsigned i = 0; i < op.k; ++i) sum += std::int64_t{row[i]} * column[i];
  return sum;
}

std::uint64_t Result(const MatrixOperation& op, double value) { return EncodeFloat(op.d, value); }

std::uint64_t Result(const MatrixOperation& op, std::int64_t value) {
  if (op.saturate)
    value = std::clamp<std::int64_t>(value, std::numeric_limits<std::int32_t>::min(),
                                     std::numeric_limits<std::int32_t>::max());
  return static_cast<std::uint32_t>(value);
}

template <typename T>
void Multiply(const MatrixOperation& op, std::uint32_t* words) {
  // Allocated: a library loaded late has little space for thread-local variables.
  static thread_local const auto own_tiles = std::make_unique<Tiles<T>>();
  Tiles<T>& tiles = *own_tiles;
  const std::uint32_t* const a = words;
  const std::uint32_t* const b = a + op.a_words() * kLanes;
  const std::uint32_t* const c = b + op.b_words() * kLanes;
  const unsigned results = op.m * op.n / kLanes;
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    for (unsigned i = 0; i < op.m * op.k / kLanes; ++i) {
      const Cell at = CellOfA(op, lane, i);
      tiles.a[at.row][at.column] = Decode<T>(op.a, ElementBits(op.a, a, lane, i));
    }
    for (unsigned i = 0; i < op.n * op.k / kLanes; ++i) {
      const Cell at = CellOfB(op, lane, i);
      tiles.b[at.column][at.row] = Decode<T>(op.b, ElementBits(op.b, b, lane, i));
    }
    for (unsigned i = 0; i < results; ++i) {
      const Cell at = CellOfC(op, lane, i);
      tiles.c[at.row][at.column] = Decode<T>(op.c, ElementBits(op.c, c, lane, i));
    }
  }
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    for (unsigned i = 0; i < results; ++i) {
      const Cell at = CellOfC(op, lane, i);
      SetElement(
          op.d, words, lane, i,
          Result(op, Dot(op, tiles.a[at.row], tiles.b[at.column], tiles.c[at.row][at.column])));
    }
  }
}

// Returns the position of element `i` of an m8n8k4 accumulator in its product of 8 × 8.
Cell CellOfQuadC(MatrixType type, unsigned lane, unsigned i) {
  const unsigned lower = lane >= 16 ? 4 : 0;
  if (type == MatrixType::kF16) return {lane % 4 + lower, i};
  return {(lane & 1) + (i & 2) + lower, (i & 4) + (lane & 2) + (i & 1)};
}

// mma.m8n8k4 of f16: lanes 4q … 4q + 3 and those 16 higher compute product q.
void MultiplyQuads(const MatrixOperation& op, std::uint32_t* words) {
  double a[8][4], b[8][4], c[8][8];
  std::uint32_t results[8 * kLanes] = {};
  const std::uint32_t* const at_b = words + 2 * kLanes;
  const std::uint32_t* const at_c = at_b + 2 * kLanes;
  for (unsigned quad = 0; quad < 4; ++quad) {
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      if (lane / 4 % 4 != quad) continue;
      const unsigned lower = lane >= 16 ? 4 : 0;
      for (unsigned i = 0; i < 4; ++i) {
        const double a_value = Decode<double>(op.a, ElementBits(op.a, words, lane, i));
        const double b_value = Decode<double>(op.b, ElementBits(op.b, at_b, lane, i));
        (op.a_column ? a[i + lower][lane % 4] : a[lane % 4 + lower][i]) = a_value;
        (op.b_column ? b[lane % 4 + lower][i] : b[i + lower][lane % 4]) = b_value;
      }
      for (unsigned i = 0; i < 8; ++i) {
        const Cell at = CellOfQuadC(op.c, lane, i);
        c[at.row][at.column] = Decode<double>(op.c, ElementBits(op.c, at_c, lane, i));
      }
    }
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      if (lane / 4 % 4 != quad) continue;
      for (unsigned i = 0; i < 8; ++i) {
        const Cell at = CellOfQuadC(op.d, lane, i);
        SetElement(op.d, results, lane, i,
                   Result(op, Dot(op, a[at.row], b[at.column], c[at.row][at.column])));
      }
    }
  }
  std::memcpy(words, results, op.d_words() * kLanes * sizeof(std::uint32_t));
}

std::uint32_t Half(std::uint32_t word, unsigned index) { return word >> (16 * index) & 0xffff; }

// Tiles have 8 × 8 halves. A lane holds column 2 · (lane % 4) and the next one of row lane / 4.
void Load(const MatrixOperation& op, std::uint32_t* words) {
  std::uint32_t rows[kLanes][4];
  for (unsigned lane = 0; lane < kLanes; ++lane)
    for (unsigned i = 0; i < 4; ++i) rows[lane][i] = words[i * kLanes + lane];
  for (unsigned tile = 0; tile < op.tiles; ++tile) {
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      std::uint32_t& out = words[tile * kLanes + lane];
      if (!op.transposed) {
        out = rows[tile * 8 + lane / 4][lane % 4];
        continue;
      }
      const auto half = [&](unsigned which) {
        return Half(rows[tile * 8 + lane % 4 * 2 + which][lane / 8], lane / 4 % 2);
      };
      out = half(0) | half(1) << 16;
    }
  }
}

void Store(const MatrixOperation& op, std::uint32_t* words) {
  std::uint32_t parts[kLanes][4] = {};
  for (unsigned lane = 0; lane < kLanes; ++lane)
    for (unsigned i = 0; i < op.tiles; ++i) parts[lane][i] = words[i * kLanes + lane];
  for (unsigned lane = 0; lane < 8 * op.tiles; ++lane) {
    const unsigned tile = lane / 8, row = lane % 8;
    for (unsigned i = 0; i < 4; ++i) {
      std::uint32_t& out = words[i * kLanes + lane];
      if (!op.transposed) {
        out = parts[row * 4 + i][tile];
        continue;
      }
      const auto half = [&](unsigned column) {
        return Half(parts[column * 4 + row / 2][tile], row % 2);
      };
      out = half(2 * i) | half(2 * i + 1) << 16;
    }
  }
}

void Transpose(std::uint32_t* words) {
  std::uint32_t parts[kLanes];
  std::copy_n(words, kLanes, parts);
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    const auto half = [&](unsigned which) {
      return Half(parts[(lane % 4 * 2 + which) * 4 + lane / 8], lane / 4 % 2);
    };
    words[lane] = half(0) | half(1) << 16;
  }
}

}  // namespace

unsigned BitsOf(MatrixType type) {
  switch (type) {
    case MatrixType::kF64:
      return 64;
    case MatrixType::kF16:
    case MatrixType::kBf16:
      return 16;
    case MatrixType::kE4m3:
    case MatrixType::kE5m2:
    case MatrixType::kS8:
    case MatrixType::kU8:
      return 8;
    case MatrixType::kS4:
    case MatrixType::kU4:
      return 4;
    case MatrixType::kB1:
      return 1;
    default:
      return 32;
  }
}

std::uint64_t MatrixOperation::Pack() const {
  std::uint64_t packed = 0;
  unsigned shift = 0;
  const auto put = [&](auto value, unsigned bits) {
    packed |= static_cast<std::uint64_t>(value) << shift;
    shift += bits;
  };
  put(kind, 3);
  put(m, 6);
  put(n, 6);
  put(k, 9);
  for (const MatrixType type : {a, b, c, d}) put(type, 4);
  for (const bool flag : {a_column, b_column, saturate, bits_and, transposed}) put(flag, 1);
  put(tiles, 3);
  return packed;
}

MatrixOperation MatrixOperation::Unpack(std::uint64_t packed) {
  const auto take = [&](unsigned bits) {
    const auto value = static_cast<unsigned>(packed & ((std::uint64_t{1} << bits) - 1));
    packed >>= bits;
    return value;
  };
  MatrixOperation op;
  op.kind = static_cast<MatrixKind>(take(3));
  op.m = take(6);
  op.n = take(6);
  op.k = take(9);
  for (MatrixType* type : {&op.a, &op.b, &op.c, &op.d}) *type = static_cast<MatrixType>(take(4));
  for (bool* flag : {&op.a_column, &op.b_column, &op.saturate, &op.bits_and, &op.transposed})
    *flag = take(1) != 0;
  op.tiles = take(3);
  return op;
}

// wmma uses 8 registers for f16 fragments of A and B of any size, mma.m8n8k4 uses 2.
unsigned MatrixOperation::a_words() const {
  if (kind == MatrixKind::kMultiplyQuad) return 2;
  if (kind == MatrixKind::kMultiplyWmma && a == MatrixType::kF16) return 8;
  return FragmentWords(a, m * k);
}
unsigned MatrixOperation::b_words() const {
  if (kind == MatrixKind::kMultiplyQuad) return 2;
  if (kind == MatrixKind::kMultiplyWmma && b == MatrixType::kF16) return 8;
  return FragmentWords(b, n * k);
}
unsigned MatrixOperation::c_words() const {
  if (kind == MatrixKind::kMultiplyQuad) return c == MatrixType::kF16 ? 4 : 8;
  return FragmentWords(c, m * n);
}
unsigned MatrixOperation::d_words() const {
  if (kind == MatrixKind::kMultiplyQuad) return d == MatrixType::kF16 ? 4 : 8;
  return FragmentWords(d, m * n);
}
unsigned MatrixOperation::words() const {
  switch (kind) {
    case MatrixKind::kLoad:
    case MatrixKind::kStore:
      return 4;
    case MatrixKind::kTranspose:
      return 1;
    default:
      return std::max(a_words() + b_words() + c_words(), d_words());
  }
}

void ComputeMatrix(std::uint64_t operation, std::uint32_t* words) {
  const auto op = MatrixOperation::Unpack(operation);
  switch (op.kind) {
    case MatrixKind::kMultiply:
    case MatrixKind::kMultiplyWmma:
      if (IsInteger(op.a)) {
        Multiply<std::int32_t>(op, words);
      } else {
        Multiply<double>(op, words);
      }
      return;
    case MatrixKind::kMultiplyQuad:
      MultiplyQuads(op, words);
      return;
    case MatrixKind::kLoad:
      Load(op, words);
      return;
    case MatrixKind::kStore:
      Store(op, words);
      return;
    case MatrixKind::kTranspose:
      Transpose(words);
      return;
  }
}

}  // namespace cuspan::softgpu
