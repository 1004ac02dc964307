#include "tests/unit/proxy/softgpu/compiler/random_kernel.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "common/format.h"

namespace cuspan::softgpu {
namespace {

constexpr std::uint32_t kInputWords = 1024;  // A power of two.
constexpr std::uint32_t kCounters = 8;
constexpr int kWords = 10;  // Registers %r0 … for values.
constexpr int kFloats = 4;  // %f0 …; small whole numbers, so all sums are exact.

constexpr std::string_view kFunctions = R"(
.func (.param .b32 result) twist(.param .b32 a, .param .b32 b)
{
  .reg .b32 %r<6>; .reg .pred %p<3>;
  ld.param.b32 %r1, [a]; ld.param.b32 %r2, [b];
  setp.lt.s32 %p1, %r1, %r2;
  @%p1 bra LESS;
  sub.u32 %r3, %r1, %r2;
  setp.gt.u32 %p2, %r3, 1000;
  @%p2 bra FAR;
  mul.lo.u32 %r3, %r3, 3;
  st.param.b32 [result], %r3;
  ret;
FAR:
  shr.u32 %r3, %r3, 3;
  bra END;
LESS:
  xor.b32 %r3, %r1, %r2;
END:
  st.param.b32 [result], %r3;
  ret;
}
.func (.reg .b32 %sum) digits(.reg .b32 %n)
{
  .reg .b32 %r<3>; .reg .pred %p;
  mov.u32 %sum, 0;
AGAIN:
  and.b32 %r1, %n, 15;
  add.u32 %sum, %sum, %r1;
  shr.u32 %n, %n, 5;
  setp.ne.u32 %p, %n, 0;
  @%p bra AGAIN;
  ret;
}
)";

// SplitMix64 (G. Steele, D. Lea, C. Flood, "Fast Splittable Pseudorandom Number Generators").
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t Next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  int Below(int n) { return static_cast<int>(Next() % static_cast<std::uint64_t>(n)); }
  bool OneIn(int n) { return Below(n) == 0; }
  template <std::size_t N>
  std::string_view Of(const std::string_view (&words)[N]) {
    return words[static_cast<std::size_t>(Below(static_cast<int>(N)))];
  }

 private:
  std::uint64_t state_;
};

class Generator {
 public:
  explicit Generator(std::uint64_t seed) : random_(seed) {}

  RandomKernel Make() {
    ChooseShape();
    Begin();
    const int statements = 6 + random_.Below(10);
    for (int i = 0; i < statements; ++i) Statement(0, true);
    End();
    kernel_.ptx = ".version 8.0\n.target sm_80\n.address_size 64\n";
    kernel_.ptx += kFunctions;
    kernel_.ptx += text_;
    kernel_.output_words = threads_ * kernel_.grid * kSlots + kCounters;
    for (std::uint32_t i = 0; i < kInputWords; ++i)
      kernel_.input.push_back(static_cast<std::uint32_t>(random_.Next()) >> random_.Below(32));
    return std::move(kernel_);
  }

 private:
  static constexpr std::uint32_t kSlots = 16;  // Words written by each thread.

  void Add(const std::string& line) { text_ += "  " + line + "\n"; }

  void ChooseShape() {
    static constexpr std::uint32_t kShapes[][3] = {
        {32, 1, 1}, {64, 1, 1}, {128, 1, 1}, {96, 1, 1}, {32, 2, 1}, {16, 4, 1},
        {8, 8, 1},  {16, 2, 2}, {8, 4, 3},   {64, 2, 1}, {4, 8, 2},  {12, 8, 1},
        {33, 1, 1}, {50, 1, 1}, {7, 5, 1},   {16, 3, 1}, {8, 3, 1},  {1, 1, 1}};
    const auto& shape = kShapes[random_.Below(static_cast<int>(std::size(kShapes)))];
    std::copy_n(shape, 3, kernel_.block);
    threads_ = shape[0] * shape[1] * shape[2];
    kernel_.grid = 1 + static_cast<std::uint32_t>(random_.Below(3));
    // Collectives with full masks require whole warps without exited lanes.
    whole_ = threads_ % 32 == 0;
    exits_ = random_.OneIn(3);
  }

  void Begin() {
    text_ += ".visible .entry k(.param .u64 input, .param .u64 output)\n{\n";
    Add(".reg .b32 %r<16>; .reg .b32 %t<12>; .reg .f32 %f<6>; .reg .pred %p<8>; .reg .b64 %d<12>;");
    Add(".reg .b32 %me; .reg .b32 %gid; .reg .b64 %in; .reg .b64 %out; .reg .b32 %m<4>; .reg .b32 "
        "%u<5>; .reg .b32 %v<5>;");
    Add(Format(".reg .b16 %h<2>; .shared .align 4 .b32 board[{}];", threads_));
    Add(".local .align 8 .b32 own[8];");
    Add("ld.param.u64 %in, [input]; cvta.to.global.u64 %in, %in;");
    Add("ld.param.u64 %out, [output]; cvta.to.global.u64 %out, %out;");
    Add("mov.u32 %t0, %tid.x; mov.u32 %t1, %ntid.x; mov.u32 %t2, %tid.y; mov.u32 %t3, %ntid.y;");
    Add("mov.u32 %t4, %tid.z; mad.lo.u32 %t4, %t4, %t3, %t2; mad.lo.u32 %me, %t4, %t1, %t0;");
    Add(Format("mov.u32 %t5, %ctaid.x; mad.lo.u32 %gid, %t5, {}, %me;", threads_));
    Add("add.u64 %d0, %out, 0;");
    Add(Format("mul.wide.u32 %d1, %gid, {}; add.u64 %out, %out, %d1;", kSlots * 4));
    // Registers of all kinds: a stride between lanes, the same in all lanes, or arbitrary.
    Add("mov.u32 %r0, %t0; mov.u32 %r1, %t2; mov.u32 %r2, %gid; mov.u32 %r3, %t5;");
    Add("mul.wide.u32 %d2, %gid, 4; add.u64 %d2, %in, %d2; ld.global.u32 %r4, [%d2];");
    Add("ld.global.u32 %r5, [%in+8]; mul.lo.u32 %r6, %me, 2654435761; shr.u32 %r6, %r6, 7;");
    Add(Format("mov.u32 %r7, {}; mov.u32 %r8, %laneid; add.u32 %r9, %me, {};", random_.Below(1000),
               random_.Below(100)));
    for (int i = 0; i < kFloats; ++i)
      Add(Format("and.b32 %t0, %r{}, 1023; cvt.rn.f32.u32 %f{}, %t0;", i * 2, i));
    for (int i = 0; i < 8; ++i) Add(Format("st.local.u32 [own+{}], %r{};", 4 * i, i));
    for (int i = 0; i < 4; ++i) Add(Format("setp.lt.u32 %p{}, %r{}, {};", i, i + 4, 1 << (4 * i)));
    Add("mov.u32 %m0, -1; mov.u32 %m1, -1;");
  }

  void End() {
    text_ += "FINISH:\n";
    for (int i = 0; i < kWords; ++i) Add(Format("st.global.u32 [%out+{}], %r{};", 4 * i, i));
    for (int i = 0; i < kFloats; ++i)
      Add(Format("st.global.f32 [%out+{}], %f{};", 4 * (kWords + i), i));
    Add("ld.local.u32 %t0, [own+4]; st.global.u32 [%out+56], %t0;");
    Add("ret;");
    text_ += "}\n";
  }

  int Word() { return random_.Below(kWords); }
  std::string Source() {
    if (!random_.OneIn(4)) return Format("%r{}", Word());
    if (random_.OneIn(3)) return Format("{}", Mask());
    return Format("{}", random_.Below(random_.OneIn(3) ? 100000 : 40));
  }
  // A mask of some adjacent bits, or of all others.
  std::int32_t Mask() {
    const auto bits =
        static_cast<std::int32_t>(((1u << random_.Below(11)) - 1) << random_.Below(12));
    return random_.OneIn(3) ? ~bits : bits;
  }
  int Predicate() { return random_.Below(4); }
  std::string Label() { return Format("L{}", labels_++); }

  // A predicate, uniform in the block or different between lanes.
  std::string Condition(bool uniform) {
    // A uniform predicate has its own registers, so it is recognised.
    const int p = uniform ? 6 : Predicate();
    static constexpr std::string_view kComparisons[] = {"lt", "le", "gt", "ge", "eq", "ne"};
    if (uniform) {
      Add(Format("ld.global.u32 %t9, [%in+{}]; setp.{}.u32 %p{}, %t9, {};", 4 * random_.Below(100),
                 random_.Of(kComparisons), p, random_.Below(1 << 20)));
    } else if (random_.OneIn(3)) {
      Add(Format("and.b32 %t6, %r{}, {}; setp.{}.s32 %p{}, %t6, {};", Word(), 1 + random_.Below(15),
                 random_.Of(kComparisons), p, random_.Below(8)));
    } else {
      Add(Format("setp.{}.{} %p{}, %r{}, {};", random_.Of(kComparisons),
                 random_.OneIn(2) ? "s32" : "u32", p, Word(), Source()));
    }
    return Format("%p{}", p);
  }

  // `together`: all threads of the block execute it.
  void Statement(int depth, bool together) {
    if (++statements_ > 120) return;
    const int kind = random_.Below(depth > 3 ? 12 : 20);
    if (kind < 7) {
      Assign("");
    } else if (kind < 8) {
      const std::string p = Condition(false);
      Assign(Format("@{}{} ", random_.OneIn(2) ? "!" : "", p));
    } else if (kind < 9) {
      Floats();
    } else if (kind < 11) {
      Memory();
    } else if (kind < 12) {
      Call();
    } else if (kind < 15) {
      Branch(depth, together);
    } else if (kind < 17) {
      Loop(depth, together);
    } else if (together) {
      if (random_.OneIn(2)) {
        Exchange();
      } else if (!Together()) {
        Exit(depth);
      }
    } else {
      Assign("");
    }
  }

  void Assign(const std::string& guard) {
    const int to = Word();
    static constexpr std::string_view kTwo[] = {"add.u32",    "sub.u32", "mul.lo.u32", "and.b32",
                                                "or.b32",     "xor.b32", "min.s32",    "max.u32",
                                                "mul.hi.u32", "shl.b32", "shr.u32",    "shr.s32",
                                                "div.u32",    "rem.u32", "add.s32"};
    switch (random_.Below(8)) {
      default: {
        const std::string_view op = random_.Of(kTwo);
        std::string second = Source();
        if (op.starts_with("div") || op.starts_with("rem")) {
          Add(Format("or.b32 %t7, %r{}, 1;", Word()));
          second = "%t7";
        }
        Add(Format("{}{} %r{}, %r{}, {};", guard, op, to, Word(), second));
        return;
      }
      case 3:
        Add(Format("{}mad.lo.u32 %r{}, %r{}, {}, %r{};", guard, to, Word(), Source(), Word()));
        return;
      case 4:
        Add(Format("{}lop3.b32 %r{}, %r{}, %r{}, %r{}, {};", guard, to, Word(), Word(), Word(),
                   random_.Below(256)));
        return;
      case 5:
        Add(Format("{}selp.b32 %r{}, %r{}, {}, %p{};", guard, to, Word(), Source(), Predicate()));
        return;
      case 7: {  // 64 bits, like addresses.
        static constexpr std::string_view kWide[] = {"and.b64", "or.b64", "xor.b64", "add.s64"};
        Add(Format("cvt.{}64.{}32 %d5, %r{};", random_.OneIn(2) ? 'u' : 's',
                   random_.OneIn(2) ? 'u' : 's', Word()));
        if (random_.OneIn(2)) Add(Format("shl.b64 %d5, %d5, {};", random_.Below(40)));
        Add(Format("{} %d5, %d5, {};", random_.Of(kWide), Mask()));
        Add(Format("shr.{}64 %d5, %d5, {};", random_.OneIn(2) ? 'u' : 's', random_.Below(40)));
        Add(Format("{}cvt.u32.u64 %r{}, %d5;", guard, to));
        return;
      }
      case 6:
        if (random_.OneIn(2)) {
          Add(Format("{}popc.b32 %r{}, %r{};", guard, to, Word()));
        } else {
          Add(Format("{}prmt.b32 %r{}, %r{}, %r{}, {};", guard, to, Word(), Word(),
                     random_.Below(1 << 16)));
        }
        return;
    }
  }

  void Floats() {
    const int to = random_.Below(kFloats);
    const auto f = [&] { return random_.Below(kFloats); };
    if (random_.OneIn(2)) {
      Add(Format("min.f32 %f4, %f{}, 0f43800000; fma.rn.f32 %f{}, %f4, 0f40400000, %f{};", f(), to,
                 f()));
      Add(Format("min.f32 %f{0}, %f{0}, 0f49742400;", to));
    } else {
      Add(Format("and.b32 %t6, %r{}, 4095; cvt.rn.f32.s32 %f{}, %t6; cvt.rzi.s32.f32 %r{}, %f{};",
                 Word(), to, Word(), f()));
    }
  }

  void Memory() {
    switch (random_.Below(7)) {
      case 5: {  // Several words at any position.
        const bool four = random_.OneIn(2);
        Add(Format("and.b32 %t6, %r{}, {}; mul.wide.u32 %d3, %t6, 4; add.u64 %d3, %in, %d3;",
                   Word(), kInputWords - (four ? 4 : 2)));
        if (four) {
          Add(
              Format("ld.global.v4.u32 {{%t6, %t7, %t8, %t9}}, [%d3]; xor.b32 %t6, %t6, %t7; "
                     "sub.u32 %t8, %t8, %t9; add.u32 %r{}, %t6, %t8;",
                     Word()));
        } else {
          Add(Format("ld.global.v2.u32 {{%t6, %t7}}, [%d3]; sub.u32 %r{}, %t6, %t7;", Word()));
        }
        return;
      }
      case 6: {  // The same for stores, to the thread's own slots.
        const bool four = random_.OneIn(2);
        Add(Format("and.b32 %t6, %r{}, {}; mul.wide.u32 %d3, %t6, 4; add.u64 %d3, %out, %d3;",
                   Word(), four ? 4 : 6));
        if (four) {
          Add(Format("st.global.v4.u32 [%d3], {{%r{}, %r{}, %r{}, %r{}}};", Word(), Word(), Word(),
                     Word()));
        } else {
          Add(Format("st.global.v2.u32 [%d3], {{%r{}, %r{}}};", Word(), Word()));
        }
        Add(Format("ld.global.v2.u16 {{%h0, %h1}}, [%d3+4]; mov.b32 %r{}, {{%h1, %h0}};", Word()));
        return;
      }
      case 0:  // Any position.
        Add(
            Format("and.b32 %t6, %r{}, {}; mul.wide.u32 %d3, %t6, 4; add.u64 %d3, %in, %d3; "
                   "ld.global.u32 %r{}, [%d3];",
                   Word(), kInputWords - 1, Word()));
        return;
      case 1:  // Adjacent words in adjacent lanes.
        Add(
            Format("add.s32 %t6, %me, {}; mul.wide.s32 %d3, %t6, 4; add.s64 %d3, %in, %d3; "
                   "ld.global.u32 %r{}, [%d3+64];",
                   random_.Below(16) - 8, Word()));
        return;
      case 2: {
        const std::string p = Condition(false);
        Add(Format("@{} st.global.u32 [%out+60], %r{};", p, Word()));
        return;
      }
      case 3:
        Add(
            Format("and.b32 %t6, %r{}, 7; mul.wide.u32 %d3, %t6, 4; mov.u64 %d4, own; add.u64 %d3, "
                   "%d3, %d4;",
                   Word()));
        Add(random_.OneIn(2) ? Format("ld.local.u32 %r{}, [%d3];", Word())
                             : Format("st.local.u32 [%d3], %r{};", Word()));
        return;
      case 4:  // The order of these operations does not matter.
        Add(Format("and.b32 %t6, %r{}, {}; mul.wide.u32 %d3, %t6, 4; add.u64 %d3, %d0, %d3;",
                   Word(), kCounters / 2 - 1));
        Add(Format("red.global.{} [%d3+{}], %r{};", random_.OneIn(2) ? "add.u32" : "add.s32",
                   CounterOffset(), Word()));
        return;
    }
  }
  std::uint32_t CounterOffset() const { return threads_ * kernel_.grid * kSlots * 4; }

  void Call() {
    const int to = Word();
    if (random_.OneIn(2)) {
      Add(
          Format("{{ .param .b32 a; .param .b32 b; .param .b32 c; st.param.b32 [a], %r{}; "
                 "st.param.b32 [b], %r{};",
                 Word(), Word()));
      Add(Format("call.uni (c), twist, (a, b); ld.param.b32 %r{}, [c]; }}", to));
    } else {
      Add(Format("call.uni (%r{}), digits, (%r{});", to, Word()));
    }
  }

  void Block(int depth, bool together) {
    const int count = 1 + random_.Below(4);
    for (int i = 0; i < count; ++i) Statement(depth + 1, together);
  }

  void Branch(int depth, bool together) {
    const bool uniform = random_.OneIn(3);
    const std::string end = Label();
    const std::string p = Condition(uniform);
    if (random_.OneIn(2)) {
      Add(Format("@{}{} bra {};", random_.OneIn(2) ? "!" : "", p, end));
      Block(depth, together && uniform);
    } else {
      const std::string other = Label();
      Add(Format("@{} bra {};", p, other));
      Block(depth, together && uniform);
      Add(Format("bra {};", end));
      text_ += other + ":\n";
      Block(depth, together && uniform);
    }
    text_ += end + ":\n";
  }

  void Loop(int depth, bool together) {
    const bool uniform = random_.OneIn(2);
    if (depth > 4) return Assign("");
    // One counter for each depth.
    const std::string counter = Format("%{}{}", uniform ? 'u' : 'v', depth);
    const int more = uniform ? 7 : 4;
    const std::string again = Label(), next = Label(), out = Label();
    if (uniform) {
      Add(Format("mov.u32 {}, {};", counter, 1 + random_.Below(4)));
    } else {
      Add(Format("and.b32 {}, %r{}, 7;", counter, Word()));
    }
    text_ += again + ":\n";
    bool all = together && uniform;
    Block(depth, all);
    if (random_.OneIn(3) && !all) {
      Add(Format("@{} bra {};", Condition(false), out));
      Block(depth, false);
    }
    if (random_.OneIn(3) && !all) {
      Add(Format("@{} bra {};", Condition(false), next));
      Block(depth, false);
    }
    text_ += next + ":\n";
    Add(Format("sub.s32 {0}, {0}, 1; setp.gt.s32 %p{1}, {0}, 0; @%p{1} bra {2};", counter, more,
               again));
    text_ += out + ":\n";
  }

  // Exchanges words between threads through shared memory.
  void Exchange() {
    if (exited_) {
      Assign("");
      return;
    }
    Add("bar.sync 0;");
    Add("mov.u32 %t8, board; shl.b32 %t6, %me, 2; add.u32 %t6, %t6, %t8;");
    Add(Format("st.shared.u32 [%t6], %r{};", Word()));
    Add("bar.sync 0;");
    Add(Format("mad.lo.u32 %t6, %me, {}, {}; rem.u32 %t6, %t6, {}; shl.b32 %t6, %t6, 2;",
               1 + random_.Below(7), random_.Below(50), threads_));
    Add(Format("add.u32 %t6, %t6, %t8; ld.shared.u32 %r{}, [%t6];", Word()));
    if (random_.OneIn(3)) Add(Format("bar.red.popc.u32 %r{}, 0, {};", Word(), Condition(false)));
  }

  // Adds a warp-wide operation; false if not possible here.
  bool Together() {
    if (!whole_ || exited_ || exits_) return false;
    if (random_.OneIn(3)) {
      // Only lanes on one side of a branch take part. All lanes computed the mask before.
      const std::string p = Condition(false);
      const std::string end = Label();
      Add(Format("vote.sync.ballot.b32 %m1, {}, -1; @!{} bra {};", p, p, end));
      Collective("%m1", false);
      if (random_.OneIn(2)) Assign("");
      Collective("%m1", false);
      text_ += end + ":\n";
      Add("bar.warp.sync -1;");
    } else {
      Collective("-1", true);
    }
    return true;
  }

  void Collective(std::string_view mask, bool all) {
    const int to = Word();
    static constexpr std::string_view kModes[] = {"up", "down", "bfly", "idx"};
    static constexpr std::string_view kOperations[] = {"add.u32", "min.s32", "max.u32",
                                                       "and.b32", "or.b32",  "xor.b32"};
    switch (random_.Below(5)) {
      case 0:
        if (all) {
          const auto mode = random_.Of(kModes);
          const int width = 1 << random_.Below(6);
          const std::string offset =
              random_.OneIn(3) ? Format("%r{}", Word()) : Format("{}", random_.Below(32));
          // A lane with a source outside the segment keeps its own value.
          Add(Format("shfl.sync.{}.b32 %r{}|%p5, %r{}, {}, {}, {};", mode, to, Word(), offset,
                     (32 - width) << 8 | (mode == "up" ? 0 : 31), mask));
          Add(Format("selp.b32 %t6, 1, 0, %p5; add.u32 %r{0}, %r{0}, %t6;", Word()));
        } else {
          // Reads from the first active lane.
          Add(Format(
              "brev.b32 %t6, {0}; clz.b32 %t6, %t6; shfl.sync.idx.b32 %r{1}, %r{2}, %t6, 31, "
              "{0};",
              mask, to, Word()));
        }
        return;
      case 1:
        Add(Format("vote.sync.ballot.b32 %r{}, %p{}, {};", to, Predicate(), mask));
        return;
      case 2:
        Add(Format("vote.sync.{}.pred %p{}, %p{}, {};", random_.OneIn(2) ? "any" : "all",
                   Predicate(), Predicate(), mask));
        return;
      case 3:
        Add(Format("and.b32 %t6, %r{}, 3; match.any.sync.b32 %r{}, %t6, {};", Word(), to, mask));
        return;
      case 4:
        Add(Format("redux.sync.{} %r{}, %r{}, {};", random_.Of(kOperations), to, Word(), mask));
        return;
    }
  }

  void Exit(int depth) {
    if (!exits_ || depth > 0 || exited_) {
      Assign("");
      return;
    }
    exited_ = true;
    const std::string p = Condition(false);
    Add(Format("@{} bra FINISH;", p));
    Add(Format("@{} ret;", Condition(false)));
  }

  Random random_;
  RandomKernel kernel_;
  std::string text_;
  std::uint32_t threads_ = 0;
  bool whole_ = false, exits_ = false, exited_ = false;
  int labels_ = 0;
  int statements_ = 0;
};

}  // namespace

RandomKernel MakeRandomKernel(std::uint64_t seed) { return Generator(seed).Make(); }

std::string RandomKernelJson(std::uint64_t seed, const RandomKernel& kernel,
                             const std::vector<std::uint32_t>& output) {
  std::string ptx;
  for (char c : kernel.ptx) ptx += c == '\n' ? std::string("\\n") : std::string(1, c);
  const auto numbers = [](const std::vector<std::uint32_t>& words) {
    std::string text;
    for (auto word : words) AppendFormat(text, "{}{}", text.empty() ? "" : ",", word);
    return text;
  };
  return Format(
      "{{\"seed\":{},\"grid\":{},\"block\":[{},{},{}],\"ptx\":\"{}\",\"input\":[{}],\"output\":[{}]"
      "}}",
      seed, kernel.grid, kernel.block[0], kernel.block[1], kernel.block[2], ptx,
      numbers(kernel.input), numbers(output));
}

}  // namespace cuspan::softgpu
