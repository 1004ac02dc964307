// Textures and surfaces: passes the words of an instruction to the runtime. (PTX ISA, "Texture
// Instructions", "Surface Instructions")
#include <optional>

#include "proxy/softgpu/emit/families.h"
#include "proxy/softgpu/emit/lane_words.h"
#include "proxy/softgpu/rt/abi.h"
#include "proxy/softgpu/rt/image_operation.h"

namespace cuspan::softgpu::emit {
namespace {

using llvm::Value;
using ptx::Operand;
using ptx::Type;

std::optional<ImageGeometry> ConsumeGeometry(FunctionEmitter& e) {
  static constexpr struct {
    std::string_view name;
    ImageGeometry geometry;
  } kNames[] = {
      {"1d", ImageGeometry::k1D},           {"2d", ImageGeometry::k2D},
      {"3d", ImageGeometry::k3D},           {"a1d", ImageGeometry::k1DArray},
      {"a2d", ImageGeometry::k2DArray},     {"cube", ImageGeometry::kCube},
      {"acube", ImageGeometry::kCubeArray},
  };
  for (const auto& known : kNames)
    if (e.Consume(known.name)) return known.geometry;
  e.Refuse("its geometry is not implemented");
  return std::nullopt;
}

unsigned DimensionsOf(ImageGeometry geometry) {
  switch (geometry) {
    case ImageGeometry::k1D:
    case ImageGeometry::k1DArray:
      return 1;
    case ImageGeometry::k2D:
    case ImageGeometry::k2DArray:
      return 2;
    default:
      return 3;
  }
}

bool HasLayers(ImageGeometry geometry) {
  return geometry == ImageGeometry::k1DArray || geometry == ImageGeometry::k2DArray ||
         geometry == ImageGeometry::kCubeArray;
}

llvm::ArrayRef<Operand> ElementsOf(const Operand& operand) {
  if (operand.kind == Operand::Kind::kVector) return operand.elements;
  return operand;
}

// Stores the handle in operand `i`, "[handle, coordinates]".
void PutHandle(FunctionEmitter& e, LaneWords& words, std::size_t i) {
  const Operand& operand = e.operand(i);
  if (operand.kind != Operand::Kind::kAddress || operand.elements.empty() ||
      e.OperandBits(operand.elements[0]) != 64) {
    e.Refuse("only handles in 64-bit registers are implemented");
    return;
  }
  words.PutWide(kImageHandleWord, e.Read(operand.elements[0], Type::kU64));
}

// Stores `least` to `most` words of an operand from word `first` on.
void PutWords(FunctionEmitter& e, LaneWords& words, const Operand& operand, unsigned first,
              unsigned least, unsigned most) {
  const auto elements = ElementsOf(operand);
  if (elements.size() < least) {
    e.Reject("a vector operand is too short");
    return;
  }
  for (unsigned i = 0; i < elements.size() && i < most && !e.failed(); ++i)
    words.Put(first + i, e.Read(elements[i], Type::kB32));
}

void PutCoordinates(FunctionEmitter& e, LaneWords& words, std::size_t i, ImageGeometry geometry) {
  const Operand& operand = e.operand(i);
  const unsigned count = DimensionsOf(geometry) + (HasLayers(geometry) ? 1 : 0);
  if (operand.elements.size() != 2) {
    e.Refuse("only '[handle, coordinates]' is implemented");  // No separate samplers.
    return;
  }
  PutWords(e, words, operand.elements[1], kImageCoordinateWord, count, count);
}

void CallRuntime(FunctionEmitter& e, const ImageOperation& operation, LaneWords& words) {
  if (e.failed()) return;
  e.CallRuntime("cuspan_rt_image", e.b.getVoidTy(),
                {e.ContextPointer(), e.b.getInt64(operation.Pack()), e.b.getInt32(1),
                 words.memory(), e.b.getInt32(words.lanes())});
}

// Writes the results to a vector of 32-bit registers.
void WriteTexel(FunctionEmitter& e, LaneWords& words) {
  if (e.failed()) return;
  const Operand* destination = &e.operand(0);
  if (destination->kind == Operand::Kind::kPair) {
    e.Refuse("the predicate of sparse textures is not implemented");
    return;
  }
  const auto elements = ElementsOf(*destination);
  if (elements.size() != 4) {
    e.Refuse("only vectors of four elements are implemented");
    return;
  }
  llvm::SmallVector<Value*, 4> values;
  for (unsigned i = 0; i < 4; ++i) values.push_back(words.Get(i));
  for (unsigned i = 0; i < 4; ++i) e.Write(elements[i], values[i], Type::kB32);
}

bool IsTexelType(Type type) {
  return type == Type::kF32 || type == Type::kU32 || type == Type::kS32;
}

// tex{.base|.level|.grad}.geometry.v4.dtype.ctype d, [a, c]{, lod | dx, dy}{, e}{, f}
void EmitTex(FunctionEmitter& e) {
  ImageOperation operation;
  if (e.Consume("level")) operation.level = ImageLevel::kExplicit;
  if (e.Consume("grad")) operation.level = ImageLevel::kGradient;
  e.Consume("base");
  const auto geometry = ConsumeGeometry(e);
  if (!e.Consume("v4") || !IsTexelType(e.type(0)))
    e.Refuse("only four results of 32 bits are implemented");
  operation.float_coordinates = e.type(1) == Type::kF32;
  if (!operation.float_coordinates && e.type(1) != Type::kS32)
    e.Reject("the coordinates are neither .f32 nor .s32");
  if (!geometry.has_value() || e.failed()) return;
  operation.geometry = *geometry;
  LaneWords words(e, kImageWords);
  PutHandle(e, words, 1);
  PutCoordinates(e, words, 1, *geometry);
  const unsigned dimensions = DimensionsOf(*geometry);
  std::size_t next = 2;
  if (operation.level == ImageLevel::kExplicit) {
    words.Put(kImageLevelWord, e.Read(next++, Type::kB32));
    if (!operation.float_coordinates)
      e.Refuse("levels with integer coordinates are not implemented");
  } else if (operation.level == ImageLevel::kGradient) {
    for (unsigned i = 0; i < 2; ++i)
      PutWords(e, words, e.operand(next++), kImageLevelWord + 3 * i, dimensions, dimensions);
  }
  if (next < e.operand_count() && e.operand(next).kind == Operand::Kind::kVector) {
    operation.has_offset = true;
    PutWords(e, words, e.operand(next++), kImageOffsetWord, dimensions, dimensions);
  }
  if (next < e.operand_count()) e.Refuse("depth comparison is not implemented");
  CallRuntime(e, operation, words);
  WriteTexel(e, words);
  words.End();
}

// tld4.{r,g,b,a}.2d.v4.dtype.f32 d, [a, c]{, e}
void EmitTld4(FunctionEmitter& e) {
  ImageOperation operation;
  operation.kind = ImageKind::kGather;
  if (e.Consume("g")) operation.component = 1;
  if (e.Consume("b")) operation.component = 2;
  if (e.Consume("a")) operation.component = 3;
  e.Consume("r");
  const auto geometry = ConsumeGeometry(e);
  if (!e.Consume("v4") || !IsTexelType(e.type(0)) || e.type(1) != Type::kF32)
    e.Refuse("only four results of 32 bits and coordinates of .f32 are implemented");
  if (!geometry.has_value() || e.failed()) return;
  operation.geometry = *geometry;
  if (DimensionsOf(*geometry) != 2) e.Refuse("its geometry is not implemented");
  LaneWords words(e, kImageWords);
  PutHandle(e, words, 1);
  PutCoordinates(e, words, 1, *geometry);
  if (e.operand_count() > 2 && e.operand(2).kind == Operand::Kind::kVector) {
    operation.has_offset = true;
    PutWords(e, words, e.operand(2), kImageOffsetWord, 2, 2);
  } else if (e.operand_count() > 2) {
    e.Refuse("depth comparison is not implemented");
  }
  CallRuntime(e, operation, words);
  WriteTexel(e, words);
  words.End();
}

// txq{.level}.query.b32 d, [a]{, lod} and suq.query.b32 d, [a]
void EmitQuery(FunctionEmitter& e) {
  static constexpr struct {
    std::string_view name;
    ImageQuery query;
  } kQueries[] = {
      {"width", ImageQuery::kWidth},         {"height", ImageQuery::kHeight},
      {"depth", ImageQuery::kDepth},         {"channel_data_type", ImageQuery::kDataType},
      {"channel_order", ImageQuery::kOrder}, {"normalized_coords", ImageQuery::kNormalised},
      {"array_size", ImageQuery::kLayers},   {"num_mipmap_levels", ImageQuery::kLevels},
      {"num_samples", ImageQuery::kSamples},
  };
  ImageOperation operation;
  operation.kind = ImageKind::kQuery;
  operation.of_surface = e.instruction().opcode == "suq";
  operation.at_level = e.Consume("level");
  bool known = false;
  for (const auto& query : kQueries) {
    if (!e.Consume(query.name)) continue;
    operation.query = query.query;
    known = true;
  }
  if (!known) {
    e.Refuse("this query is not implemented");
    return;
  }
  LaneWords words(e, kImageWords);
  PutHandle(e, words, 1);
  if (operation.at_level) words.Put(kImageLevelWord, e.Read(2, Type::kB32));
  CallRuntime(e, operation, words);
  if (!e.failed()) e.Write(words.Get(0), Type::kB32);
  words.End();
}

// --- Surfaces

// Reads .v2 and .v4, the type, and .trap, .clamp and .zero.
ImageOperation ConsumeSurfaceAccess(FunctionEmitter& e, ImageKind kind) {
  ImageOperation operation;
  operation.kind = kind;
  if (const auto geometry = ConsumeGeometry(e); geometry.has_value()) {
    operation.geometry = *geometry;
    if (*geometry == ImageGeometry::kCube || *geometry == ImageGeometry::kCubeArray)
      e.Reject("surfaces of cubemaps are accessed as layers");
  }
  for (std::string_view hint : {"ca", "cg", "cs", "cv", "wb", "wt"}) e.Consume(hint);
  operation.elements = e.Consume("v4") ? 4 : e.Consume("v2") ? 2 : 1;
  operation.element_bytes = static_cast<std::uint8_t>(ptx::BytesOf(e.type()));
  if (e.Consume("clamp")) operation.edge = SurfaceEdge::kClamp;
  if (e.Consume("zero")) operation.edge = SurfaceEdge::kZero;
  e.Consume("trap");
  if (operation.element_bytes * operation.elements > 16)
    e.Reject("more than 16 bytes cannot be moved at once");
  return operation;
}

void PutData(FunctionEmitter& e, LaneWords& words, const Operand& operand,
             const ImageOperation& operation) {
  const auto elements = ElementsOf(operand);
  if (elements.size() != operation.elements) {
    e.Reject("a vector has the wrong number of elements");
    return;
  }
  for (unsigned i = 0; i < elements.size() && !e.failed(); ++i) {
    if (operation.element_bytes == 8) {
      words.PutWide(kImageDataWord + 2 * i, e.Read(elements[i], Type::kB64));
    } else {
      const Type type = ptx::BitsType(8U * operation.element_bytes);
      words.Put(kImageDataWord + i, e.b.CreateZExt(e.Read(elements[i], type), e.Int(32)));
    }
  }
}

// suld.b.geometry{.cop}{.vec}.type{.clamp} d, [a, c]
void EmitSuld(FunctionEmitter& e) {
  if (!e.Consume("b")) e.Refuse("only .b is implemented");
  const auto operation = ConsumeSurfaceAccess(e, ImageKind::kSurfaceLoad);
  if (e.failed()) return;
  LaneWords words(e, kImageWords);
  PutHandle(e, words, 1);
  PutCoordinates(e, words, 1, operation.geometry);
  CallRuntime(e, operation, words);
  const auto elements = ElementsOf(e.operand(0));
  if (elements.size() != operation.elements) e.Reject("the destination has the wrong length");
  for (unsigned i = 0; i < elements.size() && !e.failed(); ++i) {
    if (operation.element_bytes == 8) {
      e.Write(elements[i], words.GetWide(2 * i), Type::kB64);
    } else {
      const Type type = ptx::BitsType(8U * operation.element_bytes);
      e.Write(elements[i], e.b.CreateTrunc(words.Get(i), e.TypeOf(type)), type);
    }
  }
  words.End();
}

// sust.{b,p}.geometry{.cop}{.vec}.type{.clamp} [a, c], d
void EmitSust(FunctionEmitter& e) {
  const bool formatted = e.Consume("p");
  if (!formatted && !e.Consume("b")) e.Reject("neither .b nor .p is given");
  auto operation = ConsumeSurfaceAccess(
      e, formatted ? ImageKind::kSurfaceStoreFormatted : ImageKind::kSurfaceStore);
  operation.is_float = e.type() == Type::kF32;
  operation.is_signed = e.type() == Type::kS32;
  if (e.failed()) return;
  LaneWords words(e, kImageWords);
  PutHandle(e, words, 0);
  PutCoordinates(e, words, 0, operation.geometry);
  PutData(e, words, e.operand(1), operation);
  CallRuntime(e, operation, words);
  words.End();
}

// sured.{b,p}.operation.geometry.type{.clamp} [a, c], d
void EmitSured(FunctionEmitter& e) {
  const bool by_texel = e.Consume("p");
  if (!by_texel && !e.Consume("b")) e.Reject("neither .b nor .p is given");
  const bool is_signed = ptx::IsSigned(e.type());
  std::optional<SurfaceReduction> reduction;
  if (e.Consume("add")) reduction = SurfaceReduction::kAdd;
  if (e.Consume("min"))
    reduction = is_signed ? SurfaceReduction::kMinSigned : SurfaceReduction::kMinUnsigned;
  if (e.Consume("max"))
    reduction = is_signed ? SurfaceReduction::kMaxSigned : SurfaceReduction::kMaxUnsigned;
  if (e.Consume("and")) reduction = SurfaceReduction::kAnd;
  if (e.Consume("or")) reduction = SurfaceReduction::kOr;
  if (!reduction.has_value()) e.Reject("it names no operation");
  auto operation = ConsumeSurfaceAccess(e, ImageKind::kSurfaceReduce);
  operation.is_signed = by_texel;
  if (operation.element_bytes < 4) e.Reject("its type has fewer than 32 bits");
  if (e.failed()) return;
  operation.reduction = *reduction;
  LaneWords words(e, kImageWords);
  PutHandle(e, words, 0);
  PutCoordinates(e, words, 0, operation.geometry);
  PutData(e, words, e.operand(1), operation);
  CallRuntime(e, operation, words);
  words.End();
}

constexpr Opcode kTextureOpcodes[] = {
    {"tex", 2, 6, kFloats | kIntegers, EmitTex},
    {"tld4", 2, 4, kFloats | kIntegers, EmitTld4},
    {"txq", 2, 3, kIntegers, EmitQuery},
    {"suq", 2, 2, kIntegers, EmitQuery},
    {"suld", 2, 2, kBytes | kIntegers, EmitSuld},
    {"sust", 2, 2, kBytes | kIntegers | kSingle, EmitSust},
    {"sured", 2, 2, kIntegers, EmitSured},
};

}  // namespace

std::span<const Opcode> TextureOpcodes() { return kTextureOpcodes; }

}  // namespace cuspan::softgpu::emit
