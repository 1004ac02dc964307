// Matrix instructions of a warp, on small whole numbers: all formats and orders of summation are
// exact. (PTX ISA, "Warp Level Matrix Multiply-Accumulate Instructions")
#include <bit>

#include "tests/unit/proxy/softgpu/instructions/numbers.h"

namespace cuspan::ptx_forms {
namespace {

using U = std::uint32_t;

struct ElementFormat {
  std::string name;
  unsigned bits;
  int least, most;  // Range of values in the test.
  std::uint64_t (*encode)(int);
};

std::uint64_t AsInteger(int v) { return static_cast<std::uint64_t>(v); }
std::uint64_t AsHalf(int v) { return ToHalf(static_cast<Wide>(v)).bits; }
std::uint64_t AsBf16(int v) { return ToBf16(static_cast<Wide>(v)).bits; }
std::uint64_t AsFloat(int v) { return std::bit_cast<U>(static_cast<float>(v)); }
std::uint64_t AsDouble(int v) { return std::bit_cast<std::uint64_t>(static_cast<double>(v)); }
// 8-bit floats ±1, ±2, ±3 and 0, by their exponents and first digit.
std::uint64_t AsE4m3(int v) {
  static constexpr std::uint8_t kMagnitudes[] = {0, 0x38, 0x40, 0x44};
  return kMagnitudes[v < 0 ? -v : v] | (v < 0 ? 0x80 : 0);
}
std::uint64_t AsE5m2(int v) {
  static constexpr std::uint8_t kMagnitudes[] = {0, 0x3c, 0x40, 0x42};
  return kMagnitudes[v < 0 ? -v : v] | (v < 0 ? 0x80 : 0);
}

const ElementFormat kF16{"f16", 16, -3, 3, AsHalf}, kBf16{"bf16", 16, -5, 5, AsBf16},
    kTf32{"tf32", 32, -9, 9, AsFloat}, kF32{"f32", 32, -99, 99, AsFloat},
    kF16C{"f16", 16, -9, 9, AsHalf}, kF64{"f64", 64, -99, 99, AsDouble},
    kS8{"s8", 8, -128, 127, AsInteger}, kU8{"u8", 8, 0, 255, AsInteger},
    kS4{"s4", 4, -8, 7, AsInteger}, kU4{"u4", 4, 0, 15, AsInteger}, kB1{"b1", 1, 0, 1, AsInteger},
    kS32{"s32", 32, -1000, 1000, AsInteger}, kE4m3{"e4m3", 8, -3, 3, AsE4m3},
    kE5m2{"e5m2", 8, -3, 3, AsE5m2};

using Matrix = std::vector<std::vector<int>>;

Matrix RandomMatrix(unsigned rows, unsigned columns, const ElementFormat& format,
                    std::uint64_t& seed) {
  Matrix matrix(rows, std::vector<int>(columns));
  for (auto& row : matrix)
    for (int& cell : row)
      cell = format.least +
             static_cast<int>(Random(seed) % static_cast<unsigned>(format.most - format.least + 1));
  return matrix;
}

enum class Bits { kNone, kXor, kAnd };

Matrix Product(const Matrix& a, const Matrix& b, const Matrix& c, Bits bits) {
  Matrix d = c;
  for (std::size_t i = 0; i < a.size(); ++i)
    for (std::size_t j = 0; j < b[0].size(); ++j)
      for (std::size_t k = 0; k < b.size(); ++k)
        d[i][j] += bits == Bits::kXor   ? a[i][k] ^ b[k][j]
                   : bits == Bits::kAnd ? a[i][k] & b[k][j]
                                        : a[i][k] * b[k][j];
  return d;
}

// Packs 32-bit words of one lane: `cell(i)` is its element i.
template <typename Cell>
std::vector<U> Pack(const ElementFormat& format, unsigned elements, Cell cell) {
  std::vector<U> words;
  if (format.bits == 64) {
    for (unsigned i = 0; i < elements; ++i) {
      const std::uint64_t value = format.encode(cell(i));
      words.push_back(static_cast<U>(value));
      words.push_back(static_cast<U>(value >> 32));
    }
    return words;
  }
  const unsigned per_word = 32 / format.bits;
  for (unsigned i = 0; i < elements; i += per_word) {
    std::uint64_t word = 0;
    for (unsigned k = 0; k < per_word; ++k) {
      const std::uint64_t mask = (std::uint64_t{1} << format.bits) - 1;
      word |= (format.encode(cell(i + k)) & mask) << (k * format.bits);
    }
    words.push_back(static_cast<U>(word));
  }
  return words;
}

// Returns "{%r0, %r1}" for `words` registers from `first` on; if `wide`, one 64-bit register for
// two words.
std::string Registers(unsigned first, std::size_t words, bool wide) {
  std::string text = "{";
  const std::size_t count = wide ? words / 2 : words;
  for (std::size_t i = 0; i < count; ++i)
    text += std::string(i == 0 ? "" : ", ") + (wide ? "%rd" : "%r") + std::to_string(first + i);
  return text + "}";
}

std::string LoadWords(unsigned first, std::size_t words, std::size_t offset, bool wide) {
  std::string text;
  for (std::size_t i = 0; i < words; i += wide ? 2 : 1)
    text += std::string("ld.global.") + (wide ? "u64 %rd" : "u32 %r") +
            std::to_string(first + (wide ? i / 2 : i)) + ", [%rd30+" +
            std::to_string(4 * (offset + i)) + "];\n";
  return text;
}

std::string StoreWords(unsigned first, std::size_t words, bool wide) {
  std::string text;
  for (std::size_t i = 0; i < words; i += wide ? 2 : 1)
    text += std::string("st.global.") + (wide ? "u64" : "u32") + " [%out+" + std::to_string(4 * i) +
            "], " + (wide ? "%rd" : "%r") + std::to_string(first + (wide ? i / 2 : i)) + ";\n";
  return text;
}

struct MatrixShape {
  unsigned m, n, k;
  std::string Name() const {
    return "m" + std::to_string(m) + "n" + std::to_string(n) + "k" + std::to_string(k);
  }
};

// Positions of elements in mma's fragments, from the figures of the PTX ISA. They depend on a
// lane's quad, its position in the quad, and the register.
struct Place {
  unsigned row, column;
};
Place PlaceInA(const MatrixShape& s, const ElementFormat& f, unsigned lane, unsigned i) {
  const unsigned per = f.bits >= 32 ? 1 : 32 / f.bits;
  const unsigned reg = i / per;
  const unsigned down = s.m / 8;
  return {lane / 4 + 8 * (reg % down), (reg / down * 4 + lane % 4) * per + i % per};
}
Place PlaceInB(const ElementFormat& f, unsigned lane, unsigned i) {
  const unsigned per = f.bits >= 32 ? 1 : 32 / f.bits;
  return {(i / per * 4 + lane % 4) * per + i % per, lane / 4};
}
Place PlaceInC(unsigned lane, unsigned i) { return {lane / 4 + 8 * (i / 2), lane % 4 * 2 + i % 2}; }

void AddMma(const MatrixShape& shape, const ElementFormat& a, const ElementFormat& b,
            const ElementFormat& c, unsigned target, Bits bits = Bits::kNone,
            const std::string& modifier = "") {
  std::uint64_t seed = 11;
  const Matrix ma = RandomMatrix(shape.m, shape.k, a, seed),
               mb = RandomMatrix(shape.k, shape.n, b, seed),
               mc = RandomMatrix(shape.m, shape.n, c, seed);
  const Matrix md = Product(ma, mb, mc, bits);
  Program program;
  program.group = "matrix";
  program.target = target;
  const bool wide = a.bits == 64;
  std::vector<U> first;
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    const auto of_a = Pack(a, shape.m * shape.k / kLanes, [&](unsigned i) {
      const Place p = PlaceInA(shape, a, lane, i);
      return ma[p.row][p.column];
    });
    const auto of_b = Pack(b, shape.k * shape.n / kLanes, [&](unsigned i) {
      const Place p = PlaceInB(b, lane, i);
      return mb[p.row][p.column];
    });
    const auto accumulator = [&](const Matrix& matrix) {
      return Pack(c, shape.m * shape.n / kLanes, [&](unsigned i) {
        const Place p = PlaceInC(lane, i);
        return matrix[p.row][p.column];
      });
    };
    const auto of_c = accumulator(mc), of_d = accumulator(md);
    if (lane == 0) {
      const std::size_t total = of_a.size() + of_b.size() + of_c.size();
      program.words_out = static_cast<unsigned>(of_d.size());
      const unsigned step = wide ? 2 : 1;
      const auto b_at = static_cast<unsigned>(of_a.size() / step),
                 c_at = static_cast<unsigned>((of_a.size() + of_b.size()) / step);
      program.name = "mma.sync.aligned." + shape.Name() + ".row.col" + modifier + "." + c.name +
                     "." + a.name + "." + b.name + "." + c.name +
                     (bits == Bits::kXor   ? ".xor.popc"
                      : bits == Bits::kAnd ? ".and.popc"
                                           : "");
      program.body = "mul.wide.u32 %rd30, %me, " + std::to_string(4 * total) +
                     "; add.s64 %rd30, %in, %rd30;\n" + LoadWords(0, of_a.size(), 0, wide) +
                     LoadWords(b_at, of_b.size(), of_a.size(), wide) +
                     LoadWords(c_at, of_c.size(), of_a.size() + of_b.size(), wide) + program.name +
                     " " + Registers(c_at, of_d.size(), wide) + ", " +
                     Registers(0, of_a.size(), wide) + ", " + Registers(b_at, of_b.size(), wide) +
                     ", " + Registers(c_at, of_c.size(), wide) + ";\n" +
                     StoreWords(c_at, of_d.size(), wide);
    }
    for (const auto* words : {&of_a, &of_b, &of_c})
      program.input.insert(program.input.end(), words->begin(), words->end());
    program.expected.insert(program.expected.end(), of_d.begin(), of_d.end());
  }
  Programs().push_back(std::move(program));
}

// The bytes of a matrix in memory, by rows or by columns, without gaps.
std::vector<U> InMemory(const Matrix& matrix, const ElementFormat& format, bool by_columns) {
  const auto rows = static_cast<unsigned>(matrix.size());
  const auto columns = static_cast<unsigned>(matrix[0].size());
  return Pack(format, rows * columns, [&](unsigned i) {
    return by_columns ? matrix[i % rows][i / rows] : matrix[i / columns][i % columns];
  });
}

void AddWmma(const MatrixShape& shape, const ElementFormat& a, const ElementFormat& b,
             const ElementFormat& c, bool a_column, bool b_column, bool d_column, unsigned target,
             Bits bits = Bits::kNone) {
  std::uint64_t seed = 23;
  const Matrix ma = RandomMatrix(shape.m, shape.k, a, seed),
               mb = RandomMatrix(shape.k, shape.n, b, seed),
               mc = RandomMatrix(shape.m, shape.n, c, seed);
  const Matrix md = Product(ma, mb, mc, bits);
  const auto in_a = InMemory(ma, a, a_column), in_b = InMemory(mb, b, b_column),
             in_c = InMemory(mc, c, d_column);
  Program program;
  program.group = "matrix";
  program.target = target;
  program.input = in_a;
  program.input.insert(program.input.end(), in_b.begin(), in_b.end());
  program.input.insert(program.input.end(), in_c.begin(), in_c.end());
  program.expected = InMemory(md, c, d_column);
  program.words_out = static_cast<unsigned>(program.expected.size() / kLanes);
  const auto words = [&](const ElementFormat& f, unsigned elements) {
    return f.name == "f16" && &f != &c ? 8U : std::max(elements * f.bits / 32 / kLanes, 1U);
  };
  const bool wide = a.bits == 64;
  const unsigned a_words = words(a, shape.m * shape.k), b_words = words(b, shape.k * shape.n),
                 c_words = words(c, shape.m * shape.n);
  const auto layout = [](bool column) { return std::string(column ? ".col" : ".row"); };
  const std::string types = a.name == "f16"
                                ? "." + c.name + "." + c.name
                                : "." + c.name + "." + a.name + "." + b.name + "." + c.name;
  const std::string operation = bits == Bits::kXor   ? ".xor.popc"
                                : bits == Bits::kAnd ? ".and.popc"
                                                     : "";
  program.name = "wmma" + operation + ".sync.aligned" + layout(a_column) + layout(b_column) + "." +
                 shape.Name() + types + layout(d_column);
  const unsigned step = wide ? 2 : 1;
  const unsigned b_at = a_words / step, c_at = b_at + b_words / step;
  const auto at = [](std::size_t n) { return "[%in+" + std::to_string(4 * n) + "]"; };
  const auto stride = [&](bool column, unsigned rows, unsigned columns) {
    return std::to_string(column ? rows : columns);
  };
  program.body =
      "wmma.load.a.sync.aligned" + layout(a_column) + "." + shape.Name() + ".global." + a.name +
      " " + Registers(0, a_words, wide) + ", " + at(0) + ", " + stride(a_column, shape.m, shape.k) +
      ";\nwmma.load.b.sync.aligned" + layout(b_column) + "." + shape.Name() + ".global." + b.name +
      " " + Registers(b_at, b_words, wide) + ", " + at(in_a.size()) + ", " +
      stride(b_column, shape.k, shape.n) + ";\nwmma.load.c.sync.aligned" + layout(d_column) + "." +
      shape.Name() + ".global." + c.name + " " + Registers(c_at, c_words, wide) + ", " +
      at(in_a.size() + in_b.size()) + ", " + stride(d_column, shape.m, shape.n) + ";\nwmma.mma" +
      operation + ".sync.aligned" + layout(a_column) + layout(b_column) + "." + shape.Name() +
      (wide ? ".rn" : "") + types + " " + Registers(c_at, c_words, wide) + ", " +
      Registers(0, a_words, wide) + ", " + Registers(b_at, b_words, wide) + ", " +
      Registers(c_at, c_words, wide) + ";\nld.param.u64 %rd29, [pout];\nwmma.store.d.sync.aligned" +
      layout(d_column) + "." + shape.Name() + ".global." + c.name + " [%rd29], " +
      Registers(c_at, c_words, wide) + ", " + stride(d_column, shape.m, shape.n) + ";";
  Programs().push_back(std::move(program));
}

// Tiles of 8 × 8 halves with consecutive numbers: element (row, column) of tile t is 64 t + 8 row +
// column.
void AddExchanges() {
  const auto word = [](unsigned tile, unsigned row, unsigned column, bool transposed) {
    const auto element = [&](unsigned c) {
      return 64 * tile + (transposed ? 8 * c + row : 8 * row + c);
    };
    return element(column) | element(column + 1) << 16;
  };
  for (const unsigned tiles : {1U, 2U, 4U}) {
    for (const bool transposed : {false, true}) {
      const std::string tail = ".sync.aligned.m8n8.x" + std::to_string(tiles) +
                               (transposed ? ".trans" : "") + ".shared.b16 ";
      std::string registers = "{";
      for (unsigned i = 0; i < tiles; ++i)
        registers += std::string(i == 0 ? "" : ", ") + "%r" + std::to_string(10 + i);
      registers += "}";
      Program load;
      load.group = "matrix";
      load.name = "ldmatrix" + tail;
      load.words_out = tiles;
      load.shared_bytes = 512;
      // Each lane writes one row of 16 bytes, then all load.
      load.body =
          "mov.u32 %r0, shared; shl.b32 %r1, %me, 4; add.u32 %r1, %r0, %r1; shl.b32 %r2, %me, 3; "
          "add.u32 %r3, %r2, 1;"
          "shl.b32 %r3, %r3, 16; or.b32 %r2, %r2, %r3; st.shared.u32 [%r1], %r2; add.u32 %r2, %r2, "
          "0x20002;"
          "st.shared.u32 [%r1+4], %r2; add.u32 %r2, %r2, 0x20002; st.shared.u32 [%r1+8], %r2; "
          "add.u32 %r2, %r2, 0x20002;"
          "st.shared.u32 [%r1+12], %r2; bar.warp.sync -1; ldmatrix" +
          tail + registers + ", [%r1];\n" + StoreWords(10, tiles, false);
      for (unsigned lane = 0; lane < kLanes; ++lane)
        for (unsigned t = 0; t < tiles; ++t)
          load.expected.push_back(word(t, lane / 4, lane % 4 * 2, transposed));
      Programs().push_back(load);
      Program store = load;
      store.name = "stmatrix" + tail;
      store.target = 90;
      store.words_out = 4;
      store.expected.clear();
      std::string make;
      for (unsigned t = 0; t < tiles; ++t) {
        // Lane l has row l / 4, columns 2 (l % 4) and the next.
        make += "shl.b32 %r2, %me, 1; add.u32 %r2, %r2, " + std::to_string(64 * t) +
                "; add.u32 %r3, %r2, 1; shl.b32 %r3, %r3, 16; or.b32 %r" + std::to_string(10 + t) +
                ", %r2, %r3;\n";
      }
      store.body =
          "mov.u32 %r0, shared; shl.b32 %r1, %me, 4; add.u32 %r1, %r0, %r1; mov.u32 %r4, -1;"
          "st.shared.v4.u32 [%r1], {%r4, %r4, %r4, %r4}; bar.warp.sync -1;\n" +
          make + "stmatrix" + tail + "[%r1], " + registers +
          "; bar.warp.sync -1; ld.shared.v4.u32 {%r10, %r11, %r12, %r13}, [%r1];\n" +
          StoreWords(10, 4, false);
      for (unsigned lane = 0; lane < kLanes; ++lane)
        for (unsigned i = 0; i < 4; ++i)
          store.expected.push_back(lane < 8 * tiles ? word(lane / 8, lane % 8, 2 * i, transposed)
                                                    : 0xffffffff);
      Programs().push_back(store);
    }
  }
  Program move;
  move.group = "matrix";
  move.name = "movmatrix.sync.aligned.m8n8.trans.b16";
  move.body =
      "shl.b32 %r2, %me, 1; add.u32 %r3, %r2, 1; shl.b32 %r3, %r3, 16; or.b32 %r2, %r2, %r3;" +
      move.name + " %r4, %r2; st.global.u32 [%out], %r4;";
  for (unsigned lane = 0; lane < kLanes; ++lane)
    move.expected.push_back(word(0, lane / 4, lane % 4 * 2, true));
  Programs().push_back(move);
}

}  // namespace

void AddMatrixPrograms() {
  for (const MatrixShape shape : {MatrixShape{16, 8, 8}, MatrixShape{16, 8, 16}}) {
    AddMma(shape, kF16, kF16, kF32, 80);
    AddMma(shape, kF16, kF16, kF16C, 80);
    AddMma(shape, kBf16, kBf16, kF32, 80);
  }
  AddMma({16, 8, 4}, kTf32, kTf32, kF32, 80);
  AddMma({16, 8, 8}, kTf32, kTf32, kF32, 80);
  AddMma({8, 8, 4}, kF64, kF64, kF64, 80);
  for (const unsigned k : {4U, 8U, 16U}) AddMma({16, 8, k}, kF64, kF64, kF64, 90);
  for (const MatrixShape shape :
       {MatrixShape{8, 8, 16}, MatrixShape{16, 8, 16}, MatrixShape{16, 8, 32}}) {
    for (const ElementFormat* a : {&kS8, &kU8})
      for (const ElementFormat* b : {&kS8, &kU8}) AddMma(shape, *a, *b, kS32, 80);
    AddMma(shape, kS8, kS8, kS32, 80, Bits::kNone, ".satfinite");
  }
  for (const MatrixShape shape :
       {MatrixShape{8, 8, 32}, MatrixShape{16, 8, 32}, MatrixShape{16, 8, 64}}) {
    AddMma(shape, kS4, kS4, kS32, 80);
    AddMma(shape, kU4, kS4, kS32, 80);
  }
  for (const MatrixShape shape :
       {MatrixShape{8, 8, 128}, MatrixShape{16, 8, 128}, MatrixShape{16, 8, 256}})
    for (const Bits bits : {Bits::kXor, Bits::kAnd}) AddMma(shape, kB1, kB1, kS32, 80, bits);
  for (const ElementFormat* a : {&kE4m3, &kE5m2})
    for (const ElementFormat* b : {&kE4m3, &kE5m2}) AddMma({16, 8, 32}, *a, *b, kF32, 89);
  for (const MatrixShape shape :
       {MatrixShape{16, 16, 16}, MatrixShape{8, 32, 16}, MatrixShape{32, 8, 16}}) {
    for (const bool a_column : {false, true})
      for (const bool b_column : {false, true}) {
        AddWmma(shape, kF16, kF16, kF32, a_column, b_column, a_column != b_column, 80);
        AddWmma(shape, kF16, kF16, kF16C, a_column, b_column, a_column, 80);
        AddWmma(shape, kBf16, kBf16, kF32, a_column, b_column, b_column, 80);
        AddWmma(shape, kS8, kS8, kS32, a_column, b_column, a_column, 80);
        AddWmma(shape, kU8, kU8, kS32, a_column, b_column, false, 80);
      }
  }
  AddWmma({16, 16, 8}, kTf32, kTf32, kF32, false, true, false, 80);
  AddWmma({16, 16, 8}, kTf32, kTf32, kF32, true, false, true, 80);
  AddWmma({8, 8, 4}, kF64, kF64, kF64, false, true, false, 80);
  AddWmma({8, 8, 4}, kF64, kF64, kF64, true, false, true, 80);
  AddWmma({8, 8, 32}, kS4, kS4, kS32, false, true, false, 80);
  AddWmma({8, 8, 32}, kU4, kU4, kS32, false, true, true, 80);
  AddWmma({8, 8, 128}, kB1, kB1, kS32, false, true, false, 80, Bits::kXor);
  AddWmma({8, 8, 128}, kB1, kB1, kS32, false, true, false, 80, Bits::kAnd);
  AddExchanges();
}

}  // namespace cuspan::ptx_forms
