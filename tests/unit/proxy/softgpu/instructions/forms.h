// One case for each form of PTX instructions: its text, and the same computation in C++. The types
// of the C++ function determine the registers and the edge values tested.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace cuspan::ptx_forms {

// Values of types missing in C++, as bits.
struct Half {
  std::uint16_t bits;
};
struct Bf16 {
  std::uint16_t bits;
};
struct Half2 {
  Half low, high;
};
struct Bf162 {
  Bf16 low, high;
};
// A shift amount, a position or a length.
struct Amount {
  std::uint32_t value;
};

enum class Kind : std::uint8_t {
  kPred,
  kU16,
  kS16,
  kU32,
  kS32,
  kU64,
  kS64,
  kHalf,
  kBf16,
  kHalf2,
  kBf162,
  kFloat,
  kDouble,
  kAmount
};

// Allowed error of a result: none (but any NaN equals a NaN), or a bound stated in the PTX ISA. A
// result is right if it is within any of the bounds other than 0.
struct Tolerance {
  double ulps = 0;  // Units in the last place of the result's type.
  double relative = 0;
  double absolute = 0;
  bool exact() const { return ulps == 0 && relative == 0 && absolute == 0; }
};

struct Form {
  std::string group;
  std::string text;  // Instruction(s): registers a, b, c, e in; d (and q) out.
  std::vector<Kind> inputs;
  std::vector<Kind> outputs;
  // Computes the output bits from the input bits.
  std::function<void(const std::uint64_t*, std::uint64_t*)> reference;
  Tolerance tolerance;
  // Returns false for inputs not covered by the reference; they are skipped. Empty if all are
  // covered.
  std::function<bool(const std::uint64_t*)> defined;
  // True if the code of ptxas for GPUs contradicts the PTX ISA: tested on the software GPU only.
  bool gpus_deviate = false;
};

// Instructions on memory or between threads: a kernel of one block. Registers provided for the
// body: %me and %lan (.u32), %in, %out (.u64; %out is the thread's own location), %image (.u64).
struct Program {
  std::string group;
  std::string name;
  std::string body;
  std::string declarations, trailer;  // Text before and after the kernel.
  unsigned threads = 32;
  unsigned words_out = 1;  // 32-bit words written by each thread.
  std::vector<std::uint32_t> input;
  std::vector<std::uint32_t> expected;
  Kind kind = Kind::kU32;  // Kind of the words, for tolerances.
  Tolerance tolerance;
  unsigned shared_bytes = 0;  // Declared as "shared".
  // Creates the texture or surface object; empty if not needed.
  std::function<std::uint64_t(class Gpu&)> image;
  unsigned target = 80;
  // True if drivers may refuse it, though it is in the ISA.
  bool may_be_refused = false;
};

// All cases. Each of forms_*.cc and programs_*.cc adds its own.
std::vector<Form>& Forms();
std::vector<Program>& Programs();
void AddIntegerForms();
void AddFloatForms();
void AddHalfForms();
void AddConvertForms();
void AddCompareForms();
void AddApproximateForms();
void AddVideoForms();
void AddWarpPrograms();
void AddMemoryPrograms();
void AddMatrixPrograms();
void AddTexturePrograms();
void AddSurfacePrograms();
void AddSpacePrograms();
void AddCodePrograms();

// --- C++ types to kinds and bits

template <typename T>
struct TypeTraits;
#define CUSPAN_FORM_TYPE(type, kind_value, to_bits, from_bits) \
  template <>                                                  \
  struct TypeTraits<type> {                                    \
    static constexpr Kind kind = Kind::kind_value;             \
    static std::uint64_t Bits(type v) { return to_bits; }      \
    static type Value(std::uint64_t v) { return from_bits; }   \
  }
CUSPAN_FORM_TYPE(bool, kPred, v ? 1 : 0, v != 0);
CUSPAN_FORM_TYPE(std::uint16_t, kU16, v, static_cast<std::uint16_t>(v));
CUSPAN_FORM_TYPE(std::int16_t, kS16, static_cast<std::uint16_t>(v), static_cast<std::int16_t>(v));
CUSPAN_FORM_TYPE(std::uint32_t, kU32, v, static_cast<std::uint32_t>(v));
CUSPAN_FORM_TYPE(std::int32_t, kS32, static_cast<std::uint32_t>(v), static_cast<std::int32_t>(v));
CUSPAN_FORM_TYPE(std::uint64_t, kU64, v, v);
CUSPAN_FORM_TYPE(std::int64_t, kS64, static_cast<std::uint64_t>(v), static_cast<std::int64_t>(v));
CUSPAN_FORM_TYPE(Half, kHalf, v.bits, Half{static_cast<std::uint16_t>(v)});
CUSPAN_FORM_TYPE(Bf16, kBf16, v.bits, Bf16{static_cast<std::uint16_t>(v)});
CUSPAN_FORM_TYPE(Half2, kHalf2, v.low.bits | std::uint64_t{v.high.bits} << 16,
                 (Half2{{static_cast<std::uint16_t>(v)}, {static_cast<std::uint16_t>(v >> 16)}}));
CUSPAN_FORM_TYPE(Bf162, kBf162, v.low.bits | std::uint64_t{v.high.bits} << 16,
                 (Bf162{{static_cast<std::uint16_t>(v)}, {static_cast<std::uint16_t>(v >> 16)}}));
CUSPAN_FORM_TYPE(Amount, kAmount, v.value, Amount{static_cast<std::uint32_t>(v)});
CUSPAN_FORM_TYPE(float, kFloat, __builtin_bit_cast(std::uint32_t, v),
                 __builtin_bit_cast(float, static_cast<std::uint32_t>(v)));
CUSPAN_FORM_TYPE(double, kDouble, __builtin_bit_cast(std::uint64_t, v),
                 __builtin_bit_cast(double, v));
#undef CUSPAN_FORM_TYPE

template <typename R>
struct ResultTraits {
  static std::vector<Kind> Kinds() { return {TypeTraits<R>::kind}; }
  static void Put(const R& value, std::uint64_t* out) { out[0] = TypeTraits<R>::Bits(value); }
};
template <typename R, typename Q>
struct ResultTraits<std::pair<R, Q>> {
  static std::vector<Kind> Kinds() { return {TypeTraits<R>::kind, TypeTraits<Q>::kind}; }
  static void Put(const std::pair<R, Q>& value, std::uint64_t* out) {
    out[0] = TypeTraits<R>::Bits(value.first);
    out[1] = TypeTraits<Q>::Bits(value.second);
  }
};

// Adds forms of one group.
class FormList {
 public:
  explicit FormList(std::string group) : group_(std::move(group)) {}

  template <typename Function>
  Form& Add(const std::string& text, Function function, Tolerance tolerance = {}) {
    return AddTyped(text, std::function(function), tolerance);
  }

 private:
  template <typename R, typename... A>
  Form& AddTyped(const std::string& text, std::function<R(A...)> function, Tolerance tolerance) {
    Form form;
    form.group = group_;
    form.text = text;
    form.inputs = {TypeTraits<A>::kind...};
    form.outputs = ResultTraits<R>::Kinds();
    form.tolerance = tolerance;
    form.reference = [function](const std::uint64_t* in, std::uint64_t* out) {
      ResultTraits<R>::Put(Call(function, in, std::index_sequence_for<A...>()), out);
    };
    Forms().push_back(std::move(form));
    return Forms().back();
  }
  template <typename R, typename... A, std::size_t... i>
  static R Call(const std::function<R(A...)>& function, const std::uint64_t* in,
                std::index_sequence<i...>) {
    return function(TypeTraits<A>::Value(in[i])...);
  }

  const std::string group_;
};

// Makes a Form::defined from a predicate on the input values.
template <typename... A, typename Predicate>
std::function<bool(const std::uint64_t*)> When(Predicate predicate) {
  return [predicate](const std::uint64_t* in) {
    return [&]<std::size_t... i>(std::index_sequence<i...>) {
      return bool{predicate(TypeTraits<A>::Value(in[i])...)};
    }(std::index_sequence_for<A...>());
  };
}

}  // namespace cuspan::ptx_forms
