// Matrix operations of a warp: multiplications of tiles distributed over the lanes' registers, and
// the exchanges of ldmatrix, stmatrix and movmatrix. (PTX ISA, "Warp Level Matrix
// Multiply-Accumulate Instructions")
#pragma once

#include <cstdint>

namespace cuspan::softgpu {

enum class MatrixKind : std::uint8_t {
  kMultiply,      // mma: fragments distributed as in the PTX ISA.
  kMultiplyWmma,  // wmma: fragments in the order given at ComputeMatrix.
  kMultiplyQuad,  // mma.m8n8k4 of f16: four products, one per pair of quads.
  kLoad,          // ldmatrix: each lane supplies a row of 16 bytes and gets its part of the tiles.
  kStore,         // stmatrix: the reverse.
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

// One operation, packed into 48 bits to fit the key of a collective.
struct MatrixOperation {
  MatrixKind kind = MatrixKind::kMultiply;
  unsigned m = 0, n = 0, k = 0;  // D (m × n) = A (m × k) · B (k × n) + C
  MatrixType a = MatrixType::kF16, b = MatrixType::kF16;
  MatrixType c = MatrixType::kF32, d = MatrixType::kF32;
  bool a_column = false, b_column = false;  // kMultiplyQuad only.
  bool saturate = false;                    // Integers only.
  bool bits_and = false;                    // .b1 only: and instead of xor.
  unsigned tiles = 1;                       // 8 × 8 tiles of kLoad and kStore.
  bool transposed = false;

  std::uint64_t Pack() const;
  static MatrixOperation Unpack(std::uint64_t packed);

  // Number of 32-bit registers per lane.
  unsigned a_words() const;
  unsigned b_words() const;
  unsigned c_words() const;
  unsigned d_words() const;
  // Size of ComputeMatrix's array per lane. The results overwrite the inputs.
  unsigned words() const;
};

unsigned BitsOf(MatrixType type);

// Maximum of words() over all operations.
inline constexpr unsigned kMaxMatrixWords = 32;

// Computes the operation for all 32 lanes. `words[i * 32 + lane]` is register i of a lane. On
// entry: registers of A, B and C in sequence (kLoad: the four words of the lane's row; kStore: its
// part of each tile). On return: the results.
//
// The order of wmma fragments is unspecified. Here each lane has consecutive elements of A by rows,
// of B by columns, of C and D by rows.
void ComputeMatrix(std::uint64_t operation, std::uint32_t* words);

}  // namespace cuspan::softgpu
