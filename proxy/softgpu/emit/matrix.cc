// Matrix instructions of a warp: mma, wmma, ldmatrix, stmatrix, movmatrix. The runtime does the
// arithmetic and the exchange between lanes. (PTX ISA, "Warp Level Matrix Multiply-Accumulate
// Instructions")
#include <charconv>
#include <optional>

#include "proxy/softgpu/emit/families.h"
#include "proxy/softgpu/emit/lane_words.h"
#include "proxy/softgpu/emit/operations.h"
#include "proxy/softgpu/rt/abi.h"
#include "proxy/softgpu/rt/matrix.h"

namespace cuspan::softgpu::emit {
namespace {

using llvm::Value;
using ptx::Operand;
using ptx::Space;
using ptx::Type;

std::optional<MatrixType> MatrixTypeNamed(std::string_view name) {
  static constexpr struct {
    std::string_view name;
    MatrixType type;
  } kNames[] = {
      {"f16", MatrixType::kF16},   {"bf16", MatrixType::kBf16}, {"tf32", MatrixType::kTf32},
      {"f32", MatrixType::kF32},   {"f64", MatrixType::kF64},   {"e4m3", MatrixType::kE4m3},
      {"e5m2", MatrixType::kE5m2}, {"s8", MatrixType::kS8},     {"u8", MatrixType::kU8},
      {"s4", MatrixType::kS4},     {"u4", MatrixType::kU4},     {"b1", MatrixType::kB1},
      {"s32", MatrixType::kS32},
  };
  for (const auto& known : kNames)
    if (known.name == name) return known.type;
  return std::nullopt;
}

bool IsFloat(MatrixType type) { return type < MatrixType::kS8; }

// Reads the types named by the instruction, in order.
std::vector<MatrixType> ConsumeTypes(FunctionEmitter& e) {
  std::vector<MatrixType> types;
  for (auto modifier : e.instruction().modifiers) {
    const auto type = MatrixTypeNamed(modifier);
    if (!type.has_value()) continue;
    e.Consume(modifier);
    types.push_back(*type);
  }
  return types;
}

// Reads "m16n8k16".
bool ConsumeShape(FunctionEmitter& e, MatrixOperation* op) {
  for (auto modifier : e.instruction().modifiers) {
    const char* at = modifier.data();
    const char* const end = at + modifier.size();
    const auto number = [&](char letter, unsigned* value) {
      if (at == end || *at != letter) return false;
      const auto result = std::from_chars(at + 1, end, *value);
      at = result.ptr;
      return result.ec == std::errc();
    };
    if (number('m', &op->m) && number('n', &op->n) && number('k', &op->k) && at == end) {
      e.Consume(modifier);
      return true;
    }
  }
  return false;
}

struct TileShape {
  unsigned m, n, k;
};
bool IsOneOf(const MatrixOperation& op, std::initializer_list<TileShape> shapes) {
  for (const TileShape& shape : shapes)
    if (shape.m == op.m && shape.n == op.n && shape.k == op.k) return true;
  return false;
}

bool HasMmaShape(const MatrixOperation& op) {
  switch (op.a) {
    case MatrixType::kF16:
    case MatrixType::kBf16:
      return IsOneOf(op, {{16, 8, 8}, {16, 8, 16}}) ||
             (op.a == MatrixType::kF16 && IsOneOf(op, {{8, 8, 4}}));
    case MatrixType::kTf32:
      return IsOneOf(op, {{16, 8, 4}, {16, 8, 8}});
    case MatrixType::kF64:
      return IsOneOf(op, {{8, 8, 4}, {16, 8, 4}, {16, 8, 8}, {16, 8, 16}});
    case MatrixType::kE4m3:
    case MatrixType::kE5m2:
      return IsOneOf(op, {{16, 8, 16}, {16, 8, 32}});
    case MatrixType::kS8:
    case MatrixType::kU8:
      return IsOneOf(op, {{8, 8, 16}, {16, 8, 16}, {16, 8, 32}});
    case MatrixType::kS4:
    case MatrixType::kU4:
      return IsOneOf(op, {{8, 8, 32}, {16, 8, 32}, {16, 8, 64}});
    case MatrixType::kB1:
      return IsOneOf(op, {{8, 8, 128}, {16, 8, 128}, {16, 8, 256}});
    default:
      return false;
  }
}

bool HasWmmaShape(const MatrixOperation& op) {
  switch (op.a) {
    case MatrixType::kF16:
    case MatrixType::kBf16:
    case MatrixType::kS8:
    case MatrixType::kU8:
      return IsOneOf(op, {{16, 16, 16}, {8, 32, 16}, {32, 8, 16}});
    case MatrixType::kTf32:
      return IsOneOf(op, {{16, 16, 8}});
    case MatrixType::kF64:
      return IsOneOf(op, {{8, 8, 4}});
    case MatrixType::kS4:
    case MatrixType::kU4:
      return IsOneOf(op, {{8, 8, 32}});
    case MatrixType::kB1:
      return IsOneOf(op, {{8, 8, 128}});
    default:
      return false;
  }
}

// True if the types of A, B, C and D match.
bool HasMatchingTypes(const MatrixOperation& op) {
  const bool c_and_d = op.c == op.d || op.a == MatrixType::kF16;
  switch (op.a) {
    case MatrixType::kF16:
      return op.b == op.a && c_and_d && (op.c == MatrixType::kF16 || op.c == MatrixType::kF32) &&
             (op.d == MatrixType::kF16 || op.d == MatrixType::kF32);
    case MatrixType::kBf16:
    case MatrixType::kTf32:
      return op.b == op.a && c_and_d && op.c == MatrixType::kF32;
    case MatrixType::kE4m3:
    case MatrixType::kE5m2:
      return (op.b == MatrixType::kE4m3 || op.b == MatrixType::kE5m2) && c_and_d &&
             (op.c == MatrixType::kF32 || op.c == MatrixType::kF16);
    case MatrixType::kF64:
      return op.b == op.a && c_and_d && op.c == MatrixType::kF64;
    default:
      return !IsFloat(op.b) && BitsOf(op.a) == BitsOf(op.b) && op.c == MatrixType::kS32 &&
             op.d == MatrixType::kS32;
  }
}

// Stores the words of a fragment's registers from word `first` on; returns their number.
unsigned PutFragment(FunctionEmitter& e, LaneWords& words, unsigned first, const Operand& operand,
                     unsigned expected) {
  unsigned count = 0;
  const auto put = [&](const Operand& element) {
    const bool wide = e.OperandBits(element) == 64;
    if (count + (wide ? 2 : 1) > expected) {
      count = expected + 1;
    } else if (wide) {
      words.PutWide(first + count, e.Read(element, Type::kB64));
      count += 2;
    } else {
      words.Put(first + count++, e.Read(element, Type::kB32));
    }
  };
  if (operand.kind == Operand::Kind::kVector) {
    for (const Operand& element : operand.elements) put(element);
  } else {
    put(operand);
  }
  if (count != expected) e.Reject("an operand has the wrong number of registers");
  return count;
}

void GetFragment(FunctionEmitter& e, LaneWords& words, const Operand& operand, unsigned expected) {
  unsigned count = 0;
  const auto get = [&](const Operand& element) {
    if (e.OperandBits(element) == 64) {
      if (count + 2 <= expected) e.Write(element, words.GetWide(count), Type::kB64);
      count += 2;
    } else {
      if (count < expected) e.Write(element, words.Get(count), Type::kB32);
      ++count;
    }
  };
  if (operand.kind == Operand::Kind::kVector) {
    for (const Operand& element : operand.elements) get(element);
  } else {
    get(operand);
  }
  if (count != expected) e.Reject("the destination has the wrong number of registers");
}

// Executes the operation on the words of all lanes of the warp.
void Exchange(FunctionEmitter& e, const MatrixOperation& op, LaneWords& words) {
  auto* const packed = e.b.getInt64(op.Pack());
  if (words.lanes() == 1) {
    e.CallRuntime("cuspan_rt_matrix", e.b.getVoidTy(),
                  {e.ContextPointer(), packed, words.memory()});
  } else {
    e.CallRuntime("cuspan_rt_matrix_warp", e.b.getVoidTy(), {packed, words.memory()});
  }
}

void EmitMultiplication(FunctionEmitter& e, const MatrixOperation& op) {
  if (e.failed()) return;
  LaneWords words(e, op.words());
  unsigned at = PutFragment(e, words, 0, e.operand(1), op.a_words());
  if (!e.failed()) at += PutFragment(e, words, at, e.operand(2), op.b_words());
  if (!e.failed()) PutFragment(e, words, at, e.operand(3), op.c_words());
  if (e.failed()) return;
  Exchange(e, op, words);
  GetFragment(e, words, e.operand(0), op.d_words());
  words.End();
}

// Reads .satfinite and, for .b1, the operation.
void ConsumeArithmetic(FunctionEmitter& e, MatrixOperation* op) {
  const bool finite = e.Consume("satfinite");
  op->saturate = finite && !IsFloat(op->a);
  if (finite && IsFloat(op->a)) e.Refuse("the modifier '.satfinite' is not implemented here");
  if (op->a != MatrixType::kB1) return;
  op->bits_and = e.Consume("and");
  if (!op->bits_and && !e.Consume("xor")) e.Reject("neither .xor nor .and is given");
  e.Consume("popc");
}

// Reads .row or .col for A and then for B.
void ConsumeLayouts(FunctionEmitter& e, MatrixOperation* op) {
  unsigned count = 0;
  for (auto modifier : e.instruction().modifiers) {
    if (modifier != "row" && modifier != "col") continue;
    e.Consume(modifier);
    (count++ == 0 ? op->a_column : op->b_column) = modifier == "col";
  }
  if (count != 2) e.Reject("the layouts of A and B are expected");
}

// mma.sync.aligned.shape.row.col{.satfinite}.dtype.atype.btype.ctype d, a, b, c
void EmitMma(FunctionEmitter& e) {
  if (!e.Consume("sync")) e.Reject(".sync is missing");
  e.Consume("aligned");
  if (e.instruction().Has("kind::f8f6f4")) e.Consume("kind::f8f6f4");
  MatrixOperation op;
  if (!ConsumeShape(e, &op)) e.Reject("it names no shape");
  ConsumeLayouts(e, &op);
  const auto types = ConsumeTypes(e);
  if (types.size() != 4) {
    e.Reject("the types of D, A, B and C are expected");
    return;
  }
  op.d = types[0];
  op.a = types[1];
  op.b = types[2];
  op.c = types[3];
  if (!HasMmaShape(op) || !HasMatchingTypes(op)) {
    e.Refuse("this shape with these types is not implemented");
    return;
  }
  const bool quads = op.a == MatrixType::kF16 && op.m == 8;
  if (quads) {
    op.kind = MatrixKind::kMultiplyQuad;
  } else if (op.a_column || !op.b_column) {
    e.Reject("A must be .row and B .col");
  }
  ConsumeArithmetic(e, &op);
  EmitMultiplication(e, op);
}

// --- wmma

struct WmmaMatrix {
  unsigned rows, columns;
  bool by_columns;  // A lane's consecutive elements go down a column.
  MatrixType type;
  unsigned words;  // 32-bit registers.
};

// Offset of the lane's element `i` from the first element of the matrix, in elements.
Value* ElementOffset(FunctionEmitter& e, const WmmaMatrix& matrix, Value* lane, unsigned per_lane,
                     unsigned i, bool column_layout, Value* stride) {
  auto* const index =
      e.b.CreateAdd(e.b.CreateMul(lane, e.ConstInt(32, per_lane)), e.ConstInt(32, i));
  const unsigned length = matrix.by_columns ? matrix.rows : matrix.columns;  // Power of two.
  auto* const along = e.b.CreateAnd(index, e.ConstInt(32, length - 1));
  auto* const across = e.b.CreateUDiv(index, e.ConstInt(32, length));
  // Lines in the direction of the memory layout are `stride` apart.
  const bool along_is_contiguous = matrix.by_columns == column_layout;
  auto* const line = along_is_contiguous ? across : along;
  auto* const place = along_is_contiguous ? along : across;
  const auto wide = [&](Value* v) { return e.b.CreateZExt(v, e.Int(64)); };
  return e.b.CreateAdd(e.b.CreateMul(wide(line), wide(stride)), wide(place));
}

// Calls `visit` for the elements of the lane's fragment with their addresses; used by wmma.load and
// wmma.store.
template <typename Visit>
void WalkFragment(FunctionEmitter& e, const WmmaMatrix& matrix, const Operand& address,
                  Value* stride, bool column_layout, Visit visit) {
  const unsigned bits = BitsOf(matrix.type);
  const unsigned per_lane = matrix.rows * matrix.columns / 32;
  const Space space = e.ConsumeSpace();
  auto* const base = e.Address(address, space, 0);
  auto* const lane = e.ContextField(offsetof(ThreadContext, lane), e.Int(32));
  // Elements narrower than a byte are moved in whole words, because their lines are contiguous.
  const unsigned step = bits < 8 ? 32 / bits : 1;
  if (e.failed()) return;
  for (unsigned i = 0; i < per_lane; i += step) {
    Value* offset = ElementOffset(e, matrix, lane, per_lane, i, column_layout, stride);
    offset = bits < 8 ? e.b.CreateUDiv(offset, e.ConstInt(64, 8 / bits))
                      : e.b.CreateMul(offset, e.ConstInt(64, bits / 8));
    visit(i, e.b.CreateGEP(e.b.getInt8Ty(), base, offset));
  }
}

// Matrix named by .a, .b, .c or .d, with its type and shape.
std::optional<WmmaMatrix> ConsumeMatrix(FunctionEmitter& e) {
  MatrixOperation op;
  op.kind = MatrixKind::kMultiplyWmma;
  const bool is_a = e.Consume("a");
  const bool is_b = !is_a && e.Consume("b");
  if (!is_a && !is_b && !e.Consume("c") && !e.Consume("d")) {
    e.Reject("one of .a, .b, .c and .d is expected");
    return std::nullopt;
  }
  const auto types = ConsumeTypes(e);
  if (!ConsumeShape(e, &op) || types.size() != 1) {
    e.Reject("a shape and a type are expected");
    return std::nullopt;
  }
  op.a = op.b = op.c = types[0];
  if (is_a || is_b) {
    if (!HasWmmaShape(op)) e.Refuse("this shape with this type is not implemented");
  } else {
    // The types of A and B are unknown for accumulators.
    const bool known =
        op.c == MatrixType::kF64 ? IsOneOf(op, {{8, 8, 4}})
        : op.c == MatrixType::kS32
            ? IsOneOf(op, {{16, 16, 16}, {8, 32, 16}, {32, 8, 16}, {8, 8, 32}, {8, 8, 128}})
            : (op.c == MatrixType::kF16 || op.c == MatrixType::kF32) &&
                  IsOneOf(op, {{16, 16, 16}, {8, 32, 16}, {32, 8, 16}, {16, 16, 8}});
    if (!known) e.Refuse("this shape with this type is not implemented");
  }
  if (e.failed()) return std::nullopt;
  if (is_a) return WmmaMatrix{op.m, op.k, false, op.a, op.a_words()};
  if (is_b) return WmmaMatrix{op.k, op.n, true, op.b, op.b_words()};
  return WmmaMatrix{op.m, op.n, false, op.c, op.c_words()};
}

bool ConsumeColumnLayout(FunctionEmitter& e) {
  const bool column = e.Consume("col");
  if (!column && !e.Consume("row")) e.Reject("neither .row nor .col is given");
  return column;
}

// Distance between rows or columns: operand `i`, or the distance in a matrix without gaps.
Value* ReadStride(FunctionEmitter& e, std::size_t i, const WmmaMatrix& matrix, bool column_layout) {
  if (e.operand_count() > i) return e.Read(i, Type::kU32);
  return e.ConstInt(32, column_layout ? matrix.rows : matrix.columns);
}

llvm::ArrayRef<Operand> Registers(const Operand& operand) {
  if (operand.kind == Operand::Kind::kVector) return operand.elements;
  return operand;
}

// wmma.load.{a,b,c}.sync.aligned.layout.shape{.space}.type r, [p]{, stride}
void EmitWmmaLoad(FunctionEmitter& e) {
  const auto matrix = ConsumeMatrix(e);
  const bool column = ConsumeColumnLayout(e);
  if (!matrix.has_value() || e.failed()) return;
  auto* const stride = ReadStride(e, 2, *matrix, column);
  const unsigned bits = BitsOf(matrix->type);
  const auto registers = Registers(e.operand(0));
  if (registers.size() * (bits == 64 ? 2 : 1) != matrix->words) {
    e.Reject("the destination has the wrong number of registers");
    return;
  }
  const Type element = ptx::BitsType(std::max(bits, 8U) < 32 && bits >= 8 ? bits
                                     : bits == 64                         ? 64
                                                                          : 32);
  std::vector<Value*> values(registers.size(), nullptr);
  const unsigned per_register = bits == 64 ? 1 : 32 / bits;
  WalkFragment(e, *matrix, e.operand(1), stride, column, [&](unsigned i, Value* address) {
    Value* value = e.b.CreateAlignedLoad(e.Int(ptx::BitsOf(element)), address, llvm::Align(1));
    Value*& target = values[i / per_register];
    if (ptx::BitsOf(element) < 32) {
      value =
          e.b.CreateShl(e.b.CreateZExt(value, e.Int(32)), e.ConstInt(32, i % per_register * bits));
      if (target != nullptr) value = e.b.CreateOr(target, value);
    }
    target = value;
  });
  // Fragments of f16 have more registers than elements; the remaining ones repeat the elements.
  const std::size_t filled = matrix->rows * matrix->columns / 32 / per_register;
  for (std::size_t i = 0; i < registers.size() && !e.failed(); ++i)
    e.Write(registers[i], values[i % std::max<std::size_t>(filled, 1)],
            bits == 64 ? Type::kB64 : Type::kB32);
}

// wmma.store.d.sync.aligned.layout.shape{.space}.type [p], r{, stride}
void EmitWmmaStore(FunctionEmitter& e) {
  const auto matrix = ConsumeMatrix(e);
  const bool column = ConsumeColumnLayout(e);
  if (!matrix.has_value() || e.failed()) return;
  auto* const stride = ReadStride(e, 2, *matrix, column);
  const unsigned bits = BitsOf(matrix->type);
  const auto registers = Registers(e.operand(1));
  if (registers.size() * (bits == 64 ? 2 : 1) != matrix->words) {
    e.Reject("an operand has the wrong number of registers");
    return;
  }
  const unsigned per_register = bits == 64 ? 1 : 32 / bits;
  WalkFragment(e, *matrix, e.operand(0), stride, column, [&](unsigned i, Value* address) {
    Value* value = e.Read(registers[i / per_register], bits == 64 ? Type::kB64 : Type::kB32);
    if (bits == 16) {
      value = e.b.CreateTrunc(e.b.CreateLShr(value, e.ConstInt(32, i % per_register * bits)),
                              e.Int(16));
    }
    e.b.CreateAlignedStore(value, address, llvm::Align(1));
  });
}

// wmma.mma{.op.popc}.sync.aligned.alayout.blayout.shape{.dtype{.atype.btype}.ctype} d, a, b, c
void EmitWmmaMultiply(FunctionEmitter& e) {
  MatrixOperation op;
  op.kind = MatrixKind::kMultiplyWmma;
  ConsumeLayouts(e, &op);
  if (!ConsumeShape(e, &op)) e.Reject("it names no shape");
  const auto types = ConsumeTypes(e);
  if (types.size() == 2) {  // f16: only types of D and C.
    op.a = op.b = MatrixType::kF16;
    op.d = types[0];
    op.c = types[1];
  } else if (types.size() == 4) {
    op.d = types[0];
    op.a = types[1];
    op.b = types[2];
    op.c = types[3];
  } else {
    e.Reject("the types of D and C, or of all four matrices, are expected");
    return;
  }
  if (op.a == MatrixType::kF64) e.ConsumeRounding(Rounding::kNearest);
  if (!HasWmmaShape(op) || !HasMatchingTypes(op)) {
    e.Refuse("this shape with these types is not implemented");
    return;
  }
  ConsumeArithmetic(e, &op);
  EmitMultiplication(e, op);
}

void EmitWmma(FunctionEmitter& e) {
  if (!e.Consume("sync")) e.Reject(".sync is missing");
  e.Consume("aligned");
  if (e.Consume("load")) {
    EmitWmmaLoad(e);
  } else if (e.Consume("store")) {
    EmitWmmaStore(e);
  } else if (e.Consume("mma")) {
    EmitWmmaMultiply(e);
  } else {
    e.Refuse("only .load, .store and .mma are implemented");
  }
}

// --- ldmatrix, stmatrix, movmatrix

// Reads .m8n8.x{1,2,4}{.trans}.b16.
MatrixOperation ConsumeTiles(FunctionEmitter& e, MatrixKind kind) {
  MatrixOperation op;
  op.kind = kind;
  if (!e.Consume("sync")) e.Reject(".sync is missing");
  e.Consume("aligned");
  if (!e.Consume("m8n8") || e.type() != Type::kB16) e.Refuse("only .m8n8 of .b16 is implemented");
  op.tiles = e.Consume("x4") ? 4 : e.Consume("x2") ? 2 : 1;
  e.Consume("x1");
  op.transposed = e.Consume("trans");
  return op;
}

// Address of the row named by the lane. Lanes beyond the tiles' rows get 16 bytes of the frame
// instead.
Value* RowAddress(FunctionEmitter& e, const MatrixOperation& op, const Operand& address) {
  constexpr unsigned kRowBytes = 16;
  auto* const lane = e.ContextField(offsetof(ThreadContext, lane), e.Int(32));
  auto* const row = e.Address(address, e.ConsumeSpace(), kRowBytes);
  auto* const none = e.FrameBytes(kRowBytes, kRowBytes);
  for (unsigned i = 0; i < kRowBytes; i += 8)
    e.b.CreateStore(e.b.getInt64(0), e.b.CreateConstInBoundsGEP1_64(e.b.getInt8Ty(), none, i));
  return e.b.CreateSelect(e.b.CreateICmpULT(lane, e.ConstInt(32, 8 * op.tiles)), row, none);
}

Value* WordOf(FunctionEmitter& e, Value* row, unsigned i) {
  return i == 0 ? row : e.b.CreateConstGEP1_64(e.b.getInt8Ty(), row, 4 * i);
}

// ldmatrix.sync.aligned.m8n8.num{.trans}{.shared}.b16 r, [p]
void EmitLdmatrix(FunctionEmitter& e) {
  const auto op = ConsumeTiles(e, MatrixKind::kLoad);
  auto* const row = RowAddress(e, op, e.operand(1));
  if (e.failed()) return;
  LaneWords words(e, op.words());
  for (unsigned i = 0; i < 4; ++i)
    words.Put(i, e.b.CreateAlignedLoad(e.Int(32), WordOf(e, row, i), llvm::Align(1)));
  Exchange(e, op, words);
  GetFragment(e, words, e.operand(0), op.tiles);
  words.End();
}

// stmatrix.sync.aligned.m8n8.num{.trans}{.shared}.b16 [p], r
void EmitStmatrix(FunctionEmitter& e) {
  const auto op = ConsumeTiles(e, MatrixKind::kStore);
  auto* const row = RowAddress(e, op, e.operand(0));
  if (e.failed()) return;
  LaneWords words(e, op.words());
  PutFragment(e, words, 0, e.operand(1), op.tiles);
  if (e.failed()) return;
  Exchange(e, op, words);
  for (unsigned i = 0; i < 4; ++i)
    e.b.CreateAlignedStore(words.Get(i), WordOf(e, row, i), llvm::Align(1));
  words.End();
}

// movmatrix.sync.aligned.m8n8.trans.b16 d, a
void EmitMovmatrix(FunctionEmitter& e) {
  const auto op = ConsumeTiles(e, MatrixKind::kTranspose);
  auto* const value = e.Read(1, Type::kB32);
  if (!op.transposed) e.Reject(".trans is missing");
  if (e.failed()) return;
  LaneWords words(e, op.words());
  words.Put(0, value);
  Exchange(e, op, words);
  e.Write(words.Get(0), Type::kB32);
  words.End();
}

constexpr Opcode kMatrixOpcodes[] = {
    {"mma", 4, 4, kAnyType, EmitMma},
    {"wmma", 2, 4, kAnyType, EmitWmma},
    {"ldmatrix", 2, 2, kAnyType, EmitLdmatrix},
    {"stmatrix", 2, 2, kAnyType, EmitStmatrix},
    {"movmatrix", 2, 2, kAnyType, EmitMovmatrix},
};

}  // namespace

std::span<const Opcode> MatrixOpcodes() { return kMatrixOpcodes; }

}  // namespace cuspan::softgpu::emit
