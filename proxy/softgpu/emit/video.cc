// Instructions on bytes and half-words packed in a register: dot products and
// the SIMD video instructions. (PTX ISA, "dp4a", "dp2a", "SIMD Video Instructions")
#include "proxy/softgpu/emit/families.h"
#include "proxy/softgpu/emit/operations.h"

namespace cuspan::softgpu::emit {
namespace {

using llvm::Value;
using ptx::Type;

// Extracts element `index` of `bits` bits, extended to 32.
Value* Element(FunctionEmitter& e, Value* packed, unsigned bits, unsigned index, bool is_signed) {
  auto* const raised = e.b.CreateShl(packed, e.ConstInt(32, 32 - bits * (index + 1)));
  auto* const rest = e.ConstInt(32, 32 - bits);
  return is_signed ? e.b.CreateAShr(raised, rest) : e.b.CreateLShr(raised, rest);
}

// dp4a.atype.btype d, a, b, c: c plus the sum of four products of bytes.
void EmitDp4a(FunctionEmitter& e) {
  auto* const x = e.Read(1, e.type(0));
  auto* const y = e.Read(2, e.type(1));
  Value* sum = e.Read(3, Type::kB32);
  for (unsigned i = 0; i < 4; ++i)
    sum = e.b.CreateAdd(sum, e.b.CreateMul(Element(e, x, 8, i, ptx::IsSigned(e.type(0))),
                                           Element(e, y, 8, i, ptx::IsSigned(e.type(1)))));
  e.Write(sum, Type::kB32);
}

// dp2a.{lo,hi}.atype.btype d, a, b, c: two half-words of a times two bytes of b.
void EmitDp2a(FunctionEmitter& e) {
  const bool high = e.Consume("hi");
  if (!high && !e.Consume("lo")) e.Reject("neither .lo nor .hi is given");
  auto* const x = e.Read(1, e.type(0));
  auto* const y = e.Read(2, e.type(1));
  Value* sum = e.Read(3, Type::kB32);
  for (unsigned i = 0; i < 2; ++i)
    sum = e.b.CreateAdd(
        sum, e.b.CreateMul(Element(e, x, 16, i, ptx::IsSigned(e.type(0))),
                           Element(e, y, 8, i + (high ? 2 : 0), ptx::IsSigned(e.type(1)))));
  e.Write(sum, Type::kB32);
}

enum class Lanewise { kAdd, kSub, kAverage, kDifference, kMin, kMax };

Value* ApplyLanewise(FunctionEmitter& e, Lanewise operation, Value* x, Value* y) {
  switch (operation) {
    case Lanewise::kAdd:
      return e.b.CreateAdd(x, y);
    case Lanewise::kSub:
      return e.b.CreateSub(x, y);
    case Lanewise::kAverage:  // Rounded away from zero.
    {
      auto* const sum = e.b.CreateAdd(x, y);
      auto* const one = e.b.CreateSelect(e.b.CreateICmpSLT(sum, e.ConstInt(32, 0)),
                                         e.ConstInt(32, 0), e.ConstInt(32, 1));
      return e.b.CreateAShr(e.b.CreateAdd(sum, one), e.ConstInt(32, 1));
    }
    case Lanewise::kDifference:
      return e.b.CreateSub(IntegerMinMax(e, x, y, true, true), IntegerMinMax(e, x, y, false, true));
    case Lanewise::kMin:
      return IntegerMinMax(e, x, y, false, true);
    case Lanewise::kMax:
      return IntegerMinMax(e, x, y, true, true);
  }
  return x;
}

// vop{2,4}.dtype.atype.btype{.sat}{.add} d, a, b, c. Elements and their sign fit into 32 bits, so
// all arithmetic is signed. c is added by .add. Otherwise it provides elements excluded by a mask;
// masks are refused.
void EmitLanewise(FunctionEmitter& e, unsigned lanes, Lanewise operation) {
  const bool saturate = e.Consume("sat");
  const bool accumulate = e.Consume("add");
  auto* const x = e.Read(1, e.type(1));
  auto* const y = e.Read(2, e.type(2));
  Value* const c = e.Read(3, Type::kB32);
  if (ptx::BitsOf(e.type(1)) != 32 || ptx::BitsOf(e.type(2)) != 32)
    e.Reject("three types of 32 bits are expected");
  if (e.failed()) return;
  const unsigned bits = 32 / lanes;
  const bool is_signed = ptx::IsSigned(e.type(0));
  const std::int64_t low = is_signed ? -(std::int64_t{1} << (bits - 1)) : 0;
  const std::int64_t high = (std::int64_t{1} << (is_signed ? bits - 1 : bits)) - 1;
  Value* result = accumulate ? c : e.ConstInt(32, 0);
  for (unsigned i = 0; i < lanes; ++i) {
    Value* value = ApplyLanewise(e, operation, Element(e, x, bits, i, ptx::IsSigned(e.type(1))),
                                 Element(e, y, bits, i, ptx::IsSigned(e.type(2))));
    if (saturate) {
      value =
          IntegerMinMax(e, value, e.ConstInt(32, static_cast<std::uint64_t>(high)), false, true);
      value = IntegerMinMax(e, value, e.ConstInt(32, static_cast<std::uint64_t>(low)), true, true);
    }
    if (accumulate) {
      result = e.b.CreateAdd(result, value);
    } else {
      auto* const field = e.b.CreateAnd(value, e.ConstInt(32, (std::uint64_t{1} << bits) - 1));
      result = e.b.CreateOr(result, e.b.CreateShl(field, e.ConstInt(32, i * bits)));
    }
  }
  e.Write(result, Type::kB32);
}

template <unsigned lanes, Lanewise operation>
void EmitVideo(FunctionEmitter& e) {
  EmitLanewise(e, lanes, operation);
}

constexpr Opcode kVideoOpcodes[] = {
    {"dp4a", 4, 4, kWords, EmitDp4a},
    {"dp2a", 4, 4, kWords, EmitDp2a},
    {"vadd2", 4, 4, kWords, EmitVideo<2, Lanewise::kAdd>},
    {"vadd4", 4, 4, kWords, EmitVideo<4, Lanewise::kAdd>},
    {"vsub2", 4, 4, kWords, EmitVideo<2, Lanewise::kSub>},
    {"vsub4", 4, 4, kWords, EmitVideo<4, Lanewise::kSub>},
    {"vavrg2", 4, 4, kWords, EmitVideo<2, Lanewise::kAverage>},
    {"vavrg4", 4, 4, kWords, EmitVideo<4, Lanewise::kAverage>},
    {"vabsdiff2", 4, 4, kWords, EmitVideo<2, Lanewise::kDifference>},
    {"vabsdiff4", 4, 4, kWords, EmitVideo<4, Lanewise::kDifference>},
    {"vmin2", 4, 4, kWords, EmitVideo<2, Lanewise::kMin>},
    {"vmin4", 4, 4, kWords, EmitVideo<4, Lanewise::kMin>},
    {"vmax2", 4, 4, kWords, EmitVideo<2, Lanewise::kMax>},
    {"vmax4", 4, 4, kWords, EmitVideo<4, Lanewise::kMax>},
};

}  // namespace

std::span<const Opcode> VideoOpcodes() { return kVideoOpcodes; }

}  // namespace cuspan::softgpu::emit
