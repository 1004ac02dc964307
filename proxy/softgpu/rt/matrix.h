// What the lanes of a warp do together with matrices: multiplications of tiles
// that are spread over the lanes' registers, and the exchanges behind ldmatrix,
// stmatrix and movmatrix. (PTX ISA, "Warp Level Matrix Multiply-Accumulate
// Instructions")
#pragma once

#include <cstdint>

namespace cuspan::softgpu {

enum class MatrixKind : std::uint8_t {
  kMultiply,      // mma: fragments as the PTX ISA spreads them.
  kMultiplyWmma,  // wmma: fragments in the order of WmmaIndex below.
  kMultiplyQuad,  // mma.m8n8k4 of f16: four products, one for each pair of quads.
  kLoad,          // ldmatrix: each lane brings a row of 16 bytes and gets its part of the tiles.
  kStore,         // stmatrix: the other way.
  kTranspose,     // movmatrix
};

enum class MatrixType : std::uint8_t {
  kF16,
  kBf16,
  kTf32,
  kF32,
  kF64,
  kE4m3,
  kE5m2,
  kS8,
  kU8,
  kS4,
  kU4,
  kB1,
  kS32
};

// One operation, packed into 48 bits so that it fits the key of a collective.
struct MatrixOperation {
  MatrixKind kind = MatrixKind::kMultiply;
  unsigned m = 0, n = 0, k = 0;  // D (m × n) = A (m × k) · B (k × n) + C
  MatrixType a = MatrixType::kF16, b = MatrixType::kF16;
  MatrixType c = MatrixType::kF32, d = MatrixType::kF32;
  bool a_column = false, b_column = false;  // Only kMultiplyQuad depends on them.
  bool saturate = false;                    // Of integers.
  bool bits_and = false;                    // Of .b1: and instead of xor.
  unsigned tiles = 1;                       // 8 × 8 tiles of kLoad and kStore.
  bool transposed = false;

  std::uint64_t Pack() const;
  static MatrixOperation Unpack(std::uint64_t packed);

  // 32-bit registers of each lane.
  unsigned a_words() const;
  unsigned b_words() const;
  unsigned c_words() const;
  unsigned d_words() const;
  // What the array of ComputeMatrix must have room for: inputs and results are in the same place.
  unsigned words() const;
};

unsigned BitsOf(MatrixType type);

// The most words that any operation has.
inline constexpr unsigned kMaxMatrixWords = 32;

// wmma fragments are of no fixed form; here each lane has consecutive elements
// of A by rows, of B by columns and of C and D by rows.
//
// Computes the operation for all 32 lanes. `words[i * 32 + lane]` is register i of
// a lane: on entry those of A, B and C behind one another (kLoad: the four words
// of the lane's row; kStore: its part of each tile), on return the results.
void ComputeMatrix(std::uint64_t operation, std::uint32_t* words);

}  // namespace cuspan::softgpu
